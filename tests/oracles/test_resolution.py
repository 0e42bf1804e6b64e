"""Figures of histograms against those of the scores themselves, within the stated resolution."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.metrics import average_precision_score, roc_auc_score

from personalization.calibration.conformal import fit_threshold
from registry.bundle.counting import count
from registry.bundle.counts import Counts
from registry.bundle.metrics.calibration import ece, mce
from registry.bundle.metrics.classification import (
    FEWEST_FOR_AUPRC,
    auprc,
    auprcs,
    auroc,
    aurocs,
    malignancy_auroc,
)
from registry.bundle.metrics.selective import aurc
from registry.bundle.score_bins import LOGIT_BINS, SCORE_BINS, score_bin

FEW = settings(max_examples=25, deadline=None)
SEED = st.integers(0, 2**32)
HALF_A_BIN = 1 / 128 + 1e-9  # of the widest, at one half: 1/16 of log-odds


def counts_of(confidence, right):
    """Counts that hold confidences and whether the answers were right."""
    counts = Counts.zeros(2)
    np.add.at(counts.confidence, (right.astype(int), score_bin(confidence)), 1)
    np.add.at(counts.confusion, (0, 1 - right.astype(int)), 1)
    return counts


def errors_of(right, confidence, bins):
    """ECE and MCE from the curve of scikit-learn, which keeps the bins that hold pictures, in their order."""
    accuracy, mean = calibration_curve(right, confidence, n_bins=bins, strategy="quantile")
    edges = np.quantile(confidence, np.linspace(0, 1, bins + 1))
    sizes = np.bincount(np.searchsorted(edges[1:-1], confidence), minlength=bins)
    gaps = np.abs(accuracy - mean)
    return (sizes[sizes > 0] / len(right) * gaps).sum(), gaps.max()


@given(seed=SEED, each=st.integers(1, 20), bins=st.sampled_from([2, 5, 15]))
@FEW
def test_errors_of_equal_mass_are_scikit_learns_to_half_a_score_bin(seed, each, bins):
    """Where no two pictures share a score bin and all bins can hold equally many."""
    rng = np.random.default_rng(seed)
    n = each * bins
    places = rng.choice(SCORE_BINS, size=n, replace=False)
    low, high = LOGIT_BINS.edges[places], LOGIT_BINS.edges[places + 1]
    confidence = low + rng.uniform(0.01, 0.99, size=n) * (high - low)
    right = rng.random(n) < confidence
    assume(0 < right.sum() < n)
    expected, largest = errors_of(right, confidence, bins)
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


@given(seed=SEED, n=st.integers(90, 400), sharp=st.booleans())
@FEW
def test_average_precision_is_off_by_no_more_than_the_order_within_bins_allows(seed, n, sharp):
    """With T of N above a bin of p positives and q negatives, the precision at each of the p, whatever their
    order, and that at the bin's end lie between (T + 1) / (N + q + 1) and (T + p) / (N + p)."""
    scores, truth = drawn(seed, n, sharp)
    assume(FEWEST_FOR_AUPRC <= truth.sum() < n)
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


def test_merged_histograms_of_five_hospitals_are_near_the_scores_themselves():
    """100 pictures each, eight classes of which the rarest have one or two, bins merged to three patients."""
    rng, classes, total, all_p, all_y = np.random.default_rng(0), 8, None, [], []
    labels = np.repeat(np.arange(classes), [41, 24, 14, 9, 5, 3, 2, 2])
    for _ in range(5):
        odds = np.exp(rng.normal(size=(100, classes)) + 2 * np.eye(classes)[labels])
        probabilities = odds / odds.sum(axis=1, keepdims=True)
        told = count(probabilities, labels, malignant=np.arange(classes) == 1, smallest_cell=3).point
        total = told if total is None else total + told
        all_p.append(probabilities)
        all_y.append(labels)
    scores, truth = np.concatenate(all_p), np.concatenate(all_y)
    right, confidence = scores.argmax(axis=1) == truth, scores.max(axis=1)
    roc = [roc_auc_score(truth == k, scores[:, k]) for k in range(classes)]
    precision = [average_precision_score(truth == k, scores[:, k]) for k in range(4)]
    assert auroc(total) == pytest.approx(np.mean(roc), abs=0.005)
    assert malignancy_auroc(total) == pytest.approx(roc[1], abs=0.005)
    assert np.isnan(auprcs(total)).tolist() == [False] * 4 + [True] * 4
    assert auprc(total) == pytest.approx(np.mean(precision), abs=0.03)
    assert aurc(total) == pytest.approx(area(~right[np.argsort(-confidence)]), abs=0.002)
    assert ece(total, 10) == pytest.approx(errors_of(right, confidence, 10)[0], abs=0.02)


def in_equal_bins(probabilities, labels):
    """Histograms of each class as the control tells them, not merged, `(classes, 2, 500)`."""
    classes = probabilities.shape[1]
    told = np.zeros((classes, 2, 500), dtype=np.int64)
    for k in range(classes):
        np.add.at(
            told[k],
            ((labels == k).astype(int), np.minimum(np.floor(500 * probabilities[:, k]), 499).astype(int)),
            1,
        )
    return told


def test_areas_of_a_sure_model_are_nearer_than_500_equal_bins_had_them():
    """Eleven classes, many probabilities within 1/500 of 0: merged to five patients, and nearer still."""
    rng, classes, total, all_p, all_y = np.random.default_rng(1), 11, None, [], []
    labels = rng.choice(classes, size=200, p=np.arange(classes, 0, -1) / 66)
    for _ in range(5):
        logits = 4 * (rng.normal(size=(200, classes)) + np.eye(classes)[labels])
        probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        told = count(probabilities, labels, malignant=np.arange(classes) == 1, smallest_cell=5).point
        total = told if total is None else total + told
        all_p.append(probabilities)
        all_y.append(labels)
    scores, truth = np.concatenate(all_p), np.concatenate(all_y)
    exact = np.array([roc_auc_score(truth == k, scores[:, k]) for k in range(classes)])
    equal = aurocs(replace(total, scores=in_equal_bins(scores, truth)))
    now, before = aurocs(total) - exact, equal - exact
    assert abs(now.mean()) < -before.mean() / 2
    assert np.abs(now).max() < np.abs(before).max() / 2


@given(seed=SEED, n=st.integers(9, 400), coverage=st.sampled_from([0.5, 0.8, 0.9]))
@FEW
def test_a_threshold_is_the_quantile_of_the_scores_to_one_bin(seed, n, coverage):
    """Of the scores 1 - p_y, of rank ceil((n + 1) coverage); never stricter than it."""
    of_truth, _ = drawn(seed, n, sharp=False)
    histogram = np.bincount(score_bin(of_truth), minlength=SCORE_BINS)
    fitted = fit_threshold(histogram, coverage)
    exact = 1 - np.quantile(1 - of_truth, (fitted.rank - 0.5) / n, method="inverted_cdf")
    low, high = LOGIT_BINS.edges[fitted.threshold_bin : fitted.threshold_bin + 2]
    assert low - 1e-12 <= exact <= high
