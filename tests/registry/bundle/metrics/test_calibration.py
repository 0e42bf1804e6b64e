import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.bundle.counts.count import SCORE_BINS, Counts, count
from registry.bundle.counts.score_bins import LOGIT_BINS
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


@given(
    seed=st.integers(0, 2**32), n=st.integers(1, 200), bins=st.sampled_from([1, 4, 15]), sharp=st.booleans()
)
@settings(max_examples=30)
def test_within_its_edges_it_is_the_exact_error_to_half_a_bin(seed, n, bins, sharp):
    """Eqs. 13 and 14 on the unbinned confidences, in the intervals the diagram shows.

    The widest bin, at one half, is 1/16 of log-odds and 1/64 of probability.
    """
    rng = np.random.default_rng(seed)
    confidence = rng.beta(20 if sharp else 2, 1, size=n)
    right = rng.random(n) < confidence**1.5
    counts = counts_of(confidence, right)
    diagram = reliability(counts, bins)
    total, worst, seen = 0.0, 0.0, 0
    for lower, upper, size in zip(diagram.lower, diagram.upper, diagram.n, strict=True):
        inside = np.array([lower < middle(score) < upper for score in confidence])
        assert inside.sum() == size
        if size:
            gap = abs(right[inside].mean() - confidence[inside].mean())
            total, worst, seen = total + size / n * gap, max(worst, gap), seen + size
    assert seen == n
    assert ece(counts, bins) == pytest.approx(total, abs=1 / 128 + 1e-3)
    assert mce(counts, bins) == pytest.approx(worst, abs=1 / 128 + 1e-3)


@given(seed=st.integers(0, 2**32), bins=st.sampled_from([1, 10, 20]))
@settings(max_examples=20)
def test_fixed_width_is_the_usual_loop(seed, bins):
    rng = np.random.default_rng(seed)
    confidence = rng.beta(3, 1, size=80)
    right = rng.random(80) < confidence
    centred = np.array([middle(score) for score in confidence])
    total = 0.0
    for lower in np.arange(bins) / bins:
        inside = (centred > lower) & (centred < lower + 1 / bins)
        if inside.any():
            total += inside.mean() * abs(right[inside].mean() - centred[inside].mean())
    assert ece(counts_of(confidence, right), bins, binning="width") == pytest.approx(total)


def test_a_confidence_that_tells_the_truth_has_hardly_an_error():
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.3, 1, size=40_000)
    honest = counts_of(confidence, rng.random(40_000) < confidence)
    boasting = counts_of(confidence, rng.random(40_000) < confidence - 0.2)
    assert ece(honest) < 0.015
    assert ece(boasting) == pytest.approx(0.2, abs=0.02)
    assert mce(boasting) >= ece(boasting)


def test_sharp_scores_share_one_bin_and_empty_ones_are_nan():
    counts = counts_of([0.9999] * 10, [1] * 9 + [0])
    diagram = reliability(counts, bins=15)
    assert sorted(diagram.n.tolist()) == [0] * 14 + [10]
    assert np.isnan(diagram.accuracy).sum() == np.isnan(diagram.lower).sum() == 14
    assert ece(counts) == pytest.approx(middle(0.9999) - 0.9)
    assert mce(counts) == pytest.approx(middle(0.9999) - 0.9)


@pytest.mark.parametrize("binning", ["mass", "width"])
def test_counts_along_an_axis_are_each_their_own(predictions, stack, binning):
    several = [count(*predictions(i, 60, 3), malignant=np.arange(3) < 1).point for i in range(5)]
    for figure in (ece, mce):
        together = figure(stack(several), binning=binning)
        alone = [figure(counts, binning=binning) for counts in several]
        np.testing.assert_allclose(together, alone)


def test_nothing_is_known_of_no_pictures(stack):
    assert np.isnan(ece(Counts.zeros(2)))
    assert np.isnan(mce(stack([Counts.zeros(2)] * 3))).all()
