from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.bundle.counts.count import SCORE_BINS, Counts, count
from registry.bundle.metrics.selective import aurc, risk_coverage


def counts_of(places, right):
    counts = Counts.zeros(2)
    for place, is_right in zip(places, right, strict=True):
        counts.confidence[int(is_right), place] += 1
        counts.confusion[0, 0 if is_right else 1] += 1
    return counts


def naive_area(wrong):
    """Mean over i of the risk among the first i, for pictures in order of confidence."""
    return np.mean([np.mean(wrong[: i + 1]) for i in range(len(wrong))])


@given(seed=st.integers(0, 2**32), n=st.integers(1, 60))
@settings(max_examples=25)
def test_area_of_distinct_confidences_is_the_definition(seed, n):
    rng = np.random.default_rng(seed)
    places = rng.choice(SCORE_BINS, size=n, replace=False)
    right = rng.random(n) < 0.7
    wrong = 1 - right[np.argsort(-places)].astype(int)
    assert aurc(counts_of(places, right)) == pytest.approx(naive_area(wrong))


def test_area_of_equal_confidences_is_the_mean_over_their_orders():
    places, right = [200, 150, 150, 150, 150, 50], [1, 1, 0, 1, 0, 0]
    tied = [1 - value for value in right[1:5]]
    expected = np.mean([naive_area([0, *order, 1]) for order in permutations(tied)])
    assert aurc(counts_of(places, right)) == pytest.approx(expected)


def test_the_curve_by_hand():
    curve = risk_coverage(counts_of([200, 150, 150, 50], [1, 0, 1, 0]))
    assert curve.threshold_bin.tolist() == list(range(SCORE_BINS))
    for threshold, coverage, risk in [(0, 1, 2 / 4), (50, 1, 2 / 4), (51, 3 / 4, 1 / 3), (151, 1 / 4, 0)]:
        assert curve.coverage[threshold] == pytest.approx(coverage)
        assert curve.risk[threshold] == pytest.approx(risk)
    assert curve.coverage[201] == 0
    assert np.isnan(curve.risk[201])


def test_an_order_that_puts_wrong_answers_last_has_the_smaller_area():
    good = aurc(counts_of([200, 150, 100, 50], [1, 1, 1, 0]))
    bad = aurc(counts_of([200, 150, 100, 50], [0, 1, 1, 1]))
    assert good < bad


def test_counts_along_an_axis_are_each_their_own(predictions, stack):
    several = [count(*predictions(i, 60, 3), malignant=np.arange(3) < 1).point for i in range(5)]
    np.testing.assert_allclose(aurc(stack(several)), [aurc(counts) for counts in several])
    assert risk_coverage(stack(several)).risk.shape == (5, SCORE_BINS)


def test_nothing_is_known_of_no_pictures(stack):
    assert np.isnan(aurc(Counts.zeros(2)))
    assert np.isnan(aurc(stack([Counts.zeros(2)] * 2))).all()
