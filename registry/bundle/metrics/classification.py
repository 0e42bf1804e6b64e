"""Classification metrics and their variances: answers, malignancy, AUROC and AUPRC, from counts.

Metrics of the confusion matrix are exact. AUROC and AUPRC see a score as its bin: they are exactly those of
the binned scores, and two scores of one bin count as equal. AUROC is then off by at most half the share of
pairs, one of the class and one not, that fall into one bin. AUPRC depends on the order at the top, which
merged bins hide of a rare class: it is given for classes with `FEWEST_FOR_AUPRC` pictures.

Macro metrics are means over the classes that are present among the true labels: a class that no picture has,
has no recall. (scikit-learn's macro precision also counts, as 0, a class that was predicted but is absent;
here it does not count.) A picture is malignant if its class is labelled `malignant`, and called malignant if
its answer is such a class, whichever. Sensitivity and specificity for malignancy are undefined where the
classes are not of both kinds.

**Variance of right and wrong answers** (`Shares`). Each share is x of n pictures: those of some cells of the
matrix among those of more cells. F1 = 2 J / (1 + J) is of one, J = tp / (tp + fp + fn) (Jaccard 1912). With c
the pictures of a cell and

    g = (1[cell is of x] − x/n 1[cell is of n]) / n

what a picture there adds to x/n, the variance is Σ_cells d c g², d being the design effect of the true class
(`DesignEffect`); of a mean, g is the mean of theirs, so that cells that shares have in common are seen as
that. c is smoothed: each class's answers as if one more had been, spread evenly over all answers, and still
as many as they are.

**Variance of areas.** V is the larger of what a model says and what the histogram shows. Of AUROC, with m
pictures of the class and n others, the model is that of exponential scores (Hanley & McNeil 1982)

    V(θ) = θ (1 − θ) (1 + (m − 1)(1 − θ)/(2 − θ) + (n − 1) θ/(1 + θ)) / (m n),

and what shows is the variance of the placements (DeLong et al. 1988). Of AUPRC the model is a proportion's, θ
(1 − θ) / m (Boyd et al. 2013), and what shows is the variance of its linear part. m and n are numbers of
independent pictures. θ is smoothed: as if one picture more of each side had been, which wins half of its
pairs; of AUPRC one of the class, with the precision of guessing.

Pictures of one bin count as equal, and more of them are where bins are merged. Most likely they are ordered
like the others: upper limits start at the area as it is if so. Of AUROC that is the share of pairs in
different bins that are in order; of AUPRC the area where the pictures of the class come first in each bin.

A mean over classes needs to know how the areas are correlated, which histograms of one class each do not say.
Taken is the correlation of the answers' metrics: the AUROC of the answers, (recall + specificity) / 2, and
their F1.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts import Confusion, Counts
from registry.bundle.metrics.intervals import (
    Figure,
    Moments,
    Sample,
    harmonic_between,
    mean_defined,
    of_noise,
    ratio,
)
from registry.bundle.score_bins import SCORE_BINS

FEWEST_FOR_AUPRC = 30
"""Pictures of a class."""


def _right(counts: Confusion) -> NDArray[np.int64]:
    """Right answers of each class, `(..., classes)`."""
    return np.diagonal(counts.confusion, axis1=-2, axis2=-1)


def _support(counts: Confusion) -> NDArray[np.int64]:
    """Pictures of each class, `(..., classes)`."""
    return np.asarray(counts.confusion.sum(axis=-1))


def _answered(counts: Confusion) -> NDArray[np.int64]:
    """Times each class was the answer, `(..., classes)`."""
    return np.asarray(counts.confusion.sum(axis=-2))


def accuracy(counts: Confusion) -> Figure:
    """The share of right answers."""
    return ratio(_right(counts).sum(axis=-1), counts.n)


def recalls(counts: Confusion) -> Figure:
    """Per class, the share of its pictures answered rightly, `(..., classes)`; nan for an absent class."""
    return ratio(_right(counts), _support(counts))


def precisions(counts: Confusion) -> Figure:
    """Per class, the share of its answers that are right, `(..., classes)`.

    0 for a class that is present but never the answer; nan for an absent class.
    """
    share = ratio(_right(counts), np.maximum(_answered(counts), 1))
    return np.where(_support(counts) > 0, share, np.nan)


def f1_scores(counts: Confusion) -> Figure:
    """Per class 2 right / (pictures + answers), `(..., classes)`; nan for an absent class."""
    score = ratio(2 * _right(counts), _support(counts) + _answered(counts))
    return np.where(_support(counts) > 0, score, np.nan)


def specificities(counts: Confusion) -> Figure:
    """Per class, the share of pictures of other classes for which it was not the answer, `(..., classes)`.

    nan for an absent class, and where there are no other pictures.
    """
    support = _support(counts)
    others = np.where(support > 0, counts.n[..., np.newaxis] - support, 0)
    false_alarms = np.where(support > 0, _answered(counts) - _right(counts), 0)
    return ratio(others - false_alarms, others)


def balanced_accuracy(counts: Confusion) -> Figure:
    """Macro recall: the mean recall over the classes present."""
    return mean_defined(recalls(counts))


def weighted(values: Figure, counts: Confusion) -> Figure:
    """The mean of values `(..., classes)`, each class weighted by its pictures."""
    heavy = np.where(np.isnan(values), 0.0, values) * _support(counts)
    return ratio(heavy.sum(axis=-1), counts.n)


def _area_under_roc(histograms: NDArray[np.int64]) -> Figure:
    """P(score of a positive > score of a negative) + half P(equal), from `(..., 2, bins)`."""
    negatives, positives = histograms[..., 0, :], histograms[..., 1, :]
    below = np.cumsum(negatives, axis=-1) - negatives
    won_twice = (positives * (2 * below + negatives)).sum(axis=-1)
    pairs = np.maximum(positives.sum(axis=-1), 0) * np.maximum(negatives.sum(axis=-1), 0)
    return np.clip(ratio(won_twice, 2 * pairs), 0.0, 1.0)  # noise may lead out


def _average_precision(histograms: NDArray[np.int64]) -> Figure:
    """The mean over positives of the precision at each, from high to low, from `(..., 2, bins)`.

    Pictures of one bin enter in expectation over their order. With N pictures of which T positive above a bin
    of m, p of them positive, its p positives add

        sum_{j=1..m} p/m (T + 1 + (j − 1) (p − 1)/(m − 1)) / (N + j),

    which is p/m ((T + 1) h + (p − 1)/(m − 1) (m − (N + 1) h)), where h = sum_{j=1..m} 1/(N + j).
    """
    positives, total = histograms[..., 1, ::-1], histograms.sum(axis=-2)[..., ::-1]
    positives_above = np.cumsum(positives, axis=-1) - positives
    above = np.cumsum(total, axis=-1) - total
    h = harmonic_between(above, above + total)
    others = (positives - 1) / np.maximum(total - 1, 1)  # the share of positives beside one of them
    gained = (positives_above + 1) * h + others * (total - (above + 1) * h)
    return ratio((positives / np.maximum(total, 1) * gained).sum(axis=-1), positives.sum(axis=-1))


def aurocs(counts: Counts) -> Figure:
    """Area under each class's ROC curve, one-vs-rest, `(..., classes)`.

    The probability that a picture of the class scores above one that is not, ties counted half; nan
    unless there are pictures of both kinds.
    """
    return _area_under_roc(counts.scores)


def auroc(counts: Counts) -> Figure:
    """The mean of `aurocs` over the classes that have pictures of both kinds."""
    return mean_defined(aurocs(counts))


def auprcs(counts: Counts) -> Figure:
    """Average precision of each class, one-vs-rest, `(..., classes)`; nan as `aurocs` or of few pictures.

    nan of counts with noise, too: at the top, where precision is made, it is all noise.
    """
    others, positives = counts.scores[..., 0, :].sum(axis=-1), counts.scores[..., 1, :].sum(axis=-1)
    fewest = FEWEST_FOR_AUPRC if counts.scores.shape[-1] == SCORE_BINS else 1
    told = (others > 0) & (positives >= fewest) & counts.tells_confidence[..., np.newaxis]
    return np.where(told, _average_precision(counts.scores), np.nan)


def auprc(counts: Counts) -> Figure:
    """The mean of `auprcs` over the classes for which it is given."""
    return mean_defined(auprcs(counts))


def malignancy_auroc(counts: Counts) -> Figure:
    """AUROC of the malignancy probability; nan unless there are malignant and other pictures."""
    return _area_under_roc(counts.malignancy)


def malignant_sensitivity(counts: Confusion, *, malignant: NDArray[np.bool_]) -> Figure:
    """The share of malignant pictures that are called malignant."""
    return _side(counts, malignant, malignant)


def malignant_specificity(counts: Confusion, *, malignant: NDArray[np.bool_]) -> Figure:
    """The share of pictures that are not malignant and not called malignant."""
    return _side(counts, ~malignant, malignant)


def _side(counts: Confusion, side: NDArray[np.bool_], malignant: NDArray[np.bool_]) -> Figure:
    rows = counts.confusion[..., side, :]
    if malignant.all() or not malignant.any():
        rows = rows * 0
    return ratio(rows[..., side].sum(axis=(-2, -1)), rows.sum(axis=(-2, -1)))


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

    figure: Callable[[Confusion], Figure]
    cells: Callable[[int], tuple[Cells, Cells]]
    is_f1: bool = False
    is_raised: bool = False


def _own_row(classes: int) -> Cells:
    """The row of each class."""
    return np.broadcast_to(np.eye(classes, dtype=bool)[:, :, np.newaxis], (classes,) * 3)


def _own_column(classes: int) -> Cells:
    """The column of each class."""
    return _own_row(classes).transpose(0, 2, 1)


def _everything(classes: int) -> tuple[Cells, Cells]:
    return np.eye(classes, dtype=bool)[np.newaxis], np.ones((1, classes, classes), dtype=bool)


def _of_side(classes: int, side: NDArray[np.bool_]) -> tuple[Cells, Cells]:
    of = np.broadcast_to(side[:, np.newaxis], (classes, classes))
    return (of & side)[np.newaxis], of[np.newaxis]


def _right_of(whole: Callable[[int], Cells]) -> Callable[[int], tuple[Cells, Cells]]:
    """Right answers among the cells of each class that are meant."""
    return lambda classes: (_own_row(classes) & _own_column(classes), whole(classes))


ACCURACY = Shares(lambda counts: accuracy(counts)[..., np.newaxis], _everything)
RECALLS = Shares(recalls, _right_of(_own_row))
PRECISIONS = Shares(precisions, _right_of(_own_column), is_raised=True)
F1 = Shares(f1_scores, _right_of(lambda k: _own_row(k) | _own_column(k)), is_f1=True)
SPECIFICITIES = Shares(specificities, lambda k: (~_own_row(k) & ~_own_column(k), ~_own_row(k)))


def malignant_answers(malignant: NDArray[np.bool_]) -> Shares:
    """Malignant answers among malignant pictures, one share."""
    figure = partial(malignant_sensitivity, malignant=malignant)
    return Shares(lambda counts: figure(counts)[..., np.newaxis], partial(_of_side, side=malignant))


def other_answers(malignant: NDArray[np.bool_]) -> Shares:
    """Answers that are not malignant among pictures that are not, one share."""
    figure = partial(malignant_specificity, malignant=malignant)
    return Shares(lambda counts: figure(counts)[..., np.newaxis], partial(_of_side, side=~malignant))


def each_share(shares: Shares, sample: Sample[Confusion]) -> Moments:
    """Each of some shares, `(..., shares)`."""
    smoothed = _smoothed(sample.counts)
    smooth, linear = _linear(shares, smoothed)
    variance = np.einsum("...fij,...ij->...f", linear**2, smoothed * _by_row(sample))
    variance = variance + sample.noise * of_noise(linear).sum(axis=-1)
    return _moments(shares, shares.figure(sample.counts), smooth, variance)


def mean_share(
    shares: Shares, sample: Sample[Confusion], weights: NDArray[np.float64] | None = None
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


def by_pictures(shares: Shares, sample: Sample[Confusion]) -> Moments:
    """The mean of shares of each class, weighted by its pictures, `(...)`."""
    return mean_share(shares, sample, sample.counts.confusion.sum(axis=-1).astype(np.float64))


def correlation(counts: Confusion, *together: Shares) -> NDArray[np.float64]:
    """R of each class's mean of some kinds of shares, `(..., classes, classes)`; never below 0."""
    smoothed = _smoothed(counts)
    linear = np.sum([_linear(shares, smoothed)[1] for shares in together], axis=0)
    covariance = np.einsum("...fij,...gij,...ij->...fg", linear, linear, smoothed, optimize=True)
    deviation = np.sqrt(np.einsum("...ff->...f", covariance))
    scale = deviation[..., :, np.newaxis] * deviation[..., np.newaxis, :]
    return np.where(scale > 0, np.maximum(covariance, 0.0) / np.where(scale > 0, scale, 1.0), 0.0)


