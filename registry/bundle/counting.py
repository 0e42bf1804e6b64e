"""Counts a client's predictions: the block that leaves a hospital, with noise or without.

A prediction does not leave a hospital; its place in a confusion matrix and in histograms of scores does,
summed over all pictures of a subgroup, with neighbouring bins of a histogram merged until each is of several
patients. Every metric in `registry.bundle.metrics` is computed from these sums, which add up over clients.

`NoisyCounts` are disclosed where a job bounds what is disclosed of a patient. Every patient has one picture,
which is in one cell of the confusion matrix and in one bin of a histogram. How many patients of each class
there are is disclosed as it is, like the census. One patient for another of the same class changes the matrix
and the histogram by 1 in two cells each, and each has noise of variance v in every cell: each part that is
disclosed costs the same.

There is one histogram: of two classes the scores of the second, which are those of the first mirrored; of
more the malignancy probability. It has fixed bins, `COARSE_BINS`: merging would depend on the pictures. One
for each class would need K times the variance, and a mean of AUROCs between 0 and 1 that are mostly noise is
no AUROC. Confidence is left out, and with it calibration errors and selective risk.

Noisy numbers may be negative and do not add up. `NoisyCounts.consistent` makes counts of them: the nearest
ones in the L2 norm with the sums that are known, rounded. The matrix has no negative number, which shares of
it need (Wang et al. 2020, *Locally Differentially Private Frequency Estimation with Consistency*, Norm-Sub).
The histogram keeps its own: without them noise would push AUROC towards one half. It is done where the sum
over hospitals is known, since each of them alone would lose its negative half.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts import (
    Concluded,
    Confusion,
    Counts,
    Decisions,
    KindSums,
    Thresholds,
    ThresholdsOfEach,
    Trait,
    is_cell,
    name_of_array,
    read_cells,
)
from registry.bundle.errors import CountsError
from registry.bundle.lesion_counts import LesionSums
from registry.bundle.score_bins import (
    COARSE_BINS,
    COARSE_OF,
    LOGIT_BINS,
    SCORE_BINS,
    malignancy_probability,
    merge,
    middle,
    nearest_to_mean,
    score_bin,
)

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
            histogram: whether it is disclosed, if there is any.
            both_kinds: whether the labels are malignant and others.
        """
        told = sides = None
        if histogram and (counts.num_classes == _SIDES or both_kinds):
            fine = counts.scores[1] if counts.num_classes == _SIDES else counts.malignancy
            told = fine @ (COARSE_OF[:, np.newaxis] == np.arange(len(COARSE_BINS))).astype(np.int64)
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


LESIONS, DECISIONS, KINDS, NODES = (
    "lesions",
    "decisions",
    "kinds",
    "nodes",
)  # arrays next to those of `Counts`


