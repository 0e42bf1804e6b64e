"""Variances of areas under ROC and precision-recall curves, from histograms of scores.

V is the larger of what a model says and what the histogram shows. Of AUROC, with m pictures of the class and
n others, the model is that of exponential scores (Hanley & McNeil 1982)

    V(θ) = θ (1 − θ) (1 + (m − 1)(1 − θ)/(2 − θ) + (n − 1) θ/(1 + θ)) / (m n),

and what shows is the variance of the placements (DeLong et al. 1988). Of AUPRC the model is a proportion's, θ
(1 − θ) / m (Boyd et al. 2013), and what shows is the variance of its linear part. m and n are numbers of
independent pictures (`design_effect`). θ is smoothed: as if one picture more of each side had been, which
wins half of its pairs; of AUPRC one of the class, with the precision of guessing. The limits follow
(`moments`).

Pictures of one bin count as equal, and more of them are where bins are merged. Most likely they are ordered
like the others: upper limits start at the area as it is if so. Of AUROC that is the share of pairs in
different bins that are in order; of AUPRC the area where the pictures of the class come first in each bin.

A mean over classes needs to know how the areas hang together, which histograms of one class each do not tell.
Taken is how the figures of the answers do: the AUROC of the answers, (recall + specificity) / 2, and
their F1.
"""

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.histograms import Counts
from registry.bundle.metrics import classification
from registry.bundle.metrics.moments import Moments
from registry.bundle.metrics.ratio import Figure, harmonic_between, ratio
from registry.bundle.metrics.sample import Sample, of_noise
from registry.bundle.metrics.shares import F1, RECALLS, SPECIFICITIES, correlation

Effects = tuple[Figure, Figure]
"""Design effects of the pictures of a class and of the others."""


def aurocs(sample: Sample[Counts]) -> Moments:
    """Of each class, `(..., classes)`."""
    area = classification.aurocs(sample.counts)
    return _under_roc(area, sample.counts.scores, _effects(sample), sample.noise)


def auroc(sample: Sample[Counts]) -> Moments:
    """The mean over classes, `(...)`."""
    return aurocs(sample).mean(correlation(sample.counts, RECALLS, SPECIFICITIES))


def malignancy_auroc(sample: Sample[Counts]) -> Moments:
    """Of the malignancy probability, `(...)`."""
    # Which classes are malignant is not known here: each side takes the effect of all pictures.
    support = sample.counts.confusion.sum(axis=-1).astype(np.float64)
    effect = sample.effect.of_scores().of_pictures(support)
    area = classification.malignancy_auroc(sample.counts)
    return _under_roc(area, sample.counts.malignancy, (effect, effect), sample.noise)


def auprcs(sample: Sample[Counts]) -> Moments:
    """Of each class, `(..., classes)`."""
    histograms = sample.counts.scores
    value = classification.auprcs(sample.counts)
    of_class, others = _effects(sample)
    positives = histograms[..., 1, :].sum(axis=-1)
    guessing = ratio(positives, histograms.sum(axis=(-2, -1)))
    smooth = (np.nan_to_num(value) * positives + guessing) / (positives + 1)
    model = smooth * (1 - smooth) * of_class / np.maximum(positives, 1)
    shown = _variance_of_average_precision(histograms) * np.maximum(of_class, others)
    best = np.where(np.isnan(value), np.nan, _best_average_precision(histograms))
    return Moments(value, smooth, np.maximum(model, shown), value, best)


def auprc(sample: Sample[Counts]) -> Moments:
    """The mean over classes, `(...)`."""
    return auprcs(sample).mean(correlation(sample.counts, F1))


def _effects(sample: Sample[Counts]) -> Effects:
    support = sample.counts.confusion.sum(axis=-1).astype(np.float64)[..., np.newaxis, :]
    of_class = np.eye(support.shape[-1])
    effect = sample.effect.of_scores()
    return effect.of_pictures(support * of_class), effect.of_pictures(support * (1 - of_class))


