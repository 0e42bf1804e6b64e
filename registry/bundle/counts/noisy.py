"""Counts with noise: what is told of a subgroup where a number is to bound what is told of a patient.

Every patient has one picture, which is in one cell of the confusion matrix and in one bin of a histogram. How
many patients of each class there are is told as it is, like the census. One patient for another of the same
class changes the matrix and the histogram by 1 in two cells each, and each has noise of variance v in every
cell: each part that is told costs the same.

One histogram is told: of two classes the scores of the second, which are those of the first mirrored; of
more the malignancy probability. It has fixed bins, `COARSE_BINS`: merging would depend on the pictures. One
for each class would need K times the variance, and a mean of AUROCs between 0 and 1 that are mostly noise
is no AUROC. Nor is the confidence told, and so no calibration error and no selective risk.

Noisy numbers may be negative and do not add up. `consistent` makes counts of them: the nearest ones in the
L2 norm with the sums that are known, rounded. The matrix has no negative number (Wang et al. 2020, *Locally
Differentially Private Frequency Estimation with Consistency*, Norm-Sub), which shares of it need. The
histogram keeps its own: without them noise would push AUROC towards one half. It is done where the sum over
hospitals is known, since each of them alone would lose its negative half.
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
MATRIX, HISTOGRAM, PATIENTS, SIDES = "confusion", "histogram", "patients", "sides"
GRAIN = 16  # variances are whole numbers of sixteenths
_SIDES = 2


@dataclass(frozen=True)
class NoisyCounts:
    """Counts of one subgroup, of one picture of each patient, to which noise is or will be added.

    Attributes:
        matrix: the confusion matrix, `(..., classes, classes)`.
        patients: how many there are of each class, `(..., classes)`; never with noise.
        histogram: in `COARSE_BINS`, `(..., 2, bins)`: the probability of the second of two classes, over the
            pictures not of the class (0) and of it (1), or of malignancy. None where it was not asked for,
            and where there are more than two classes, all malignant or none.
        sides: how many patients are on each side of it, `(..., 2)`; never with noise.
        sixteenths: 16 v; in a sum over hospitals, of all their noise.
        both_kinds: whether the labels are malignant and others; not 0 where they are.
    """

    matrix: NDArray[np.int64]
    patients: NDArray[np.int64]
    histogram: NDArray[np.int64] | None = None
    sides: NDArray[np.int64] | None = None
    sixteenths: int = 0
    both_kinds: int = 0

    @property
    def variance(self) -> float:
        """The variance v of a cell."""
        return self.sixteenths / GRAIN

    @property
    def parts(self) -> dict[str, NDArray[np.int64]]:
        """What gets noise, by name: each part has each picture once, and costs one unit."""
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
        told = sides = None
        if histogram and (counts.num_classes == _SIDES or both_kinds):
            told = coarse(counts.scores[1] if counts.num_classes == _SIDES else counts.malignancy)
            sides = told.sum(axis=-1)
        return cls(counts.confusion, counts.confusion.sum(axis=-1), told, sides, 0, int(both_kinds))

    def __add__(self, other: "NoisyCounts") -> "NoisyCounts":
        mine, theirs = self.to_arrays(), other.to_arrays()
        if {name: array.shape for name, array in mine.items()} != {
            name: array.shape for name, array in theirs.items()
        }:
            raise CountsError("one block has noisy counts that the other has not; ask for both alike")
        return NoisyCounts.from_arrays({name: array + theirs[name] for name, array in mine.items()})

    def to_arrays(self) -> dict[str, NDArray[np.int32]]:
        """As it travels; the arrays of hospitals add up."""
        arrays = {**self.parts, PATIENTS: self.patients}
        if self.sides is not None:
            arrays[SIDES] = self.sides
        arrays[NOISE] = np.array([self.sixteenths, self.both_kinds])
        return {name: array.astype(np.int32) for name, array in arrays.items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "NoisyCounts":
        """Reads and validates received arrays, of one hospital or added up.

        Raises:
            CountsError: they are not what `to_arrays` gives.
        """
        matrix = arrays.get(MATRIX, np.zeros(0))
        classes = matrix.shape[-1] if matrix.ndim else 0
        shapes = {MATRIX: (classes, classes), PATIENTS: (classes,), NOISE: (2,)}
        if HISTOGRAM in arrays or SIDES in arrays:
            shapes |= {HISTOGRAM: (_SIDES, len(COARSE_BINS)), SIDES: (_SIDES,)}
        for name in dict.fromkeys([*shapes, *arrays]):
            array = arrays.get(name, np.zeros(0))
            whole = array.shape == shapes.get(name) and np.issubdtype(array.dtype, np.integer)
            if not whole or not classes or (name not in (MATRIX, HISTOGRAM) and (array < 0).any()):
                raise CountsError(
                    f"`{name}` of noisy counts is {array.dtype} of shape {array.shape}; whole numbers of "
                    f"shape {shapes.get(name)} are expected, none below 0 where there is no noise"
                )
        read = {name: array.astype(np.int64) for name, array in arrays.items()}
        sixteenths, both_kinds = read[NOISE].tolist()
        return cls(read[MATRIX], read[PATIENTS], read.get(HISTOGRAM), read.get(SIDES), sixteenths, both_kinds)

    def consistent(self) -> Counts:
        """Counts that could be, but for negative numbers in histograms; those of no confidence, `(...)`."""
        matrix = consistent_matrix(self.matrix, self.patients)
        nothing = np.zeros((*self.patients.shape[:-1], _SIDES, len(COARSE_BINS)), dtype=np.int64)
        scores, malignancy = np.stack([nothing] * matrix.shape[-1], axis=-3), nothing
        if self.histogram is not None and self.sides is not None:
            malignancy = shifted(self.histogram, self.sides)
            if matrix.shape[-1] == _SIDES:
                scores = np.stack([malignancy[..., ::-1, ::-1], malignancy], axis=-3)
        return Counts(matrix, scores, malignancy if self.both_kinds else nothing, nothing)


def coarse(fine: NDArray[np.int64]) -> NDArray[np.int64]:
    """Histograms in `COARSE_BINS` from those in `LOGIT_BINS`, `(..., bins)`."""
    in_bin = (COARSE_OF[:, np.newaxis] == np.arange(len(COARSE_BINS))).astype(np.int64)
    told: NDArray[np.int64] = fine @ in_bin
    return told


def consistent_matrix(told: NDArray[np.int64], patients: NDArray[np.int64]) -> NDArray[np.int64]:
    """A confusion matrix without negative numbers, `(..., classes, classes)`, with these sums of rows.

    First the right answers to each class, as the nearest row of the right sum has them, then which wrong
    ones. All cells of a row at once would do too much to the right answers: of many cells that are empty the
    positive half of the noise stays, and what it adds is taken from the full ones.
    """
    classes = told.shape[-1]
    surplus = (told.sum(axis=-1) - patients) / classes
    right = np.rint(np.diagonal(told, axis1=-2, axis2=-1) - surplus).astype(np.int64)
    right = np.clip(right, 0, patients)
    if classes == 1:
        return patients[..., np.newaxis]
    itself = np.eye(classes, dtype=np.bool_)
    others = np.where(itself, np.iinfo(np.int32).min, told)  # so low that nothing is put there
    return np.where(itself, right[..., np.newaxis], nearest(others, patients - right))


def nearest(values: NDArray[np.int64], totals: NDArray[np.int64]) -> NDArray[np.int64]:
    """The nearest whole numbers from 0 on with the given sums, `(..., cells)` for sums `(...)`.

    x = max(y − τ, 0) with the τ that gives the sum (Duchi et al. 2008, Figure 1); what rounding down leaves
    goes to the largest remainders.
    """
    ordered = -np.sort(-values.astype(np.float64), axis=-1)
    thresholds = (ordered.cumsum(axis=-1) - totals[..., np.newaxis]) / np.arange(1, values.shape[-1] + 1)
    kept = (ordered > thresholds).sum(axis=-1, keepdims=True)
    tau = np.take_along_axis(thresholds, np.maximum(kept - 1, 0), axis=-1)
    exact = np.where(totals[..., np.newaxis] > 0, np.maximum(values - tau, 0.0), 0.0)
    whole = np.floor(exact + 1e-9)
    left = np.rint(totals - whole.sum(axis=-1)).astype(np.int64)[..., np.newaxis]
    order = np.argsort(np.argsort(whole - exact, axis=-1, kind="stable"), axis=-1, kind="stable")
    nearest_whole: NDArray[np.int64] = (whole + (order < left)).astype(np.int64)
    return nearest_whole


def shifted(values: NDArray[np.int64], totals: NDArray[np.int64]) -> NDArray[np.int64]:
    """The nearest whole numbers with the given sums, below 0 too, `(..., cells)` for sums `(...)`.

    Every cell gives up the same share of what is too much; what is less than one is spread over the cells,
    since at one end of a histogram it would move the whole.
    """
    surplus = (values.sum(axis=-1) - totals)[..., np.newaxis]
    given = np.rint(surplus * np.arange(values.shape[-1] + 1) / values.shape[-1]).astype(np.int64)
    whole: NDArray[np.int64] = values - np.diff(given, axis=-1)
    return whole
