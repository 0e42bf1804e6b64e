"""Limits of areas under ROC and precision-recall curves, from histograms of scores.

Each solves |A − θ| = z √V(θ) for θ (Newcombe 2006), so that no limit lies beyond 0 or 1 and an area of 1 has
width. V(θ) is the larger of what a model says and what the histogram shows. Of AUROC, with m pictures of the
class and n others, the model is that of exponential scores (Hanley & McNeil 1982)

    V(θ) = θ (1 − θ) (1 + (m − 1)(1 − θ)/(2 − θ) + (n − 1) θ/(1 + θ)) / (m n),

and what shows is the variance of the placements (DeLong et al. 1988). Of AUPRC the model is a proportion's,
θ (1 − θ) / m (Boyd et al. 2013), and what shows is the variance of its linear part. m and n are numbers of
independent pictures (`design_effect`).

Pictures of one bin count as equal, and more of them are where bins are merged. Most likely they are ordered
like the others: upper limits begin at the area as it is if so. Of AUROC that is the share of pairs in different
bins that are in order; of AUPRC the area where the pictures of the class come first in each bin.

A mean over classes needs to know how the areas hang together, which histograms of one class each do not tell.
Taken is how the figures of the answers do: the AUROC of the answers, (recall + specificity) / 2, and the
answers' J = tp / (tp + fp + fn).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.histograms import Counts
from registry.bundle.metrics import classification
from registry.bundle.metrics.limits import Limits, mean_limits, score_limits
from registry.bundle.metrics.ratio import Figure, harmonic_between, ratio
from registry.bundle.metrics.sample import Sample
from registry.bundle.metrics.shares import correlations, overlaps, ranks

@dataclass(frozen=True)
class Areas(Limits):
    """Areas with their limits, `(...)`.

    Attributes:
        best: the area where pictures of one bin are ordered like the others: upper limits are from here.
    """

    best: Figure

    def mean(self, correlation: NDArray[np.float64] | None = None) -> Limits:
        """The mean over the last axis. What the order in bins may add does not cancel, unlike chance."""
        below = mean_limits(Limits(self.value, self.low, self.value), correlation=correlation)
        above = mean_limits(Limits(self.best, self.best, self.high), correlation=correlation)
        return Limits(below.value, below.low, above.high)


def _from(value: Figure, best: Figure, variance: Callable[[Figure], Figure]) -> Areas:
    return Areas(value, score_limits(value, variance).low, score_limits(best, variance).high, best)


Numbers = tuple[Figure, Figure]
"""Design effects of the pictures of a class and of the others."""


def auroc_limits(sample: Sample[Counts]) -> Areas:
    """Of each class, `(..., classes)`."""
    return _roc(classification.aurocs(sample.counts), sample.counts.scores, _effects(sample))


def malignancy_auroc_limits(sample: Sample[Counts]) -> Areas:
    """Of the malignancy probability, `(...)`."""
    # Which classes are malignant is not known here: the larger of both effects could be of either side.
    effect = sample.effect.of_scores()
    support = sample.counts.confusion.sum(axis=-1).astype(np.float64)
    of_all = effect.of_pictures(support)
    return _roc(classification.malignancy_auroc(sample.counts), sample.counts.malignancy, (of_all, of_all))


def auprc_limits(sample: Sample[Counts]) -> Areas:
    """Of each class, `(..., classes)`."""
    value = classification.auprcs(sample.counts)
    best = np.where(np.isnan(value), np.nan, _best_average_precision(sample.counts.scores))
    of_class, others = _effects(sample)
    positives = sample.counts.scores[..., 1, :].sum(axis=-1)
    m = np.maximum(positives, 1) / of_class
    shown = _variance_of_average_precision(sample.counts.scores) * np.maximum(of_class, others)
    return _from(value, best, lambda area: np.maximum(area * (1 - area) / m, shown))


def mean_auroc_limits(sample: Sample[Counts]) -> Limits:
    """Of the mean over classes, `(...)`."""
    return auroc_limits(sample).mean(ranks(sample.counts))


def mean_auprc_limits(sample: Sample[Counts]) -> Limits:
    """Of the mean over classes, `(...)`."""
    cells = overlaps(sample.counts.num_classes)
    return auprc_limits(sample).mean(correlations(sample.counts, cells))


def _effects(sample: Sample[Counts]) -> Numbers:
    support = sample.counts.confusion.sum(axis=-1).astype(np.float64)[..., np.newaxis, :]
    of_class = np.eye(support.shape[-1])
    effect = sample.effect.of_scores()
    return effect.of_pictures(support * of_class), effect.of_pictures(support * (1 - of_class))


def _roc(value: Figure, histograms: NDArray[np.int64], effects: Numbers) -> Areas:
    n, m = (
        np.maximum(histograms[..., side, :].sum(axis=-1), 1) / effect
        for side, effect in zip((0, 1), reversed(effects), strict=True)
    )
    shown = _variance_of_placements(histograms) * np.maximum(*effects)

    def variance(area: Figure) -> Figure:
        of_class = np.maximum(m - 1, 0) * (1 - area) / (2 - area)
        of_others = np.maximum(n - 1, 0) * area / (1 + area)
        return np.maximum(area * (1 - area) * (1 + of_class + of_others) / (m * n), shown)

    return _from(value, _ordered_share(value, histograms), variance)


def _ordered_share(area: Figure, histograms: NDArray[np.int64]) -> Figure:
    """The share of pairs in different bins that are in order; the area where all are in one."""
    negatives, positives = histograms[..., 0, :], histograms[..., 1, :]
    pairs = positives.sum(axis=-1) * negatives.sum(axis=-1)
    tied = ratio((positives * negatives).sum(axis=-1), pairs)
    return np.where(tied < 1, (area - tied / 2) / np.maximum(1 - tied, 1e-9), area)


def _best_average_precision(histograms: NDArray[np.int64]) -> Figure:
    """Average precision where the pictures of the class come first in each bin, from `(..., 2, bins)`.

    With N pictures above a bin, F of them others, its p pictures of the class add Σ_{j=1..p} (N − F + j) / (N +
    j) = p − F Σ_{j=1..p} 1 / (N + j).
    """
    positives, total = histograms[..., 1, ::-1], histograms.sum(axis=-2)[..., ::-1]
    above = np.cumsum(total, axis=-1) - total
    others = above - (np.cumsum(positives, axis=-1) - positives)
    gained = positives - others * harmonic_between(above, above + positives)
    return ratio(gained.sum(axis=-1), positives.sum(axis=-1))


def _variance_of_placements(histograms: NDArray[np.int64]) -> Figure:
    """DeLong's variance of AUROC, from `(..., 2, bins)`, ties counted half."""
    negatives, positives = histograms[..., 0, :], histograms[..., 1, :]
    n = np.maximum(negatives.sum(axis=-1, keepdims=True), 1)
    m = np.maximum(positives.sum(axis=-1, keepdims=True), 1)
    below = (np.cumsum(negatives, axis=-1) - negatives / 2) / n
    above = (positives.sum(axis=-1, keepdims=True) - np.cumsum(positives, axis=-1) + positives / 2) / m
    return _variance_of_mean(below, positives) + _variance_of_mean(above, negatives)


