"""Abstention thresholds against limits from the beta distribution, and against the long run."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from personalization.calibration.abstention import (
    AbstentionConfig,
    fit_abstention,
    propose_thresholds,
)
from personalization.calibration.at_thresholds import CountsAt
from registry.bundle.counts.score_bins import SCORE_BINS, score_bin

answers = st.lists(st.tuples(st.floats(0.3, 1.0), st.booleans()), max_size=200)


def place(value):
    """The bin of a confidence."""
    return int(score_bin(np.array(value)))


def counts_of(pictures):
    """The histogram of (confidence, right) pairs: of all, and of wrong ones."""
    confidence = np.zeros((2, SCORE_BINS), dtype=np.int64)
    for value, right in pictures:
        confidence[0, place(value)] += 1
        confidence[1, place(value)] += not right
    return confidence


def fit(pictures, config=None, lowest=0):
    """The threshold, from exact counts."""
    config, counts = config or AbstentionConfig(), counts_of(pictures)
    return fit_abstention(CountsAt.of(counts, propose_thresholds(counts[0], config)), config, lowest)


def by_hand(pictures, target, failures, lowest):
    """The lowest threshold that the fallback procedure allows, from the pictures themselves."""
    bins = np.array([place(value) for value, _ in pictures], dtype=int)
    wrong = np.array([not right for _, right in pictures], dtype=bool)
    fifths = []
    for step in range(1, 6):
        within = [
            at for at in sorted(set(bins.tolist())) if (bins >= at).sum() <= np.ceil(len(bins) * step / 5)
        ]
        fifths += within[:1]
    tested = []
    for m in range(len(set(fifths)), 0, -1):
        able = [at for at in sorted(set(fifths)) if (1 - target) ** (bins >= at).sum() <= failures / m]
        if len(able) >= m:
            tested = able[:m][::-1]
            break
    chosen, share = SCORE_BINS, 0.0
    for at in tested:
        kept = bins >= at
        share += failures / len(tested)
        errors = wrong[kept].sum()
        high = beta.ppf(1 - share, errors + 1, kept.sum() - errors) if errors < kept.sum() else 1.0
        share = share if high <= target else 0.0
        chosen = at if high <= target and at >= lowest else chosen
    return chosen


@given(
    answers,
    st.sampled_from([0.0, 0.05, 0.1, 0.2, 0.5]),
    st.sampled_from([0.05, 0.1, 0.2]),
    st.sampled_from([0, place(0.6), place(0.9)]),
)
def test_the_threshold_is_the_lowest_that_is_allowed(pictures, target, failures, lowest):
    threshold = fit(pictures, AbstentionConfig(target_risk=target, failures=failures), lowest)

    assert threshold.threshold_bin == by_hand(pictures, target, failures, lowest)
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
    seen = fit(pictures, AbstentionConfig(target_risk=0.1))
    assert seen.refers_always, "one in two models that are seen to be so is over it"
    few = fit(pictures, AbstentionConfig(target_risk=0.2))
    assert (few.threshold_bin, few.risk) == (place(0.9), pytest.approx(0.1))
    assert few.risk_high == pytest.approx(beta.ppf(0.95, 11, 90))


def test_29_right_answers_open_the_gate_and_28_do_not():
    right = [(0.9, True)] * 28
    assert fit(right).refers_always
    assert fit([*right, (0.9, True)]).threshold_bin == place(0.9)


def test_of_fifths_of_29_pictures_no_part_is_spent_on_those_that_can_show_nothing():
    confidence = counts_of([(0.5 + k / 60, True) for k in range(29)])[0]
    assert propose_thresholds(confidence, AbstentionConfig()) == (place(0.5),)


def test_what_is_tested_does_not_hang_on_who_was_right():
    """Nor on the prediction set, whose threshold labels decide."""
    random = np.random.default_rng(0)
    confidence = random.uniform(0.5, 1, 400)
    tested = [
        propose_thresholds(counts_of(zip(confidence, right, strict=True))[0], AbstentionConfig())
        for right in (np.ones(400, dtype=bool), random.random(400) < 0.5)
    ]
    assert tested[0] == tested[1]
    assert len(tested[0]) == 5


def test_what_is_held_back_is_no_threshold():
    confidence = np.zeros(SCORE_BINS, dtype=np.int64)
    confidence[[0, 200]] = 60, 50
    assert propose_thresholds(confidence, AbstentionConfig()) == (200,)


def test_a_model_that_is_wrong_too_often_is_hardly_ever_allowed_to_answer():
    """Errors of 0.12 at every confidence, a target of 0.1, and at most one fit in twenty astray."""
    random = np.random.default_rng(1)
    astray = {"observed": 0, "limit": 0}
    for _ in range(200):
        pictures = list(zip(random.uniform(0.5, 1, 100), random.random(100) >= 0.12, strict=True))
        counts = counts_of(pictures)
        reported, wrong = counts[:, ::-1].cumsum(axis=1)[:, ::-1]
        astray["observed"] += bool(((reported >= 10) & (wrong <= 0.1 * reported)).any())
        astray["limit"] += not fit(pictures).refers_always
    assert astray["limit"] <= 10
    assert astray["observed"] > 100, "the control: what was seen is no bound"


def test_nothing_is_reported_below_the_threshold_of_the_prediction_set():
    pictures = [(0.55, True)] * 40 + [(0.85, True)] * 60
    assert fit(pictures).threshold_bin == place(0.55)
    strict = fit(pictures, lowest=place(0.8))
    assert (strict.threshold_bin, strict.coverage) == (place(0.85), pytest.approx(0.6))
    # Nobody is as confident as the set asks for.
    assert fit(pictures, lowest=place(0.9)).refers_always


def test_without_pictures_every_answer_is_referred():
    threshold = fit([])

    assert threshold.refers_always
    assert threshold.n == 0
    assert threshold.coverage == 0
