"""Metrics next to their 95 % intervals, ready for JSON, and how the interval of each is made.

| figure | limits |
| --- | --- |
| of right and wrong answers | exact, of effective numbers (`moments`), by its variance (`shares`) |
| an area under a ROC, precision-recall or risk-coverage curve | likewise (`areas`, `risk`) |
| a calibration error | of a distance (`calibration_limits`, `distances`) |
| a fairness figure | of a distance (`fairness_limits`) |
| a mean over clients | as of the figure; clients are independent |

Figures of right and wrong answers: shares of some cells of the confusion matrix, and means of them.

Each is x of n pictures: those of some cells of the matrix among those of more cells. F1 = 2 J / (1 + J) is of
one, J = tp / (tp + fp + fn) (Jaccard 1912). With c the pictures of a cell and

    g = (1[cell is of x] − x/n 1[cell is of n]) / n

what a picture there adds to x/n, the variance is Σ_cells d c g², d being the design effect of the true class
(`design_effect`); of a mean, g is the mean of theirs, so that cells that shares have in common are seen as
that. c is smoothed: each class's answers as if one more had been, spread evenly over all answers, and still
as many as they are. The limits follow from it (`moments`).

Variances of areas under ROC and precision-recall curves, from histograms of scores.

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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.counts import Counts, HasConfusion
from registry.bundle.metrics import classification
from registry.bundle.metrics.calibration import Distance, expected_error, largest_error, mean_distance
from registry.bundle.metrics.intervals import (
    Figure,
    Limits,
    Moments,
    Sample,
    harmonic_between,
    of_noise,
    ratio,
)
from registry.bundle.metrics.selective import aurc_variance

Cells = NDArray[np.bool_]
"""Which cells are meant, `(shares, classes, classes)`, true by predicted class."""


@dataclass(frozen=True)
class Shares:
    """Shares of a confusion matrix.

    Attributes:
        figure: what computes them, `(..., shares)`; nan where one is undefined.
        cells: those that x is of and those that n is of, for so many classes.
        is_f1: whether the figure is 2 J / (1 + J) of the share J.
        is_raised: whether noise pushes it up: n is by chance, and where it is small x mostly is as large. The
            lower limit then starts at the smoothed figure where that is lower.
    """

    figure: Callable[[HasConfusion], Figure]
    cells: Callable[[int], tuple[Cells, Cells]]
    is_f1: bool = False
    is_raised: bool = False


def _own(classes: int) -> Cells:
    """The row of each class."""
    return np.broadcast_to(np.eye(classes, dtype=bool)[:, :, np.newaxis], (classes,) * 3)


def _answered(classes: int) -> Cells:
    """The column of each class."""
    return _own(classes).transpose(0, 2, 1)


def _right(classes: int) -> Cells:
    return _own(classes) & _answered(classes)


def _all(classes: int) -> tuple[Cells, Cells]:
    return np.eye(classes, dtype=bool)[np.newaxis], np.ones((1, classes, classes), dtype=bool)


def _malignant(classes: int, side: NDArray[np.bool_]) -> tuple[Cells, Cells]:
    of = np.broadcast_to(side[:, np.newaxis], (classes, classes))
    return (of & side)[np.newaxis], of[np.newaxis]


ACCURACY = Shares(lambda counts: classification.accuracy(counts)[..., np.newaxis], _all)
RECALLS = Shares(classification.recalls, lambda k: (_right(k), _own(k)))
PRECISIONS = Shares(classification.precisions, lambda k: (_right(k), _answered(k)), is_raised=True)
F1 = Shares(classification.f1_scores, lambda k: (_right(k), _own(k) | _answered(k)), is_f1=True)
SPECIFICITIES = Shares(classification.specificities, lambda k: (~_own(k) & ~_answered(k), ~_own(k)))


def malignant_answers(malignant: NDArray[np.bool_]) -> Shares:
    """Malignant answers among malignant pictures, one share."""
    figure = partial(classification.malignant_sensitivity, malignant=malignant)
    return Shares(lambda counts: figure(counts)[..., np.newaxis], partial(_malignant, side=malignant))


def other_answers(malignant: NDArray[np.bool_]) -> Shares:
    """Answers that are not malignant among pictures that are not, one share."""
    figure = partial(classification.malignant_specificity, malignant=malignant)
    return Shares(lambda counts: figure(counts)[..., np.newaxis], partial(_malignant, side=~malignant))


def each_share(shares: Shares, sample: Sample[HasConfusion]) -> Moments:
    """Each of some shares, `(..., shares)`."""
    smoothed = _smoothed(sample.counts)
    smooth, linear = _linear(shares, smoothed)
    variance = np.einsum("...fij,...ij->...f", linear**2, smoothed * _by_row(sample))
    variance = variance + sample.noise * of_noise(linear).sum(axis=-1)
    return _moments(shares, shares.figure(sample.counts), smooth, variance)


def mean_share(
    shares: Shares, sample: Sample[HasConfusion], weights: NDArray[np.float64] | None = None
) -> Moments:
    """The mean of the shares that are defined, `(...)`.

    Args:
        shares: of each class.
        sample: of a confusion matrix.
        weights: of each share, `(..., shares)`; where not given all count alike.
    """
    smoothed, values = _smoothed(sample.counts), shares.figure(sample.counts)
    smooth, linear = _linear(shares, smoothed)
    heavy = np.where(np.isnan(values), 0.0, 1.0 if weights is None else weights)
    weight = ratio(heavy, heavy.sum(axis=-1, keepdims=True))
    together = np.einsum("...f,...fij->...ij", weight, linear)
    variance = (together**2 * smoothed * _by_row(sample)).sum(axis=(-2, -1))
    variance = variance + sample.noise * of_noise(together).sum(axis=-1)
    value = (weight * np.where(np.isnan(values), 0.0, values)).sum(axis=-1)
    return _moments(shares, value, (weight * smooth).sum(axis=-1), variance)


def _moments(shares: Shares, value: Figure, smooth: Figure, variance: Figure) -> Moments:
    return Moments(value, smooth, variance, np.minimum(value, smooth) if shares.is_raised else value, value)


def by_pictures(shares: Shares, sample: Sample[HasConfusion]) -> Moments:
    """The mean of shares of each class, weighted by its pictures, `(...)`."""
    return mean_share(shares, sample, sample.counts.confusion.sum(axis=-1).astype(np.float64))


def correlation(counts: HasConfusion, *together: Shares) -> NDArray[np.float64]:
    """R of each class's mean of some kinds of shares, `(..., classes, classes)`; never below 0."""
    smoothed = _smoothed(counts)
    linear = np.sum([_linear(shares, smoothed)[1] for shares in together], axis=0)
    covariance = np.einsum("...fij,...gij,...ij->...fg", linear, linear, smoothed, optimize=True)
    deviation = np.sqrt(np.einsum("...ff->...f", covariance))
    scale = deviation[..., :, np.newaxis] * deviation[..., np.newaxis, :]
    return np.where(scale > 0, np.maximum(covariance, 0.0) / np.where(scale > 0, scale, 1.0), 0.0)


