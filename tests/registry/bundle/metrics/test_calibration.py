import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.bundle.counts.counts import Counts
from registry.bundle.counts.score_bins import LOGIT_BINS, SCORE_BINS
from registry.bundle.metrics.calibration import ece, mce, reliability


def counts_of(confidence, right):
    """Counts that hold confidences and whether the answers were right, and nothing else."""
    counts = Counts.zeros(2)
    for score, is_right in zip(confidence, right, strict=True):
        counts.confidence[int(is_right), LOGIT_BINS.bin(score)] += 1
        counts.confusion[0, 0 if is_right else 1] += 1
    return counts


def middle(score):
    return LOGIT_BINS.middles[LOGIT_BINS.bin(score)]


def test_two_bins_by_hand():
    """Four pictures below, four above: |1/4 - 0.4| and |3/4 - 0.8| in halves, with the middles of bins."""
    confidence = [0.400, 0.400, 0.400, 0.400, 0.800, 0.800, 0.800, 0.800]
    right = [1, 0, 0, 0, 1, 1, 1, 0]
    counts = counts_of(confidence, right)
    gaps = [middle(0.4) - 0.25, middle(0.8) - 0.75]
    assert ece(counts, bins=2) == pytest.approx(np.mean(gaps))
    assert mce(counts, bins=2) == pytest.approx(max(gaps))
    diagram = reliability(counts, bins=2)
    assert diagram.n.tolist() == [4, 4]
    places = LOGIT_BINS.bin(np.array([0.4, 0.8]))
    np.testing.assert_allclose(diagram.lower, LOGIT_BINS.edges[places])
    np.testing.assert_allclose(diagram.upper, LOGIT_BINS.edges[places + 1])
    np.testing.assert_allclose(diagram.accuracy, [0.25, 0.75])


@given(seed=st.integers(0, 2**32), n=st.integers(15, 120), bins=st.sampled_from([3, 5, 15]))
@settings(max_examples=25)
def test_distinct_scores_fall_into_equally_many_pictures(seed, n, bins):
    """With no two pictures in one score bin, the bins are those of numpy.array_split, one picture apart."""
    rng = np.random.default_rng(seed)
    places = np.sort(rng.choice(SCORE_BINS, size=n, replace=False))
    right = rng.random(n) < 0.6
    diagram = reliability(counts_of(LOGIT_BINS.middles[places], right), bins)
    assert diagram.n.sum() == n
    assert diagram.n.max() - diagram.n.min() <= 1
