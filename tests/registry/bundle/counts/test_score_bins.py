import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from registry.bundle.counts.score_bins import SCORE_BINS, malignancy_probability, score_bin


def test_bins_are_closed_below_and_the_last_one_above():
    scores = np.array([0.0, 0.001999, 0.002, 0.5, 0.998, 0.9999, 1.0])
    assert score_bin(scores).tolist() == [0, 0, 1, 250, 499, 499, 499]


def test_rounding_beyond_the_ends_stays_within():
    assert score_bin(np.array([-1e-9, 1 + 1e-6])).tolist() == [0, SCORE_BINS - 1]


def test_single_precision_is_binned_as_the_double_it_is():
    third = np.array([1 / 3], dtype=np.float32)
    assert score_bin(third) == score_bin(third.astype(np.float64))


@given(st.floats(0, 1))
def test_a_bin_holds_its_score_up_to_one_rounding(score):
    bin_ = int(score_bin(np.array(score)))
    exact = min(math.floor(Fraction(score) * SCORE_BINS), SCORE_BINS - 1)
    # 500 p is rounded once, so a score within 1e-13 of an edge may be taken for the edge.
    assert bin_ in (exact, math.floor(Fraction(score) * SCORE_BINS + Fraction(1, 10**12)))


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_higher_score_never_falls_into_a_lower_bin(one, other):
    low, high = sorted((one, other))
    assert score_bin(np.array(low)) <= score_bin(np.array(high))


def test_malignancy_is_the_sum_over_malignant_classes():
    probabilities = np.array([[0.2, 0.3, 0.5], [0.6, 0.1, 0.3]])
    summed = malignancy_probability(probabilities, np.array([True, False, True]))
    np.testing.assert_allclose(summed, [0.7, 0.9])
