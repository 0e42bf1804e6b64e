"""What a hospital tells of calibration pictures, where some are referred whatever their confidence."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from personalization.calibration.calibration_counts import CalibrationCounts
from registry.bundle.counts.score_bins import SCORE_BINS, is_held_back, score_bin

MALIGNANT = np.array([True, False, False])


def drawn(seed, n):
    random = np.random.default_rng(seed)
    return random.dirichlet([1, 1, 1], n), random.integers(0, 3, n), random.integers(0, 40, n)


@given(st.integers(0, 2**32), st.integers(1, 60), st.integers(100, 200))
def test_no_threshold_reports_what_is_held_back(seed, n, suspicious_from):
    probabilities, labels, patients = drawn(seed, n)
    answers = probabilities.argmax(axis=1)
    held_back = is_held_back(probabilities, answers, MALIGNANT, suspicious_from)
    counted = CalibrationCounts.count(probabilities, labels, patients, 1, held_back)
    confidence = score_bin(probabilities.max(axis=1))
    assert (~held_back).all() or counted.confidence[0, 0] == held_back.sum()
    for threshold in range(1, len(counted.truth)):
        reported = (confidence >= threshold) & ~held_back
        told = counted.confidence[:, threshold:].sum(axis=1)
        assert told.tolist() == [reported.sum(), (reported & (answers != labels)).sum()]


@given(st.integers(0, 2**32), st.integers(20, 60), st.integers(100, 200))
def test_what_is_held_back_is_told_in_runs_of_several_patients_too(seed, n, suspicious_from):
    probabilities, labels, patients = drawn(seed, n)
    held_back = is_held_back(probabilities, probabilities.argmax(axis=1), MALIGNANT, suspicious_from)
    plain, counted = (
        CalibrationCounts.count(probabilities, labels, patients, 5, of) for of in (None, held_back)
    )
    assert (counted.truth == plain.truth).all(), "sets have nothing to do with referral"
    assert counted.confidence[0].sum() == n
    for histogram in (counted.truth, counted.confidence[0]):
        assert histogram[histogram > 0].min() >= 5
    if held_back.any():
        assert counted.confidence[0, 0] >= held_back.sum()


@given(st.integers(0, 2**32), st.integers(2, 60), st.integers(1, 3), st.integers(0, 200))
def test_at_any_threshold_merged_counts_are_on_the_safe_side(seed, n, hospitals, suspicious_from):
    """No fewer wrong, no more right; at the threshold of a run, of one hospital, exactly as many."""
    probabilities, labels, patients = drawn(seed, n)
    answers = probabilities.argmax(axis=1)
    held_back = is_held_back(probabilities, answers, MALIGNANT, suspicious_from or None)
    places = np.random.default_rng(seed).integers(0, hospitals, n)
    told = np.zeros((2, SCORE_BINS), dtype=np.int64)
    for at in (places == place for place in range(hospitals)):
        told += CalibrationCounts.count(
            probabilities[at], labels[at], patients[at], 5, held_back[at]
        ).confidence
    confidence = np.where(held_back, 0, score_bin(probabilities.max(axis=1)))
    for threshold in range(1, SCORE_BINS):
        reported, wrong = told[:, threshold:].sum(axis=1)
        of, errors = (confidence >= threshold).sum(), ((confidence >= threshold) & (answers != labels)).sum()
        assert wrong >= errors
        assert reported - wrong <= of - errors
        if hospitals == 1 and told[0, threshold]:
            assert (reported, wrong) == (of, errors)