def _smoothed(counts: HasConfusion) -> NDArray[np.float64]:
    """Each row as if one picture more had been answered with every class alike, and still of as many."""
    n = counts.confusion.sum(axis=-1, keepdims=True)
    classes = counts.confusion.shape[-1]
    return np.asarray((counts.confusion + 1 / classes) * (n / (n + 1)))


def _linear(shares: Shares, confusion: NDArray[np.float64]) -> tuple[Figure, NDArray[np.float64]]:
    """Each share `(..., shares)`, and g `(..., shares, classes, classes)`; 0 of no pictures."""
    so, of = (each.astype(np.float64) for each in shares.cells(confusion.shape[-1]))
    x, n = (np.einsum("...ij,fij->...f", confusion, each) for each in (so, of))
    none = n <= 0
    share, n = np.where(none, 0.0, x) / np.where(none, 1.0, n), np.where(none, np.inf, n)
    linear = (so - share[..., np.newaxis, np.newaxis] * of) / n[..., np.newaxis, np.newaxis]
    if not shares.is_f1:
        return share, linear
    return 2 * share / (1 + share), linear * (2 / (1 + share) ** 2)[..., np.newaxis, np.newaxis]


def _by_row(sample: Sample[HasConfusion]) -> Figure:
    """The design effect of each true class, `(..., classes, 1)`."""
    return sample.effect.of_classes[..., np.newaxis]


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


