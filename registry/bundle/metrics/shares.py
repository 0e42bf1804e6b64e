"""Limits of figures of right and wrong answers: proportions of the confusion matrix, and means of them.

Each is x of n pictures: those of some cells of the matrix among those of more cells. Precision, recall and
specificity are; F1 = 2 J / (1 + J) is of one, J = tp / (tp + fp + fn) (Jaccard 1912). The n pictures are
worth n / deff independent ones (`design_effect`).

A single proportion has exact limits (Clopper & Pearson 1934, with effective numbers: Korn & Graubard 1998),
a mean of several Wilson's of each, put together by MOVER (`limits`). Two proportions of one matrix share
cells: their correlation is that of their linear parts, Σ_cells c g_j g_k with g_k = (1[x_k] − r_k 1[n_k]) /
n_k, and never taken below 0.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.confusion import HasConfusion
from registry.bundle.metrics.exact import exact_limits
from registry.bundle.metrics.limits import Limits, mean_limits
from registry.bundle.metrics.ratio import Figure
from registry.bundle.metrics.sample import Sample


@dataclass(frozen=True)
class Cells:
    """The cells of some proportions, both `(proportions, classes, classes)` bool, true by predicted class.

    Attributes:
        so: the cells that x is of.
        of: the cells that n is of.
    """

    so: NDArray[np.bool_]
    of: NDArray[np.bool_]

    @property
    def num_classes(self) -> int:
        return self.of.shape[-1]


def all_answers(classes: int) -> Cells:
    """Right answers among all: accuracy."""
    return Cells(np.eye(classes, dtype=bool)[np.newaxis], np.ones((1, classes, classes), dtype=bool))


def recalls(classes: int) -> Cells:
    """Right answers among the pictures of each class."""
    return Cells(_right(classes), _true(classes))


def precisions(classes: int) -> Cells:
    """Right answers among the answers of each class."""
    return Cells(_right(classes), _true(classes).transpose(0, 2, 1))


def overlaps(classes: int) -> Cells:
    """Right answers among what is of each class or answered with it: Jaccard's J."""
    return Cells(_right(classes), _true(classes) | _true(classes).transpose(0, 2, 1))


def specificities(classes: int) -> Cells:
    """Other answers among the pictures of other classes."""
    others = ~_true(classes)
    return Cells(others & others.transpose(0, 2, 1), others)


def malignant_answers(malignant: NDArray[np.bool_]) -> Cells:
    """Malignant answers among malignant pictures."""
    of = np.broadcast_to(malignant[:, np.newaxis], (len(malignant),) * 2)
    return Cells((of & malignant)[np.newaxis], of[np.newaxis])


def other_answers(malignant: NDArray[np.bool_]) -> Cells:
    """Answers that are not malignant among pictures that are not."""
    return malignant_answers(~malignant)


def _true(classes: int) -> NDArray[np.bool_]:
    """The row of each class, `(classes, classes, classes)`."""
    return np.broadcast_to(np.eye(classes, dtype=bool)[:, :, np.newaxis], (classes,) * 3)


def _right(classes: int) -> NDArray[np.bool_]:
    return _true(classes) & np.eye(classes, dtype=bool)


def share_limits(sample: Sample[HasConfusion], cells: Cells) -> Limits:
    """Exact limits of each proportion, `(..., proportions)`."""
    return exact_limits(*_effective(sample, cells))


def _effective(sample: Sample[HasConfusion], cells: Cells) -> tuple[Figure, Figure]:
    """X and n of as many independent pictures."""
    by_class = np.einsum("...ij,fij->...fi", sample.counts.confusion, cells.of.astype(np.float64))
    x = np.einsum("...ij,fij->...f", sample.counts.confusion, cells.so.astype(np.float64))
    effect = sample.effect.of_pictures(by_class)
    return x / effect, by_class.sum(axis=-1) / effect


def single(cells: Cells, sample: Sample[HasConfusion]) -> Limits:
    """The limits of one proportion; nan of no pictures."""
    x, n = (each[..., 0] for each in _effective(sample, cells))
    return _where(n > 0, exact_limits(x, n))


def correlations(counts: HasConfusion, cells: Cells) -> NDArray[np.float64]:
    """R of some proportions, `(..., proportions, proportions)`."""
    confusion = _filled(counts)
    return _correlation(_linear(confusion, cells), confusion)


def ranks(counts: HasConfusion) -> NDArray[np.float64]:
    """R of the answers' AUROC of each class, (recall + specificity) / 2, `(..., classes, classes)`."""
    confusion = _filled(counts)
    classes = confusion.shape[-1]
    linear = _linear(confusion, recalls(classes)) + _linear(confusion, specificities(classes))
    return _correlation(linear, confusion)


def _filled(counts: HasConfusion) -> NDArray[np.float64]:
    """The confusion matrix with a picture more of each class, so that no figure is certain."""
    return counts.confusion + 1 / counts.confusion.shape[-1]


def _linear(confusion: NDArray[np.float64], cells: Cells) -> NDArray[np.float64]:
    """g of each proportion, `(..., proportions, classes, classes)`."""
    n = np.einsum("...ij,fij->...f", confusion, cells.of.astype(np.float64))
    share = np.einsum("...ij,fij->...f", confusion, cells.so.astype(np.float64)) / n
    return (cells.so - share[..., np.newaxis, np.newaxis] * cells.of) / n[..., np.newaxis, np.newaxis]


def _correlation(linear: NDArray[np.float64], confusion: NDArray[np.float64]) -> NDArray[np.float64]:
    covariance = np.einsum("...fij,...gij,...ij->...fg", linear, linear, confusion, optimize=True)
    deviation = np.sqrt(np.einsum("...ff->...f", covariance))
    scale = deviation[..., :, np.newaxis] * deviation[..., np.newaxis, :]
    return np.maximum(covariance / np.maximum(scale, 1e-12), 0.0)


def per_class(cells: Callable[[int], Cells], sample: Sample[HasConfusion]) -> Limits:
    """A proportion of each class, `(..., classes)`; nan for an absent class."""
    found = share_limits(sample, cells(sample.counts.confusion.shape[-1]))
    return _where(sample.counts.confusion.sum(axis=-1) > 0, found)


def _where(known: NDArray[np.bool_], found: Limits) -> Limits:
    return Limits(*(np.where(known, each, np.nan) for each in (found.value, found.low, found.high)))


def f1_limits(sample: Sample[HasConfusion]) -> Limits:
    """F1 = 2 J / (1 + J) of each class, `(..., classes)`."""
    found = per_class(overlaps, sample)
    return Limits(*(2 * each / (1 + each) for each in (found.value, found.low, found.high)))


def mean_share(
    cells: Callable[[int], Cells], sample: Sample[HasConfusion], *, weighted: bool = False
) -> Limits:
    """The mean over the classes present, each alike or weighted by its pictures, `(...)`."""
    return _mean(per_class(cells, sample), cells, sample, weighted)


def mean_f1(sample: Sample[HasConfusion], *, weighted: bool = False) -> Limits:
    """As `mean_share`, of F1."""
    return _mean(f1_limits(sample), overlaps, sample, weighted)


def _mean(
    parts: Limits, cells: Callable[[int], Cells], sample: Sample[HasConfusion], weighted: bool
) -> Limits:
    confusion = sample.counts.confusion
    weights = confusion.sum(axis=-1).astype(np.float64) if weighted else None
    return mean_limits(parts, weights, correlations(sample.counts, cells(confusion.shape[-1])))
