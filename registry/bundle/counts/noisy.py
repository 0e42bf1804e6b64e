"""Counts with noise: what is told of a subgroup where a number is to bound what is told of a patient.

Every patient has one picture, which is in one cell of the confusion matrix and in one bin of a histogram.
One patient for another changes each of these two parts by 1 in two cells, and each has noise of variance v in
every cell: each part that is told costs the same.

One histogram is told: of two classes the scores of the second, which are those of the first mirrored; of
more the malignancy probability. It has fixed bins, `COARSE_BINS`: merging would depend on the pictures. One
for each class would need K times the variance, and a mean of AUROCs between 0 and 1 that are mostly noise
is no AUROC. Nor is the confidence told, and so no calibration error and no selective risk.

Noisy numbers may be negative and do not add up. `consistent` makes counts of them: the nearest ones in the
L2 norm with the sums that the matrix tells, rounded. The matrix has no negative number (Wang et al. 2020,
*Locally Differentially Private Frequency Estimation with Consistency*, Norm-Sub), which shares of it need.
The histogram keeps its own: without them noise would push AUROC towards one half. It is done where the sum
over hospitals is known, since each of them alone would lose its negative half.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.histograms import Counts
from registry.bundle.counts.score_bins import COARSE_BINS, COARSE_OF
from registry.bundle.errors import CountsError

NOISE = "noise"  # the array that tells how much there is, and marks a noisy block
MATRIX, HISTOGRAM = "confusion", "histogram"
GRAIN = 16  # variances are whole numbers of sixteenths
_SIDES = 2


@dataclass(frozen=True)
class NoisyCounts:
    """Counts of one subgroup, of one picture of each patient, to which noise is or will be added.

    Attributes:
        matrix: the confusion matrix, `(classes, classes)`.
        histogram: in `COARSE_BINS`, `(2, bins)`: the probability of the second of two classes, over the
            pictures not of the class (0) and of it (1), or of malignancy. None where it was not asked for,
            and where there are more than two classes, all malignant or none.
        sixteenths: 16 v; in a sum over hospitals, of all their noise.
        both_kinds: whether the labels are malignant and others; not 0 where they are.
    """

    matrix: NDArray[np.int64]
    histogram: NDArray[np.int64] | None = None
    sixteenths: int = 0
    both_kinds: int = 0

    @property
    def variance(self) -> float:
        """The variance v of a cell of the matrix."""
        return self.sixteenths / GRAIN

    @property
    def parts(self) -> dict[str, NDArray[np.int64]]:
        """What is told, by name: each part has each picture once, and costs one unit of noise."""
        found = {MATRIX: self.matrix, HISTOGRAM: self.histogram}
        return {name: part for name, part in found.items() if part is not None}

    @classmethod
    def of(cls, counts: Counts, *, histogram: bool, both_kinds: bool) -> "NoisyCounts":
        """The numbers to which noise is added, of exact counts.

        Args:
            counts: in `LOGIT_BINS`, of one picture of each patient.
            histogram: whether it is told, if there is any.
            both_kinds: whether the labels are malignant and others.
        """
        told = None
        if histogram and (counts.num_classes == _SIDES or both_kinds):
            fine = counts.scores[1] if counts.num_classes == _SIDES else counts.malignancy
            told = coarse(fine)
        return cls(counts.confusion, told, 0, int(both_kinds))

    def __add__(self, other: "NoisyCounts") -> "NoisyCounts":
        mine, theirs = self.to_arrays(), other.to_arrays()
        if {name: array.shape for name, array in mine.items()} != {
            name: array.shape for name, array in theirs.items()
        }:
            raise CountsError("one block has noisy counts that the other has not; ask for both alike")
        return NoisyCounts.from_arrays({name: array + theirs[name] for name, array in mine.items()})

    def to_arrays(self) -> dict[str, NDArray[np.int32]]:
        """As it travels; the arrays of hospitals add up."""
        arrays = {**self.parts, NOISE: np.array([self.sixteenths, self.both_kinds])}
        return {name: array.astype(np.int32) for name, array in arrays.items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "NoisyCounts":
        """Reads and validates received arrays, of one hospital or added up.

        Raises:
            CountsError: they are not what `to_arrays` gives.
        """
        classes = arrays[MATRIX].shape[-1] if MATRIX in arrays and arrays[MATRIX].ndim else 0
        noise = arrays[NOISE]
        known = noise.shape == (2,) and classes > 0
        shapes = {
            MATRIX: (classes, classes),
            HISTOGRAM: (_SIDES, len(COARSE_BINS)),
            NOISE: (2,),
        }
        for name, array in arrays.items():
            whole = np.issubdtype(array.dtype, np.integer)
            if (
                not known
                or not whole
                or array.shape != shapes.get(name)
                or (name == NOISE and (array < 0).any())
            ):
                raise CountsError(
                    f"`{name}` of noisy counts is {array.dtype} of shape {array.shape}; whole numbers of "
                    f"shape {shapes.get(name)} are expected"
                )
        read = {name: array.astype(np.int64) for name, array in arrays.items()}
        return cls(read[MATRIX], read.get(HISTOGRAM), int(noise[0]), int(noise[1]))

    def consistent(self) -> Counts:
        """Counts that could be, but for negative numbers in histograms; those of no confidence, `(...)`."""
        matrix = consistent_matrix(self.matrix)
        of_class, n = matrix.sum(axis=-1), matrix.sum(axis=(-2, -1))
        nothing = np.zeros((*n.shape, _SIDES, len(COARSE_BINS)), dtype=np.int64)
        scores, malignancy = np.stack([nothing] * matrix.shape[-1], axis=-3), nothing
        if self.histogram is not None and matrix.shape[-1] == _SIDES:
            malignancy = nearest(self.histogram, of_class, signed=True)
            scores = np.stack([malignancy[..., ::-1, ::-1], malignancy], axis=-3)
        elif self.histogram is not None:
            flat = self.histogram.reshape(*n.shape, -1)
            malignancy = nearest(flat, n, signed=True).reshape(nothing.shape)
        return Counts(matrix, scores, malignancy if self.both_kinds else nothing, nothing)


def coarse(fine: NDArray[np.int64]) -> NDArray[np.int64]:
    """Histograms in `COARSE_BINS` from those in `LOGIT_BINS`, `(..., bins)`."""
    in_bin = (COARSE_OF[:, np.newaxis] == np.arange(len(COARSE_BINS))).astype(np.int64)
    told: NDArray[np.int64] = fine @ in_bin
    return told


def consistent_matrix(told: NDArray[np.int64]) -> NDArray[np.int64]:
    """A confusion matrix without negative numbers, `(..., classes, classes)`, from the top down.

    First all pictures, then those of each class, then the right and the wrong answers to these, at last which
    wrong ones. All cells of a row at once would do too much to the right answers: of many cells that are
    empty the positive half of the noise stays, and what it adds is taken from the full ones.
    """
    n = np.maximum(told.sum(axis=(-2, -1)), 0)
    of_class = nearest(told.sum(axis=-1), n)
    right = np.clip(np.diagonal(told, axis1=-2, axis2=-1), 0, of_class)
    itself = np.eye(told.shape[-1], dtype=np.bool_)
    others = np.where(itself, np.iinfo(np.int32).min, told)  # so low that nothing is put there
    return np.where(itself, right[..., np.newaxis], nearest(others, of_class - right))


def nearest(
    values: NDArray[np.int64], totals: NDArray[np.int64], *, signed: bool = False
) -> NDArray[np.int64]:
    """The nearest whole numbers with the given sums, `(..., cells)` for sums `(...)`; from 0 on, or `signed`.

    x = y − τ, or max(y − τ, 0), with the τ that gives the sum (Duchi et al. 2008, Figure 1); what rounding
    down leaves goes to the largest remainders.
    """
    ordered = -np.sort(-values.astype(np.float64), axis=-1)
    thresholds = (ordered.cumsum(axis=-1) - totals[..., np.newaxis]) / np.arange(1, values.shape[-1] + 1)
    kept = (ordered > thresholds).sum(axis=-1, keepdims=True)
    if signed:
        exact = values - thresholds[..., -1:]
    else:
        tau = np.take_along_axis(thresholds, np.maximum(kept - 1, 0), axis=-1)
        exact = np.where(totals[..., np.newaxis] > 0, np.maximum(values - tau, 0.0), 0.0)
    whole = np.floor(exact + 1e-9)
    left = np.rint(totals - whole.sum(axis=-1)).astype(np.int64)[..., np.newaxis]
    order = np.argsort(np.argsort(whole - exact, axis=-1, kind="stable"), axis=-1, kind="stable")
    nearest_whole: NDArray[np.int64] = (whole + (order < left)).astype(np.int64)
    return nearest_whole
