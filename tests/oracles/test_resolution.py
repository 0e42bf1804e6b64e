"""Figures of histograms against those of the scores themselves, within the stated resolution."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.metrics import average_precision_score, roc_auc_score

from personalization.calibration.conformal import ConformalConfig, fit_threshold
from registry.bundle.counts.count import SCORE_BINS, Counts, score_bin
from registry.bundle.counts.score_bins import LOGIT_BINS
from registry.bundle.metrics.calibration import ece, mce
from registry.bundle.metrics.classification import auprcs, aurocs, malignancy_auroc
from registry.bundle.metrics.selective import aurc, risk_coverage

FEW = settings(max_examples=25, deadline=None)
SEED = st.integers(0, 2**32)
HALF_A_BIN = 0.5 / SCORE_BINS + 1e-9


def counts_of(confidence, right):
    """Counts that hold confidences and whether the answers were right."""
    counts = Counts.zeros(2)
    np.add.at(counts.confidence, (right.astype(int), score_bin(confidence)), 1)
    np.add.at(counts.confusion, (0, 1 - right.astype(int)), 1)
    return counts


def errors_of(right, confidence, bins, strategy):
    """ECE and MCE from the curve of scikit-learn, which keeps the bins that hold pictures, in their order."""
    accuracy, mean = calibration_curve(right, confidence, n_bins=bins, strategy=strategy)
    if strategy == "quantile":
        edges = np.quantile(confidence, np.linspace(0, 1, bins + 1))
    else:
        edges = np.linspace(0, 1, bins + 1)
    sizes = np.bincount(np.searchsorted(edges[1:-1], confidence), minlength=bins)
    gaps = np.abs(accuracy - mean)
    return (sizes[sizes > 0] / len(right) * gaps).sum(), gaps.max()


@given(seed=SEED, n=st.integers(2, 300), bins=st.sampled_from([2, 5, 10, 20, 50]))
@FEW
def test_errors_of_fixed_width_are_scikit_learns_to_a_thousandth(seed, n, bins):
    """The bins' edges are edges of score bins, so that both sort the pictures alike."""
    rng = np.random.default_rng(seed)
    confidence = rng.beta(3, 1, size=n)
    right = rng.random(n) < confidence**2
    assume(0 < right.sum() < n)
    expected, largest = errors_of(right, confidence, bins, "uniform")
    counts = counts_of(confidence, right)
    assert ece(counts, bins, "width") == pytest.approx(expected, abs=HALF_A_BIN)
    assert mce(counts, bins, "width") == pytest.approx(largest, abs=HALF_A_BIN)


@given(seed=SEED, each=st.integers(1, 20), bins=st.sampled_from([2, 5, 15]))
@FEW
def test_errors_of_equal_mass_are_scikit_learns_to_a_thousandth(seed, each, bins):
    """Where no two pictures share a score bin and all bins can hold equally many."""
    rng = np.random.default_rng(seed)
    n = each * bins
    confidence = (
        rng.choice(SCORE_BINS, size=n, replace=False) + rng.uniform(0.01, 0.99, size=n)
    ) / SCORE_BINS
    right = rng.random(n) < confidence
    assume(0 < right.sum() < n)
    expected, largest = errors_of(right, confidence, bins, "quantile")
    counts = counts_of(confidence, right)
    assert ece(counts, bins) == pytest.approx(expected, abs=HALF_A_BIN)
    assert mce(counts, bins) == pytest.approx(largest, abs=HALF_A_BIN)


def drawn(seed, n, sharp):
    """Scores and whether each picture is of the class; sharp scores crowd into a few bins."""
    rng = np.random.default_rng(seed)
    truth = rng.random(n) < 0.4
    scores = rng.beta(np.where(truth, 2, 1), np.where(truth, 1, 2))
    return (scores / 40 if sharp else scores), truth


def histograms(scores, truth):
    counts = Counts.zeros(2)
    for k, (score, is_class) in enumerate([(1 - scores, ~truth), (scores, truth)]):
        np.add.at(counts.scores[k], (is_class.astype(int), score_bin(score)), 1)
    np.add.at(counts.malignancy, (truth.astype(int), score_bin(scores)), 1)
    return counts


