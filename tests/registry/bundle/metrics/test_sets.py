import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.bundle.counts.count import SCORE_BINS, Counts, count
from registry.bundle.counts.score_bins import LOGIT_BINS
from registry.bundle.metrics.sets import coverage_at, label_histogram, mean_set_size_at


@given(seed=st.integers(0, 2**32), threshold=st.integers(0, SCORE_BINS))
@settings(max_examples=25)
def test_coverage_and_size_are_exactly_those_of_the_sets(predictions, seed, threshold):
    probabilities, labels = predictions(seed, 50, 4)
    counts = count(probabilities, labels, malignant=np.arange(4) < 1).point
    sets = [[k for k in range(4) if LOGIT_BINS.bin(p[k]) >= threshold] for p in probabilities]
    held = np.mean([label in one for label, one in zip(labels, sets, strict=True)])
    assert coverage_at(counts, threshold) == pytest.approx(held)
    assert mean_set_size_at(counts, threshold) == pytest.approx(np.mean([len(one) for one in sets]))


def test_the_ends(predictions):
    counts = count(*predictions(1, 50, 4), malignant=np.arange(4) < 1).point
    assert label_histogram(counts).sum() == 50
    assert (coverage_at(counts, 0), mean_set_size_at(counts, 0)) == (1, 4)
    assert (coverage_at(counts, SCORE_BINS), mean_set_size_at(counts, SCORE_BINS)) == (0, 0)
    assert np.isnan(coverage_at(Counts.zeros(4), 0))


def test_counts_along_an_axis_are_each_their_own(predictions, stack):
    several = [count(*predictions(i, 50, 3), malignant=np.arange(3) < 1).point for i in range(4)]
    for figure in (coverage_at, mean_set_size_at):
        alone = [figure(counts, 130) for counts in several]
        np.testing.assert_allclose(figure(stack(several), 130), alone)
