import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.bundle.counts.count import SCORE_BINS, Counts, count
from registry.bundle.metrics.calibration import ece, mce, reliability


def counts_of(confidence, right):
    """Counts that hold confidences and whether the answers were right, and nothing else."""
    counts = Counts.zeros(2)
    for score, is_right in zip(confidence, right, strict=True):
        counts.confidence[int(is_right), min(int(score * SCORE_BINS), SCORE_BINS - 1)] += 1
        counts.confusion[0, 0 if is_right else 1] += 1
    return counts


def middle(score):
    return (min(int(score * SCORE_BINS), SCORE_BINS - 1) + 0.5) / SCORE_BINS


def test_two_bins_by_hand():
    """Four pictures below, four above: |1/4 - 0.401| and |3/4 - 0.801| in halves."""
    confidence = [0.400, 0.400, 0.400, 0.400, 0.800, 0.800, 0.800, 0.800]
    right = [1, 0, 0, 0, 1, 1, 1, 0]
    counts = counts_of(confidence, right)
    gaps = [0.401 - 0.25, 0.801 - 0.75]
    assert ece(counts, bins=2) == pytest.approx(np.mean(gaps))
    assert mce(counts, bins=2) == pytest.approx(max(gaps))
    diagram = reliability(counts, bins=2)
    assert diagram.n.tolist() == [4, 4]
    np.testing.assert_allclose(diagram.lower, [0.4, 0.8])
    np.testing.assert_allclose(diagram.upper, [0.402, 0.802])
    np.testing.assert_allclose(diagram.accuracy, [0.25, 0.75])


@given(seed=st.integers(0, 2**32), n=st.integers(15, 120), bins=st.sampled_from([3, 5, 15]))
@settings(max_examples=25)
def test_distinct_scores_fall_into_equally_many_pictures(seed, n, bins):
    """With no two pictures in one score bin, the bins are those of numpy.array_split, one picture apart."""
    rng = np.random.default_rng(seed)
    places = np.sort(rng.choice(SCORE_BINS, size=n, replace=False))
    right = rng.random(n) < 0.6
    diagram = reliability(counts_of((places + 0.5) / SCORE_BINS, right), bins)
    assert diagram.n.sum() == n
    assert diagram.n.max() - diagram.n.min() <= 1


@given(
    seed=st.integers(0, 2**32), n=st.integers(1, 200), bins=st.sampled_from([1, 4, 15]), sharp=st.booleans()
)
@settings(max_examples=30)
def test_within_its_edges_it_is_the_exact_error_to_a_thousandth(seed, n, bins, sharp):
    """Eqs. 13 and 14 on the unbinned confidences, in the intervals the diagram shows."""
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
    assert ece(counts, bins) == pytest.approx(total, abs=1 / 1000 + 1e-9)
    assert mce(counts, bins) == pytest.approx(worst, abs=1 / 1000 + 1e-9)


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
    assert ece(counts) == pytest.approx(0.999 - 0.9)
    assert mce(counts) == pytest.approx(0.999 - 0.9)


@pytest.mark.parametrize("binning", ["mass", "width"])
def test_replicates_are_each_their_own(predictions, binning):
    block = count(*predictions(2, 60, 3), malignant=np.arange(3) < 1, replicates=5)
    for figure in (ece, mce):
        together = figure(block.replicates, binning=binning)
        alone = [figure(block.replicates.replicate(index), binning=binning) for index in range(5)]
        np.testing.assert_allclose(together, alone)


def test_nothing_is_known_of_no_pictures():
    assert np.isnan(ece(Counts.zeros(2)))
    assert np.isnan(mce(Counts.zeros(2, replicates=3))).all()