@given(seed=SEED, n=st.integers(2, 400), sharp=st.booleans())
@FEW
def test_average_precision_is_off_by_no_more_than_the_order_within_bins_allows(seed, n, sharp):
    """With T of N above a bin of p positives and q negatives, the precision at each of the p, whatever their
    order, and that at the bin's end lie between (T + 1) / (N + q + 1) and (T + p) / (N + p)."""
    scores, truth = drawn(seed, n, sharp)
    assume(0 < truth.sum() < n)
    bound, positives_above, above = 0.0, 0, 0
    for place in sorted(set(score_bin(scores)), reverse=True):
        inside = score_bin(scores) == place
        p, q = int(truth[inside].sum()), int((~truth[inside]).sum())
        if p and p + q > 1:
            highest = (positives_above + p) / (above + p)
            bound += p / truth.sum() * (highest - (positives_above + 1) / (above + q + 1))
        positives_above, above = positives_above + p, above + p + q
    value = auprcs(histograms(scores, truth))[1]
    assert abs(value - average_precision_score(truth, scores)) <= bound + 1e-12


@given(seed=SEED, n=st.integers(2, 400), sharp=st.booleans())
@FEW
def test_areas_under_roc_curves_are_off_by_half_the_pairs_of_one_bin(seed, n, sharp):
    scores, truth = drawn(seed, n, sharp)
    assume(0 < truth.sum() < n)
    tied = (score_bin(scores[truth])[:, np.newaxis] == score_bin(scores[~truth])).mean()
    exact = roc_auc_score(truth, scores)
    counts = histograms(scores, truth)
    assert abs(aurocs(counts)[1] - exact) <= tied / 2 + 1e-12
    assert abs(malignancy_auroc(counts) - exact) <= tied / 2 + 1e-12


def area(wrong):
    """The mean over i of the share of wrong answers among the first i."""
    return float(np.mean(np.cumsum(wrong) / np.arange(1, len(wrong) + 1)))


@given(seed=SEED, n=st.integers(1, 300), sharp=st.booleans())
@FEW
def test_the_area_of_risk_and_coverage_lies_between_the_orders_that_bins_allow(seed, n, sharp):
    confidence, right = drawn(seed, n, sharp)
    bins = score_bin(confidence)
    exact = area(~right[np.argsort(-confidence)])
    best = area(~right[np.lexsort((~right, -bins))])  # within a bin the right answers first
    worst = area(~right[np.lexsort((right, -bins))])
    value = aurc(counts_of(confidence, right))
    assert best - 1e-12 <= value <= worst + 1e-12
    assert best - 1e-12 <= exact <= worst + 1e-12
    assert abs(value - exact) <= worst - best + 1e-12


@given(seed=SEED, n=st.integers(1, 300), place=st.integers(0, SCORE_BINS - 1))
@FEW
def test_risk_and_coverage_at_a_threshold_are_exact(seed, n, place):
    confidence, right = drawn(seed, n, sharp=False)
    answered = confidence >= place / SCORE_BINS
    curve = risk_coverage(counts_of(confidence, right))
    assert curve.coverage[place] == pytest.approx(answered.mean())
    if answered.any():
        assert curve.risk[place] == pytest.approx((~right)[answered].mean())
    else:
        assert np.isnan(curve.risk[place])


@given(seed=SEED, n=st.integers(9, 400), coverage=st.sampled_from([0.5, 0.8, 0.9]))
@FEW
def test_a_threshold_is_the_quantile_of_the_scores_to_one_bin(seed, n, coverage):
    """Of the scores 1 - p_y, of rank ceil((n + 1) coverage); never stricter than it."""
    of_truth, _ = drawn(seed, n, sharp=False)
    histogram = np.bincount(score_bin(of_truth), minlength=SCORE_BINS)
    fitted = fit_threshold(histogram, ConformalConfig(coverage=coverage))
    exact = 1 - np.quantile(1 - of_truth, (fitted.rank - 0.5) / n, method="inverted_cdf")
    low, high = LOGIT_BINS.edges[fitted.threshold_bin : fitted.threshold_bin + 2]
    assert low - 1e-12 <= exact <= high
