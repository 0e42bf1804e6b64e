"""Figures of right and wrong answers: shares of some cells of the confusion matrix, and means of them.

Each is x of n pictures: those of some cells of the matrix among those of more cells. F1 = 2 J / (1 + J) is of
one, J = tp / (tp + fp + fn) (Jaccard 1912). With c the pictures of a cell and

    g = (1[cell is of x] − x/n 1[cell is of n]) / n

what a picture there adds to x/n, the variance is Σ_cells d c g², d being the design effect of the true class
(`design_effect`); of a mean, g is the mean of theirs, so that cells that shares have in common are seen as
that. c is smoothed: each class's answers as if one more had been, spread evenly over all answers, and still
as many as they are. The limits follow from it (`moments`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.confusion import HasConfusion
from registry.bundle.metrics import classification, malignancy
from registry.bundle.metrics.moments import Moments
from registry.bundle.metrics.ratio import Figure, ratio
from registry.bundle.metrics.sample import Sample, of_noise

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
    figure = partial(malignancy.malignant_sensitivity, malignant=malignant)
    return Shares(lambda counts: figure(counts)[..., np.newaxis], partial(_malignant, side=malignant))


def other_answers(malignant: NDArray[np.bool_]) -> Shares:
    """Answers that are not malignant among pictures that are not, one share."""
    figure = partial(malignancy.malignant_specificity, malignant=malignant)
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