@dataclass(frozen=True)
class Block:
    """The counts that a client sends for one subgroup.

    Attributes:
        point: its counts; each occupied bin of a histogram is of several patients.
        lesions: sums by lesion of right answers by true class, then of malignant pictures that are called
            malignant and of others that are not, `(classes + 2,)` shares; None in counts with noise.
        decisions: what thresholds would do, where the question named them.
        cells: confusion matrices of those of its pictures that share a trait, if asked for.
        noisy: the counts with noise that the others were made of, where a job asks for noise.
        kinds: what is said of pictures by kind of malignancy, where the question named thresholds.
        nodes: of each node of the tree of diagnoses, of how many pictures it is concluded and of how many of
            them wrongly, `(nodes, 2)`; None without conclusions.
    """

    point: Counts
    lesions: LesionSums | None = None
    decisions: Decisions | None = None
    cells: Mapping[Trait, Confusion] = field(default_factory=dict)
    noisy: NoisyCounts | None = None
    kinds: KindSums | None = None
    nodes: NDArray[np.int64] | None = None

    @classmethod
    def of_noisy(cls, noisy: NoisyCounts) -> "Block":
        """The block of consistent counts that noisy ones stand for."""
        return cls(noisy.consistent(), noisy=noisy)

    @cached_property
    def by_lesion(self) -> LesionSums:
        """The sums by lesion of right answers by true class; with noise, each picture is a lesion."""
        if self.lesions is not None:
            return self.lesions[: self.point.num_classes]
        confusion = self.point.confusion
        return LesionSums.of_independent(np.diagonal(confusion), confusion.sum(axis=-1))

    def __add__(self, other: "Block") -> "Block":
        if (self.noisy is None) != (other.noisy is None):
            raise CountsError("one block has noise and the other has none; do all clients run the same job?")
        if self.noisy is not None and other.noisy is not None:
            return Block.of_noisy(self.noisy + other.noisy)
        missing = (self.lesions is None) != (other.lesions is None)
        if missing or (self.decisions is None) != (other.decisions is None):
            raise CountsError(
                "one block has sums by lesion or decisions and the other has none; count both alike"
            )
        both = self.cells.keys() & other.cells.keys()
        return Block(
            self.point + other.point,
            None if self.lesions is None or other.lesions is None else self.lesions + other.lesions,
            None if self.decisions is None or other.decisions is None else self.decisions + other.decisions,
            {
                **self.cells,
                **other.cells,
                **{trait: self.cells[trait] + other.cells[trait] for trait in both},
            },
            kinds=None if self.kinds is None or other.kinds is None else self.kinds + other.kinds,
            nodes=None if self.nodes is None or other.nodes is None else _same(self.nodes, other.nodes),
        )

    def to_arrays(self) -> dict[str, NDArray[np.int32]]:
        """Serializes the block for a message, all int32."""
        if self.noisy is not None:
            return self.noisy.to_arrays()
        # No sum of squares is too large where the counts are not: lesions have few pictures.
        more = {name_of_array(trait): cell.confusion for trait, cell in self.cells.items()}
        for name, sums in ((LESIONS, self.lesions), (DECISIONS, self.decisions), (KINDS, self.kinds)):
            if sums is not None:
                more[name] = sums.to_array()
        if self.nodes is not None:
            more[NODES] = self.nodes
        return self.point.to_arrays() | {name: array.astype(np.int32) for name, array in more.items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "Block":
        """Reads and validates a received or stored block.

        Raises:
            CountsError: the arrays are not what `to_arrays` gives.
        """
        if NOISE in arrays:
            return cls.of_noisy(NoisyCounts.from_arrays(arrays))
        more = {name for name in arrays if name in (LESIONS, DECISIONS, KINDS, NODES) or is_cell(name)}
        counts = Counts.from_arrays({name: array for name, array in arrays.items() if name not in more})
        lesions = decisions = kinds = None
        if LESIONS in arrays:
            lesions = LesionSums.from_array(arrays[LESIONS], counts.num_classes + _SIDES, LESIONS)
            right, confusion = lesions[: counts.num_classes], counts.confusion
            if (right.n != confusion.sum(axis=-1)).any() or (right.x != np.diagonal(confusion)).any():
                raise CountsError(
                    "the sums by lesion do not hold the pictures of the confusion matrix; the block is broken"
                )
        if DECISIONS in arrays:
            decisions = Decisions.from_array(arrays[DECISIONS], int(counts.n))
        if KINDS in arrays:
            kinds = KindSums.from_array(arrays[KINDS], int(counts.n))
        nodes = _read_nodes(arrays[NODES], decisions) if NODES in arrays else None
        return cls(counts, lesions, decisions, read_cells(arrays, counts.confusion), kinds=kinds, nodes=nodes)


def _same(mine: NDArray[np.int64], theirs: NDArray[np.int64]) -> NDArray[np.int64]:
    if mine.shape != theirs.shape:
        raise CountsError(f"conclusions of {len(mine)} and {len(theirs)} nodes do not add up")
    return mine + theirs


def _read_nodes(rows: NDArray[Any], decisions: Decisions | None) -> NDArray[np.int64]:
    whole = None if decisions is None else [int(decisions.reported.x[0]), int(decisions.wrong.x[0])]
    if (
        rows.ndim != _SIDES
        or rows.shape[1] != _SIDES
        or not np.issubdtype(rows.dtype, np.integer)
        or (rows < 0).any()
        or (rows[:, 1] > rows[:, 0]).any()
        or rows.sum(axis=0).tolist() != whole
    ):
        raise CountsError("`nodes` does not hold the pictures that are reported; the block is broken")
    return rows.astype(np.int64)


_TOLERANCE = 0.01  # how far probabilities and their sum may be off: half precision is this coarse


def count(
    probabilities: NDArray[Any],
    labels: NDArray[Any],
    *,
    malignant: NDArray[np.bool_],
    lesions: NDArray[Any] | None = None,
    patients: NDArray[Any] | None = None,
    smallest_cell: int = 1,
    answers: NDArray[np.int64] | None = None,
    parts: Mapping[Trait, NDArray[np.bool_]] | None = None,
    thresholds: Thresholds | ThresholdsOfEach | None = None,
    kinds: NDArray[np.int64] | None = None,
    concluded: Concluded | None = None,
) -> Block:
    """Counts predictions.

    Args:
        probabilities: `(pictures, classes)`; each row sums to 1.
        labels: the true class index of each picture, `(pictures,)`; no -1.
        malignant: which classes are malignant, `(classes,)`.
        lesions: the lesion of each picture, `(pictures,)`; each its own where not given.
        patients: the patient of each picture, `(pictures,)`; the lesions where not given.
        smallest_cell: the fewest patients of an occupied bin of a histogram.
        answers: the class index answered for each picture, `(pictures,)`, where that is not the class of
            highest probability; its probability is then the confidence.
        parts: which pictures `(pictures,)` share a trait; each gives a cell of the block.
        thresholds: of the model, where their effect is to be counted too.
        kinds: the kind of malignancy of each class, `(classes,)`, -1 of one that is not malignant; all
            malignant classes are of one kind where not given.
        concluded: what is concluded of each picture, and then reported; None of a model without conclusions.

    Raises:
        CountsError: the arrays do not fit together, or are no probabilities and class indices.
    """
    probabilities, labels = _read(probabilities, labels, malignant)
    lesions = _numbered(lesions, labels, "lesions", np.arange(len(labels)))
    patients = _numbered(patients, labels, "patients", lesions)
    if answers is None:
        answers = probabilities.argmax(axis=1) if len(labels) else labels
    num_classes = len(malignant)
    pairs = labels * num_classes + answers

    def confusion(of: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.bincount(of, minlength=num_classes**2).reshape(num_classes, num_classes)

    scores, malignancy = _scores(probabilities, labels, malignant, patients, smallest_cell)
    confidence = _confidence(probabilities, labels, answers, patients, smallest_cell)
    decisions = by_kind = None
    if thresholds is not None:
        bins = score_bin(malignancy_probability(probabilities, malignant))
        decisions = Decisions.count(probabilities, labels, lesions, thresholds, malignant, bins, concluded)
        if malignant.any() and not malignant.all():
            kinds = malignant.astype(np.int64) - 1 if kinds is None else kinds
            number = int(kinds.max()) + 1
            by_kind = KindSums.count(bins, malignant[answers], kinds[labels], number, lesions, thresholds)
    return Block(
        Counts(confusion(pairs), scores, malignancy, confidence),
        _lesion_sums(labels, answers, malignant, lesions),
        decisions,
        {trait: Confusion(confusion(pairs[keep])) for trait, keep in (parts or {}).items()},
        kinds=by_kind,
        nodes=None if concluded is None else concluded.count(),
    )


def _read(
    probabilities: NDArray[Any], labels: NDArray[Any], malignant: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    probabilities = np.asarray(probabilities, dtype=np.float64)
    labels = np.asarray(labels)
    if probabilities.ndim != 2 or labels.shape != probabilities.shape[:1]:
        raise CountsError(
            f"probabilities of shape {probabilities.shape} and labels of shape {labels.shape} do not "
            "fit; they are (pictures, classes) and (pictures,)"
        )
    if malignant.shape != probabilities.shape[1:] or malignant.dtype != np.bool_:
        raise CountsError(
            f"`malignant` is {malignant.dtype} of shape {malignant.shape}; it is one bool per class, "
            f"({probabilities.shape[1]},)"
        )
    off = np.abs(probabilities.sum(axis=1) - 1)
    if not (np.isfinite(off).all() and (probabilities >= -_TOLERANCE).all() and (off <= _TOLERANCE).all()):
        raise CountsError(
            "each row of probabilities is finite, without negatives, and sums to 1; "
            "these are logits, or broken"
        )
    if labels.size and (labels.min() < 0 or labels.max() >= probabilities.shape[1]):
        raise CountsError(
            f"labels run from {labels.min()} to {labels.max()}; class indices run from 0 to "
            f"{probabilities.shape[1] - 1}. Leave unlabelled pictures out"
        )
    return probabilities, labels.astype(np.int64)


def _numbered(
    given: NDArray[Any] | None, labels: NDArray[np.int64], name: str, otherwise: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Lesions or patients as numbers from 0 on, `(pictures,)`."""
    if given is None:
        return otherwise
    if np.shape(given) != labels.shape:
        raise CountsError(f"{np.shape(given)} {name} for {labels.shape} pictures; each picture needs one")
    numbers: NDArray[np.int64] = np.unique(given, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return numbers


def _scores(
    probabilities: NDArray[np.float64],
    labels: NDArray[np.int64],
    malignant: NDArray[np.bool_],
    patients: NDArray[np.int64],
    smallest: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The histograms `scores` and `malignancy`.

    Two classes have one order of pictures: it is merged once, and class 0 is counted in the mirrored bins.
    Merged from its own top it would have runs that overlap those of class 1 by a few pictures.
    """

    def merged(column: NDArray[np.float64], patients: NDArray[np.int64] = patients) -> NDArray[np.int64]:
        return merge(score_bin(column), patients, smallest, middle, scores=column)

    num_classes = len(malignant)
    both_kinds = bool(malignant.any() and not malignant.all())
    if num_classes == 2:
        # The matrix tells the number on each side of one half: a run across would tell the few between.
        of_second = np.empty(len(labels), dtype=np.int64)
        second = probabilities.argmax(axis=1) == 1
        sides: tuple[NDArray[np.bool_], ...] = (~second, second)
        if min(len(np.unique(patients[side])) for side in sides) < smallest:
            sides = (np.ones_like(second),)
        for side in sides:
            of_second[side] = merged(probabilities[side, 1], patients[side])
        bins = [LOGIT_BINS.mirrored(of_second), of_second]
        summed = bins[int(malignant.argmax())]
    else:
        bins = [merged(column) for column in probabilities.T]
        summed = merged(malignancy_probability(probabilities, malignant))
    scores = np.stack([_two_sided(of, labels == k) for k, of in enumerate(bins)])
    nothing = np.zeros((2, SCORE_BINS), dtype=np.int64)
    return scores, _two_sided(summed, malignant[labels]) if both_kinds else nothing


def _confidence(
    probabilities: NDArray[np.float64],
    labels: NDArray[np.int64],
    answers: NDArray[np.int64],
    patients: NDArray[np.int64],
    smallest: int,
) -> NDArray[np.int64]:
    """The histogram `confidence`, with the mean confidence of a run kept."""
    highest = probabilities[np.arange(len(labels)), answers]
    to_mean = nearest_to_mean(LOGIT_BINS.middles)
    bins = merge(score_bin(highest), patients, smallest, to_mean, scores=highest)
    return _two_sided(bins, answers == labels)


def _two_sided(bins: NDArray[np.int64], positive: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The histogram `(2, bins)` of pictures that are not so (0) and so (1)."""
    flat = np.bincount(positive * SCORE_BINS + bins, minlength=2 * SCORE_BINS)
    return flat.reshape(2, SCORE_BINS)


def _lesion_sums(
    labels: NDArray[np.int64],
    answers: NDArray[np.int64],
    malignant: NDArray[np.bool_],
    lesions: NDArray[np.int64],
) -> LesionSums:
    """The sums of right answers by true class, and of answers on the right side by side."""
    by_class = LesionSums.count((answers == labels).astype(np.int64), labels, lesions, len(malignant))
    side = malignant[labels] if malignant.any() and not malignant.all() else None
    of_side = np.full(len(labels), -1) if side is None else np.where(side, 0, 1)
    by_side = LesionSums.count(
        (malignant[answers] == malignant[labels]).astype(np.int64), of_side, lesions, _SIDES
    )
    return LesionSums(*np.concatenate([by_class.to_array(), by_side.to_array()]).T)
