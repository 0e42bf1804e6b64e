import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.bundle.counts.score_bins import (
    LOGIT_BINS,
    SCORE_BINS,
    bins_of,
    malignancy_probability,
    score_bin,
)
from registry.bundle.errors import CountsError


def test_bins_are_wide_by_log_odds_and_symmetric():
    edges = LOGIT_BINS.edges
    assert len(LOGIT_BINS) == SCORE_BINS == 320
    inside = np.log(edges[1:-1] / (1 - edges[1:-1]))
    np.testing.assert_allclose(inside[31:-31], np.arange(-8, 8.01, 1 / 16), atol=1e-6)
    np.testing.assert_allclose(inside[-32:], np.arange(8, 15.76, 0.25), rtol=1e-4)
    np.testing.assert_allclose(edges + edges[::-1], 1, atol=1e-12)
    assert edges[160] == 0.5
    assert (edges[0], edges[-1]) == (0, 1)
    assert ((edges[:-1] < LOGIT_BINS.middles) & (LOGIT_BINS.middles < edges[1:])).all()


def test_bins_are_closed_below_and_the_last_one_above():
    assert score_bin(np.array([0.0, 0.4999, 0.5, 0.5156, 0.5157, 1.0])).tolist() == [
        0,
        159,
        160,
        160,
        161,
        319,
    ]
    assert score_bin(LOGIT_BINS.edges[:-1]).tolist() == list(range(320))


def test_scores_that_equal_bins_cannot_tell_apart_are_told_apart():
    """Under 1/500 and over 499/500, where a network is sure."""
    scores = np.array([1e-6, 1e-5, 1e-4, 1e-3, 0.999, 0.9999, 0.99999])
    assert len(set(score_bin(scores).tolist())) == len(scores)
    assert len(set(np.floor(scores * 500).tolist())) == 2


def test_a_mirrored_bin_is_that_of_the_other_class():
    scores = np.array([0.01, 0.2, 0.49, 0.77, 0.9999])
    np.testing.assert_array_equal(LOGIT_BINS.mirrored(score_bin(scores)), score_bin(1 - scores))


def test_bins_are_told_apart_by_how_many_they_are():
    assert bins_of(320) is LOGIT_BINS
    with pytest.raises(CountsError, match=r"has 64 bins; 16 \(logit-16\) or 320 \(logit-320\) are"):
        bins_of(64)


def test_rounding_beyond_the_ends_stays_within():
    assert score_bin(np.array([-1e-9, 1 + 1e-6])).tolist() == [0, SCORE_BINS - 1]


def test_single_precision_is_binned_as_the_double_it_is():
    third = np.array([1 / 3], dtype=np.float32)
    assert score_bin(third) == score_bin(third.astype(np.float64))


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_higher_score_never_falls_into_a_lower_bin(one, other):
    low, high = sorted((one, other))
    assert score_bin(np.array(low)) <= score_bin(np.array(high))


def test_malignancy_is_the_sum_over_malignant_classes():
    probabilities = np.array([[0.2, 0.3, 0.5], [0.6, 0.1, 0.3]])
    summed = malignancy_probability(probabilities, np.array([True, False, True]))
    np.testing.assert_allclose(summed, [0.7, 0.9])