ANSWERS: Mapping[str, Callable[[Sample[HasConfusion]], Moments]] = {
    "accuracy": lambda sample: mean_share(ACCURACY, sample),
    "balanced_accuracy": lambda sample: mean_share(RECALLS, sample),
    "macro_precision": lambda sample: mean_share(PRECISIONS, sample),
    "macro_f1": lambda sample: mean_share(F1, sample),
    "weighted_precision": lambda sample: by_pictures(PRECISIONS, sample),
    "weighted_recall": lambda sample: mean_share(ACCURACY, sample),
    "weighted_f1": lambda sample: by_pictures(F1, sample),
    "specificity": lambda sample: mean_share(SPECIFICITIES, sample),
}
"""Figures of right and wrong answers: a confusion matrix is enough."""

MALIGNANCY: Mapping[str, Callable[[NDArray[np.bool_]], Shares]] = {
    "malignant_sensitivity": malignant_answers,
    "malignant_specificity": other_answers,
}
"""Shares that need to know which classes are malignant."""

AREAS: Mapping[str, Callable[[Sample[Counts]], Moments]] = {
    "auroc": auroc,
    "auprc": auprc,
    "malignancy_auroc": malignancy_auroc,
    "aurc": aurc_variance,
}

DISTANCES: Mapping[str, Callable[[Sample[Counts]], Distance]] = {
    "ece": expected_error,
    "mce": largest_error,
}

BY_CLASS: Mapping[str, Callable[[Sample[Counts]], Moments]] = {
    "recall": lambda sample: each_share(RECALLS, sample),
    "precision": lambda sample: each_share(PRECISIONS, sample),
    "f1": lambda sample: each_share(F1, sample),
    "specificity": lambda sample: each_share(SPECIFICITIES, sample),
    "auroc": aurocs,
    "auprc": auprcs,
}
"""Of each class, `(..., classes)`."""


def limits_of(name: str, sample: Sample[Any], malignant: NDArray[np.bool_] | None = None) -> Limits:
    """The limits of a figure by its name in `summary.json`.

    Args:
        name: of `ANSWERS`, `AREAS`, `DISTANCES` or `MALIGNANCY`.
        sample: of counts, or of a confusion matrix where that is enough.
        malignant: which classes are malignant, `(classes,)`, where the figure is of `MALIGNANCY`.
    """
    if name in MALIGNANCY:
        assert malignant is not None, f"{name} is of malignant classes"
        return mean_share(MALIGNANCY[name](malignant), sample).limits()
    if name in DISTANCES:
        return DISTANCES[name](sample).limits()
    return _moment_limits(name, sample).limits()


def mean_of_limits(name: str, samples: Sequence[Sample[Counts]]) -> Limits:
    """The limits of the mean of a figure over independent samples, such as clients, that define it."""
    if name in DISTANCES:
        held = [sample for sample in samples if sample.counts.n > 0]
        return mean_distance([DISTANCES[name](sample) for sample in held]).limits()
    return Moments.stack([_moment_limits(name, sample) for sample in samples]).mean().limits()


def _moment_limits(name: str, sample: Sample[Counts]) -> Moments:
    return ANSWERS[name](sample) if name in ANSWERS else AREAS[name](sample)


def number(value: Figure) -> float | None:
    """A figure; None where it is undefined."""
    return None if np.isnan(value) else float(value)


def figures_and_intervals(
    sample: Sample[Any],
    figures: Mapping[str, Callable[[Any], Figure]],
    malignant: NDArray[np.bool_],
) -> dict[str, Any]:
    """`n`, figures of some counts, and their `intervals`.

    Args:
        sample: of the counts of a block or of a cell.
        figures: what to compute, by name.
        malignant: which classes are malignant, `(classes,)`.
    """
    values = {name: figure(sample.counts) for name, figure in figures.items()}
    return {
        "n": int(sample.counts.n),
        **{name: number(value) for name, value in values.items()},
        "intervals": {
            name: None if np.isnan(value) else limits_of(name, sample, malignant).ends()
            for name, value in values.items()
        },
    }
