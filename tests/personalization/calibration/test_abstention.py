"""Abstention thresholds against trying every threshold on the pictures themselves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from personalization.calibration.abstention import AbstentionConfig, fit_abstention
from registry.bundle.counts.count import SCORE_BINS, score_bin

answers = st.lists(st.tuples(st.floats(0.3, 1.0), st.booleans()), max_size=60)


def place(value):
    """The bin of a confidence."""
    return int(score_bin(np.array(value)))


def counts_of(pictures):
    """The histogram of (confidence, right) pairs."""
    confidence = np.zeros((2, SCORE_BINS), dtype=np.int64)
    for value, right in pictures:
        confidence[int(right), place(value)] += 1
    return confidence


@given(answers, st.sampled_from([0.0, 0.05, 0.1, 0.2, 0.5]), st.sampled_from([1, 5]))
@settings(max_examples=80)
def test_no_threshold_within_the_target_reports_more(pictures, target, fewest):
    threshold = fit_abstention(counts_of(pictures), AbstentionConfig(target_risk=target, min_reported=fewest))

    bins = np.array([int(score_bin(np.array(value))) for value, _ in pictures], dtype=int)
    wrong = np.array([not right for _, right in pictures], dtype=bool)
    best = 0
    for at in range(SCORE_BINS):
        kept = bins >= at
        if kept.sum() >= fewest and wrong[kept].sum() <= target * kept.sum() + 1e-9:
            best = max(best, int(kept.sum()))

    reported = bins >= threshold.threshold_bin
    assert reported.sum() == best
    assert threshold.n == len(pictures)
    if best:
        assert threshold.risk == pytest.approx(wrong[reported].mean())
        assert threshold.risk <= target
        assert threshold.coverage == pytest.approx(reported.mean())
    else:
        assert threshold.refers_always
        assert threshold.threshold_bin == SCORE_BINS
        assert threshold.risk is None
        assert threshold.coverage == 0


def test_the_threshold_is_the_least_confident_picture_that_is_reported():
    pictures = [(0.4, False), (0.5, True), (0.7, False), (0.8, True), (0.9, True), (0.95, True)]

    threshold = fit_abstention(counts_of(pictures), AbstentionConfig(target_risk=0.2, min_reported=1))

    # From 0.5 on, one in five is wrong: exactly the target. The bins between 0.4 and 0.5 report the same.
    assert threshold.threshold_bin == place(0.5)
    assert threshold.risk == 0.2
    assert threshold.coverage == pytest.approx(5 / 6)


def test_a_target_that_everything_meets_reports_every_calibration_picture():
    threshold = fit_abstention(
        counts_of([(0.55, True), (0.9, False)] * 10), AbstentionConfig(target_risk=0.5)
    )

    assert (threshold.threshold_bin, threshold.coverage, threshold.risk) == (place(0.55), 1.0, 0.5)


def test_a_handful_of_lucky_pictures_does_not_open_the_gate():
    pictures = [(0.9, True)] * 9 + [(0.5, False)] * 20

    assert fit_abstention(counts_of(pictures), AbstentionConfig()).refers_always
    assert fit_abstention(counts_of([*pictures, (0.9, True)]), AbstentionConfig()).threshold_bin == place(0.9)


def test_nothing_is_reported_below_the_threshold_of_the_prediction_set():
    pictures = [(0.55, True)] * 10 + [(0.85, True)] * 12 + [(0.95, False)]
    counts = counts_of(pictures)

    assert fit_abstention(counts, AbstentionConfig()).threshold_bin == place(0.55)
    strict = fit_abstention(counts, AbstentionConfig(), lowest=place(0.8))
    assert (strict.threshold_bin, strict.coverage) == (place(0.85), pytest.approx(13 / 23))
    assert strict.risk == pytest.approx(1 / 13)
    # One picture is too few to open the gate.
    assert fit_abstention(counts, AbstentionConfig(), lowest=place(0.9)).refers_always


def test_without_pictures_every_answer_is_referred():
    threshold = fit_abstention(counts_of([]), AbstentionConfig())

    assert threshold.refers_always
    assert threshold.n == 0
    assert threshold.coverage == 0