def _smoothed(counts: Confusion) -> NDArray[np.float64]:
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


def _by_row(sample: Sample[Confusion]) -> Figure:
    """The design effect of each true class, `(..., classes, 1)`."""
    return sample.effect.of_classes[..., np.newaxis]


Effects = tuple[Figure, Figure]
"""Design effects of the pictures of a class and of the others."""


def auroc_moments(sample: Sample[Counts]) -> Moments:
    """AUROC of each class, `(..., classes)`."""
    area = aurocs(sample.counts)
    return _under_roc(area, sample.counts.scores, _effects(sample), sample.noise)


def mean_auroc_moments(sample: Sample[Counts]) -> Moments:
    """The mean AUROC over classes, `(...)`."""
    return auroc_moments(sample).mean(correlation(sample.counts, RECALLS, SPECIFICITIES))


def malignancy_moments(sample: Sample[Counts]) -> Moments:
    """AUROC of the malignancy probability, `(...)`."""
    # Which classes are malignant is not known here: each side takes the effect of all pictures.
    support = sample.counts.confusion.sum(axis=-1).astype(np.float64)
    effect = sample.effect.of_scores().of_pictures(support)
    area = malignancy_auroc(sample.counts)
    return _under_roc(area, sample.counts.malignancy, (effect, effect), sample.noise)


def auprc_moments(sample: Sample[Counts]) -> Moments:
    """AUPRC of each class, `(..., classes)`."""
    histograms = sample.counts.scores
    value = auprcs(sample.counts)
    of_class, others = _effects(sample)
    positives = histograms[..., 1, :].sum(axis=-1)
    guessing = ratio(positives, histograms.sum(axis=(-2, -1)))
    smooth = (np.nan_to_num(value) * positives + guessing) / (positives + 1)
    model = smooth * (1 - smooth) * of_class / np.maximum(positives, 1)
    shown = _variance_of_average_precision(histograms) * np.maximum(of_class, others)
    best = np.where(np.isnan(value), np.nan, _best_average_precision(histograms))
    return Moments(value, smooth, np.maximum(model, shown), value, best)


def mean_auprc_moments(sample: Sample[Counts]) -> Moments:
    """The mean AUPRC over classes, `(...)`."""
    return auprc_moments(sample).mean(correlation(sample.counts, F1))


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