def _variance_of_mean(values: NDArray[np.float64], counts: NDArray[np.int64]) -> Figure:
    """s² / n of values `(..., bins)` of which each was seen so often."""
    n = counts.sum(axis=-1)
    mean = (values * counts).sum(axis=-1) / np.maximum(n, 1)
    squares = (counts * (values - mean[..., np.newaxis]) ** 2).sum(axis=-1)
    return squares / np.maximum((n - 1) * n, 1)


def _variance_of_average_precision(histograms: NDArray[np.int64]) -> Figure:
    """That of AP = Σ_b p_b T_b / (T_b + F_b) / m, with T and F how many are at b or above, from `(..., 2, bins)`.

    A picture at c is part of T or F at all bins b ≤ c: one of the class adds T_c / (T_c + F_c) + Σ_{b≤c} p_b
    F_b / (T_b + F_b)² to m AP, another −Σ_{b≤c} p_b T_b / (T_b + F_b)².
    """
    negatives, positives = histograms[..., 0, :], histograms[..., 1, :]
    true, false = (side[..., ::-1].cumsum(axis=-1)[..., ::-1] for side in (positives, negatives))
    found = np.maximum(true + false, 1)
    of_class = true / found + np.cumsum(positives * false / found**2, axis=-1)
    of_others = np.cumsum(positives * true / found**2, axis=-1)
    n, m = (np.maximum(side.sum(axis=-1), 1) for side in (negatives, positives))
    return (
        _variance_of_mean(of_class, positives) + _variance_of_mean(of_others, negatives) * (n / m) ** 2
    )
