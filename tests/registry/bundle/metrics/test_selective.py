import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.bundle.counts.counts import Counts
from registry.bundle.counts.score_bins import SCORE_BINS
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


def test_the_curve_by_hand():
    curve = risk_coverage(counts_of([200, 150, 150, 50], [1, 0, 1, 0]))
    assert curve.threshold_bin.tolist() == list(range(SCORE_BINS))
    for threshold, coverage, risk in [(0, 1, 2 / 4), (50, 1, 2 / 4), (51, 3 / 4, 1 / 3), (151, 1 / 4, 0)]:
        assert curve.coverage[threshold] == pytest.approx(coverage)
        assert curve.risk[threshold] == pytest.approx(risk)
    assert curve.coverage[201] == 0
    assert np.isnan(curve.risk[201])
