"""Noise in the parts of a distance: as far to either side as their limits are."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.bundle.counts import Counts
from registry.bundle.metrics.calibration import Distance, drawn, ece, mce, reliability
from registry.bundle.metrics.intervals import Limits
from registry.bundle.score_bins import LOGIT_BINS, SCORE_BINS


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


PARTS = Limits(np.array([0.5, 0.9]), np.array([0.2, 0.85]), np.array([0.6, 1.0]))


def test_noise_has_the_limits_of_each_side_as_its_quantiles():
    noise = drawn(PARTS)
    low, high = np.quantile(noise, [0.025, 0.975], axis=0)
    np.testing.assert_allclose(low, PARTS.low - PARTS.value, rtol=0.1)
    np.testing.assert_allclose(high, PARTS.high - PARTS.value, rtol=0.1)


def test_the_lower_limit_takes_off_what_noise_alone_makes_and_is_never_below_its_floor():
    spread = Distance(lambda parts: np.ptp(parts, axis=-1), PARTS, np.array(0.7))
    alone = np.quantile(np.ptp(drawn(PARTS), axis=-1), 0.95)
    found = spread.limits()
    assert found.value == np.ptp(PARTS.value)
    assert found.low == max(0.0, found.value - alone)
    assert found.high == 0.7
    assert found.low < 0.39
    assert replace(spread, floor=0.39).limits().low == 0.39