def _under_roc(value: Figure, histograms: NDArray[np.int64], effects: Effects, noise: float) -> Moments:
    n_told, m_told = n, m = [np.maximum(histograms[..., side, :].sum(axis=-1), 1) for side in (0, 1)]
    smooth = (np.nan_to_num(value) * m * n + (m + n + 1) / 2) / ((m + 1) * (n + 1))
    m, n = m / effects[0], n / effects[1]
    of_class = np.maximum(m - 1, 0) * (1 - smooth) / (2 - smooth)
    of_others = np.maximum(n - 1, 0) * smooth / (1 + smooth)
    model = smooth * (1 - smooth) * (1 + of_class + of_others) / (m * n)
    shown = _variance_of_placements(histograms) * np.maximum(*effects)
    variance = np.maximum(model, shown)
    if not noise:
        return Moments(value, smooth, variance, value, _ordered_share(value, histograms))
    below, above = _placements(histograms)
    added = of_noise(below) / m_told**2 + of_noise(above) / n_told**2
    return Moments(value, smooth, variance + noise * added, value, value)


def _ordered_share(area: Figure, histograms: NDArray[np.int64]) -> Figure:
    """The share of pairs in different bins that are in order, and the area itself where that is larger."""
    negatives, positives = histograms[..., 0, :], histograms[..., 1, :]
    pairs = positives.sum(axis=-1) * negatives.sum(axis=-1)
    tied = ratio((positives * negatives).sum(axis=-1), pairs)
    # Where most pairs are out of order, ordering those of one bin likewise would lower the area.
    return np.where(tied < 1, np.maximum((area - tied / 2) / np.maximum(1 - tied, 1e-9), area), area)


def _best_average_precision(histograms: NDArray[np.int64]) -> Figure:
    """Average precision where the pictures of the class come first in each bin, from `(..., 2, bins)`.

    With N pictures above a bin, F of them others, its p pictures of the class add Σ_{j=1..p} (N − F + j) / (N
    + j) = p − F Σ_{j=1..p} 1 / (N + j).
    """
    positives, total = histograms[..., 1, ::-1], histograms.sum(axis=-2)[..., ::-1]
    above = np.cumsum(total, axis=-1) - total
    others = above - (np.cumsum(positives, axis=-1) - positives)
    gained = positives - others * harmonic_between(above, above + positives)
    return ratio(gained.sum(axis=-1), positives.sum(axis=-1))


def _placements(histograms: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The share of others below each bin, and of the class above, `(..., bins)` each, ties counted half."""
    negatives, positives = histograms[..., 0, :], histograms[..., 1, :]
    n = np.maximum(negatives.sum(axis=-1, keepdims=True), 1)
    m = np.maximum(positives.sum(axis=-1, keepdims=True), 1)
    below = (np.cumsum(negatives, axis=-1) - negatives / 2) / n
    above = (positives.sum(axis=-1, keepdims=True) - np.cumsum(positives, axis=-1) + positives / 2) / m
    return below, above


def _variance_of_placements(histograms: NDArray[np.int64]) -> Figure:
    """DeLong's variance of AUROC, from `(..., 2, bins)`."""
    below, above = _placements(histograms)
    negatives, positives = histograms[..., 0, :], histograms[..., 1, :]
    return _variance_of_mean(below, positives) + _variance_of_mean(above, negatives)


def _variance_of_mean(values: NDArray[np.float64], counts: NDArray[np.int64]) -> Figure:
    """s² / n of values `(..., bins)` of which each was seen so often."""
    n = counts.sum(axis=-1)
    mean = (values * counts).sum(axis=-1) / np.maximum(n, 1)
    squares = (counts * (values - mean[..., np.newaxis]) ** 2).sum(axis=-1)
    return np.asarray(squares / np.maximum((n - 1) * n, 1))


def _variance_of_average_precision(histograms: NDArray[np.int64]) -> Figure:
    """That of AP = Σ_b p_b T_b / (T_b + F_b) / m, from `(..., 2, bins)`.

    T and F are how many of the class and how many others are at b or above. A picture at c is part of them at
    all bins b ≤ c: one of the class adds T_c / (T_c + F_c) + Σ_{b≤c} p_b F_b / (T_b + F_b)² to m AP, another
    −Σ_{b≤c} p_b T_b / (T_b + F_b)².
    """
    negatives, positives = histograms[..., 0, :], histograms[..., 1, :]
    true, false = (side[..., ::-1].cumsum(axis=-1)[..., ::-1] for side in (positives, negatives))
    found = np.maximum(true + false, 1)
    of_class = true / found + np.cumsum(positives * false / found**2, axis=-1)
    of_others = np.cumsum(positives * true / found**2, axis=-1)
    n, m = (np.maximum(side.sum(axis=-1), 1) for side in (negatives, positives))
    of_negatives = _variance_of_mean(of_others, negatives) * (n / m) ** 2
    return np.asarray(_variance_of_mean(of_class, positives) + of_negatives)
