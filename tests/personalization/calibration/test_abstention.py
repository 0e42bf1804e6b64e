"""Abstention thresholds against limits from the beta distribution, and against the long run."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from personalization.calibration.abstention import (
    AbstentionConfig,
    bins_to_test,
    fit_abstention,
)
from registry.bundle.counts.count import SCORE_BINS, score_bin

answers = st.lists(st.tuples(st.floats(0.3, 1.0), st.booleans()), max_size=200)


def place(value):
    """The bin of a confidence."""
    return int(score_bin(np.array(value)))


def counts_of(pictures):
    """The histogram of (confidence, right) pairs."""
    confidence = np.zeros((2, SCORE_BINS), dtype=np.int64)
    for value, right in pictures:
        confidence[int(right), place(value)] += 1
    return confidence


def at_or_above(counts):
    """Pictures at or above each bin."""
    return counts.sum(axis=0)[::-1].cumsum()[::-1]


def by_hand(pictures, target, failures):
    """The lowest threshold that the fallback procedure allows, from the pictures themselves."""
    bins = np.array([place(value) for value, _ in pictures], dtype=int)
    wrong = np.array([not right for _, right in pictures], dtype=bool)
    tested = []
    for step in range(1, 6):
        within = [
            at for at in sorted(set(bins.tolist())) if (bins >= at).sum() <= np.ceil(len(bins) * step / 5)
        ]
        within = [at for at in within if target and (1 - target) ** (bins >= at).sum() <= failures]
        if within and within[0] not in tested:
            tested.append(within[0])
    chosen, share = SCORE_BINS, 0.0
    for at in tested:
        kept = bins >= at
        share += failures / len(tested)
        errors = wrong[kept].sum()
        high = beta.ppf(1 - share, errors + 1, kept.sum() - errors) if errors < kept.sum() else 1.0
        chosen, share = (at, share) if high <= target else (chosen, 0.0)
    return chosen


@given(answers, st.sampled_from([0.0, 0.05, 0.1, 0.2, 0.5]), st.sampled_from([0.05, 0.1, 0.2]))
def test_the_threshold_is_the_lowest_that_is_allowed(pictures, target, failures):
    threshold = fit_abstention(counts_of(pictures), AbstentionConfig(target_risk=target, failures=failures))

    assert threshold.threshold_bin == by_hand(pictures, target, failures)
    assert (threshold.n, threshold.level) == (len(pictures), 1 - failures)
    bins = np.array([place(value) for value, _ in pictures], dtype=int)
    wrong = np.array([not right for _, right in pictures], dtype=bool)
    reported = bins >= threshold.threshold_bin
    if threshold.refers_always:
        assert (threshold.risk, threshold.risk_high, threshold.coverage) == (None, None, 0)
    else:
        assert threshold.risk == pytest.approx(wrong[reported].mean())
        assert threshold.risk <= threshold.risk_high <= target
        assert threshold.coverage == pytest.approx(reported.mean())


def test_ten_in_a_hundred_wrong_is_not_shown_to_be_so_few():
    pictures = [(0.9, k >= 10) for k in range(100)]
    seen = fit_abstention(counts_of(pictures), AbstentionConfig(target_risk=0.1))
    assert seen.refers_always, "the first version answered all of them: one in two such models is over it"
    few = fit_abstention(counts_of(pictures), AbstentionConfig(target_risk=0.15))
    assert (few.threshold_bin, few.risk) == (place(0.9), pytest.approx(0.1))
    assert few.risk_high == pytest.approx(beta.ppf(0.9, 11, 90))


def test_twenty_two_right_answers_open_the_gate_and_twenty_one_do_not():
    right = [(0.9, True)] * 21
    assert fit_abstention(counts_of(right), AbstentionConfig()).refers_always
    assert fit_abstention(counts_of([*right, (0.9, True)]), AbstentionConfig()).threshold_bin == place(0.9)


def test_what_is_tested_does_not_hang_on_who_was_right():
    random = np.random.default_rng(0)
    confidence = random.uniform(0.5, 1, 300)
    tested = [
        bins_to_test(at_or_above(counts_of(zip(confidence, right, strict=True))), 0, AbstentionConfig())
        for right in (np.ones(300, dtype=bool), random.random(300) < 0.5)
    ]
    assert tested[0] == tested[1]
    assert len(tested[0]) == 5
    assert tested[0] == sorted(tested[0], reverse=True), "the most confident first"


def test_a_model_that_is_wrong_too_often_is_hardly_ever_allowed_to_answer():
    """Errors of 0.12 at every confidence, a target of 0.1, and at most a tenth of fits astray."""
    random = np.random.default_rng(1)
    astray = {"observed": 0, "limit": 0}
    for _ in range(200):
        pictures = list(zip(random.uniform(0.5, 1, 100), random.random(100) >= 0.12, strict=True))
        counts = counts_of(pictures)
        reported, wrong = at_or_above(counts), counts[0][::-1].cumsum()[::-1]
        astray["observed"] += bool(((reported >= 10) & (wrong <= 0.1 * reported)).any())
        astray["limit"] += not fit_abstention(counts, AbstentionConfig()).refers_always
    assert astray["limit"] <= 20
    assert astray["observed"] > 100, "the control: what was seen is no bound"


def test_nothing_is_reported_below_the_threshold_of_the_prediction_set():
    pictures = [(0.55, True)] * 40 + [(0.85, True)] * 60
    counts = counts_of(pictures)

    assert fit_abstention(counts, AbstentionConfig()).threshold_bin == place(0.55)
    strict = fit_abstention(counts, AbstentionConfig(), lowest=place(0.8))
    assert (strict.threshold_bin, strict.coverage) == (place(0.85), pytest.approx(0.6))
    # Nobody is as confident as the set asks for.
    assert fit_abstention(counts, AbstentionConfig(), lowest=place(0.9)).refers_always


def test_without_pictures_every_answer_is_referred():
    threshold = fit_abstention(counts_of([]), AbstentionConfig())

    assert threshold.refers_always
    assert threshold.n == 0
    assert threshold.coverage == 0
