"""Counts that add up over clients: confusion matrices, histograms of scores, and what thresholds do.

Confusion matrices of parts of a subgroup, such as the women among the dark-skinned.

A whole block of counts for each such part would be hundreds of megabytes; the matrix is enough for every
figure of right and wrong answers.

What a model's thresholds do to some pictures, counted where the pictures are.

Histograms leave merged, so that a threshold would cut through a run of pictures. Coverage, set size and
referral at the thresholds that are served are therefore counted by the client, exactly.

Reference histograms of test pictures' scores, which the service measures drift against.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Protocol, Self
from urllib.parse import quote, unquote

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from registry.bundle.counts.lesions import LesionSums
from registry.bundle.counts.score_bins import (
    SCORE_BINS,
    ScoreBins,
    bins_of,
    is_held_back,
    is_suspicious,
    score_bin,
)
from registry.bundle.errors import CountsError
from registry.bundle.frozen import Frozen


@dataclass(frozen=True)
class Counts:
    """Confusion matrix and score histograms of predictions; arrays may carry leading axes.

    Attributes:
        confusion: `(..., classes, classes)`, true by predicted class.
        scores: `(..., classes, 2, bins)`, for each class the histogram of its probability over the
            pictures not of the class (0) and of the class (1).
        malignancy: `(..., 2, bins)`, the malignancy probability over the pictures that are not
            malignant (0) and malignant (1); all zero when the labels are not of both kinds.
        confidence: `(..., 2, bins)`, the highest probability over wrong (0) and right (1) answers.
    """

    confusion: NDArray[np.int64]
    scores: NDArray[np.int64]
    malignancy: NDArray[np.int64]
    confidence: NDArray[np.int64]

    @classmethod
    def zeros(cls, num_classes: int) -> "Counts":
        """The counts of no pictures."""
        return cls(*(np.zeros(shape, dtype=np.int64) for shape in array_shapes(num_classes).values()))

    @property
    def bins(self) -> ScoreBins:
        """The bins of the histograms."""
        return bins_of(self.confidence.shape[-1])

    @property
    def num_classes(self) -> int:
        """How many classes there are."""
        return int(self.confusion.shape[-1])

    @property
    def n(self) -> NDArray[np.int64]:
        """How many pictures were counted, `(...)`."""
        total: NDArray[np.int64] = np.asarray(self.confusion.sum(axis=(-2, -1)))
        return total

    @property
    def tells_confidence(self) -> NDArray[np.bool_]:
        """Whether `confidence` has the pictures, `(...)`; told with noise it has none."""
        return np.asarray(self.confidence.sum(axis=(-2, -1)) == self.n)

    def __add__(self, other: "Counts") -> "Counts":
        if self.confusion.shape != other.confusion.shape:
            raise CountsError(
                f"counts with confusion matrices of shape {self.confusion.shape} and {other.confusion.shape} "
                "do not add up: both need the same classes"
            )
        return Counts(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    def to_arrays(self) -> dict[str, NDArray[np.int32]]:
        """Serializes the counts for a message, one int32 array per attribute.

        Raises:
            CountsError: a count is over 2,147,483,647.
        """
        largest = np.iinfo(np.int32).max
        arrays = {each.name: getattr(self, each.name) for each in fields(self)}
        for name, array in arrays.items():
            if array.size and array.max() > largest:
                raise CountsError(
                    f"a count of {array.max():,} in `{name}` is over {largest:,}, the most that travels"
                )
        return {name: array.astype(np.int32) for name, array in arrays.items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "Counts":
        """Reads and validates received counts: names, shapes, signs, and sums that must agree.

        Raises:
            CountsError: the arrays are not what `to_arrays` gives.
        """
        return cls(**_checked(arrays))


def array_shapes(num_classes: int, bins: int = SCORE_BINS) -> dict[str, tuple[int, ...]]:
    """The shape of each array of `Counts`, without a leading axis, in the order of its attributes."""
    return {
        "confusion": (num_classes, num_classes),
        "scores": (num_classes, 2, bins),
        "malignancy": (2, bins),
        "confidence": (2, bins),
    }


def _checked(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.int64]]:
    names = [each.name for each in fields(Counts)]
    if sorted(arrays) != sorted(names):
        raise CountsError(f"counts are the arrays {', '.join(names)}; these are {', '.join(sorted(arrays))}")
    confusion = arrays["confusion"]
    if confusion.ndim != 2 or confusion.shape[-1] != confusion.shape[-2]:
        raise CountsError(f"`confusion` has shape {confusion.shape}; it is classes by classes")
    bins = bins_of(arrays["confidence"].shape[-1] if arrays["confidence"].ndim else 0)
    for name, shape in array_shapes(confusion.shape[-1], len(bins)).items():
        array = arrays[name]
        if not np.issubdtype(array.dtype, np.integer) or array.shape != shape:
            raise CountsError(
                f"`{name}` is {array.dtype} of shape {array.shape}; whole numbers of shape {shape} are "
                "expected"
            )
        if array.size and array.min() < 0:
            raise CountsError(f"`{name}` holds {array.min()}; a count is never negative")
    counts = {name: np.asarray(arrays[name]).astype(np.int64) for name in names}

    of_class = counts["confusion"].sum(axis=-1)
    n = of_class.sum(axis=-1)
    right = np.trace(counts["confusion"], axis1=-2, axis2=-1)
    malignancy = counts["malignancy"].sum(axis=(-2, -1))
    agree = (
        (counts["scores"].sum(axis=-1)[..., 1] == of_class).all()
        and (counts["scores"].sum(axis=(-2, -1)) == n[..., np.newaxis]).all()
        and (counts["confidence"].sum(axis=-1) == np.stack([n - right, right], axis=-1)).all()
        and ((malignancy == 0) | (malignancy == n)).all()
    )
    if not agree:
        raise CountsError(
            "the histograms do not hold the pictures of the confusion matrix; the block is broken"
        )
    return counts


Trait = tuple[str, str]
"""A column and what it says, such as `("sex", "female")`."""

_PREFIX = "cell:"  # before a trait, in the names of arrays


class HasConfusion(Protocol):
    """Anything with confusion matrices, from which figures of right and wrong answers are computed."""

    @property
    def confusion(self) -> NDArray[np.int64]:
        """Confusion matrices `(..., classes, classes)`, true by predicted class."""

    @property
    def n(self) -> NDArray[np.int64]:
        """How many pictures were counted, `(...)`."""


@dataclass(frozen=True)
class Confusion:
    """Confusion matrices `(..., classes, classes)`, true by predicted class."""

    confusion: NDArray[np.int64]

    @property
    def n(self) -> NDArray[np.int64]:
        """How many pictures were counted, `(...)`."""
        total: NDArray[np.int64] = np.asarray(self.confusion.sum(axis=(-2, -1)))
        return total


@dataclass(frozen=True)
class Cell:
    """The confusion matrix of the pictures that share a trait.

    Attributes:
        point: the matrix.
    """

    point: Confusion

    def __add__(self, other: "Cell") -> "Cell":
        mine, theirs = self.to_array(), other.to_array()
        if mine.shape != theirs.shape:
            raise CountsError(
                f"cells of shape {mine.shape} and {theirs.shape} do not add up: both need the same classes"
            )
        return Cell.from_array(mine + theirs)

    def to_array(self) -> NDArray[np.int64]:
        """The matrix `(classes, classes)`."""
        return self.point.confusion

    @classmethod
    def from_array(cls, rows: NDArray[Any]) -> "Cell":
        """The cell that `to_array` gave."""
        return cls(Confusion(rows.astype(np.int64)))


def add_cells(first: Mapping[Trait, Cell], second: Mapping[Trait, Cell]) -> dict[Trait, Cell]:
    """Cells added up, trait by trait; one that only one side has stays as it is."""
    both = dict(first)
    for trait, cell in second.items():
        both[trait] = both[trait] + cell if trait in both else cell
    return both


def name_of_array(trait: Trait) -> str:
    """The name of a cell's array in a message; never with a slash in it."""
    return _PREFIX + ":".join(quote(part, safe="") for part in trait)


def trait_of(name: str) -> Trait | None:
    """The trait in the name of an array; None where the array is no cell.

    Raises:
        CountsError: it should be a cell and names no column and value.
    """
    if not name.startswith(_PREFIX):
        return None
    column, colon, value = name.removeprefix(_PREFIX).partition(":")
    if not column or not colon or not value or ":" in value:
        raise CountsError(f"the array {name!r} should be `{_PREFIX}<column>:<value>`")
    return unquote(column), unquote(value)


def read_cells(arrays: Mapping[str, NDArray[Any]], whole: NDArray[np.int64]) -> dict[Trait, Cell]:
    """Reads the cells among received arrays, validated against the block that they are parts of.

    Args:
        arrays: by name.
        whole: the block's confusion matrix `(classes, classes)`.

    Raises:
        CountsError: an array is no confusion matrices of the block's shape, or counts more than it does.
    """
    cells: dict[Trait, Cell] = {}
    for name, rows in arrays.items():
        trait = trait_of(name)
        if trait is None:
            continue
        if not np.issubdtype(rows.dtype, np.integer) or rows.shape != whole.shape:
            raise CountsError(
                f"`{name}` is {rows.dtype} of shape {rows.shape}; whole numbers of shape {whole.shape} are "
                "expected"
            )
        if rows.size and (rows.min() < 0 or (rows > whole).any()):
            raise CountsError(f"`{name}` is no part of `confusion`: a count is negative or larger than there")
        cells[trait] = Cell.from_array(rows)
    return cells


COVERED, REPORTED, WRONG, SET_SIZE, SUSPICIOUS, CLEARED = range(6)
_SHARES = 6


@dataclass(frozen=True)
class Thresholds:
    """The thresholds of a model, as bins of scores.

    Attributes:
        set_from: a class is in the prediction set if its bin is at least this.
        report_from: an answer is reported if its confidence's bin is at least this, and its malignancy does
            not hold it back, see `registry.bundle.counts.score_bins`.
        malignant_from: a picture is suspicious if its malignancy's bin is at least this; None of a model
            without a working point.
    """

    set_from: int
    report_from: int
    malignant_from: int | None = None


@dataclass(frozen=True)
class ThresholdsOfEach:
    """As `Thresholds`, of each picture its own, `(pictures,)`."""

    set_from: NDArray[np.int64]
    report_from: NDArray[np.int64]
    malignant_from: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class Decisions:
    """What thresholds do to some pictures.

    Attributes:
        sums: by lesion, `(6,)` shares: pictures whose set holds the true class, reported ones, wrong ones
            among the reported, the number of classes in the sets, suspicious ones among the malignant, and
            others that are not suspicious. The last two are of no pictures where there is no working point.
    """

    sums: LesionSums

    def __add__(self, other: "Decisions") -> "Decisions":
        return Decisions(self.sums + other.sums)

    @property
    def covered(self) -> LesionSums:
        """Of all pictures, those whose prediction set holds the true class."""
        return self.sums[COVERED : COVERED + 1]

    @property
    def reported(self) -> LesionSums:
        """Of all pictures, those that are not referred."""
        return self.sums[REPORTED : REPORTED + 1]

    @property
    def wrong(self) -> LesionSums:
        """Of the reported pictures, those answered wrongly."""
        return self.sums[WRONG : WRONG + 1]

    @property
    def set_sizes(self) -> LesionSums:
        """Of all pictures, the classes in their prediction sets."""
        return self.sums[SET_SIZE : SET_SIZE + 1]

    @property
    def suspicious(self) -> LesionSums:
        """Of the malignant pictures, those at the working point or above."""
        return self.sums[SUSPICIOUS : SUSPICIOUS + 1]

    @property
    def cleared(self) -> LesionSums:
        """Of the other pictures, those below the working point."""
        return self.sums[CLEARED : CLEARED + 1]

    @property
    def at_working_point(self) -> bool:
        """Whether there is any picture of a model with a working point."""
        return bool(self.sums.n[[SUSPICIOUS, CLEARED]].any())

    @classmethod
    def count(
        cls,
        probabilities: NDArray[np.float64],
        labels: NDArray[np.int64],
        answers: NDArray[np.int64],
        lesions: NDArray[np.int64],
        thresholds: Thresholds | ThresholdsOfEach,
        malignant: NDArray[np.bool_],
    ) -> "Decisions":
        """What thresholds do to pictures of these probabilities `(pictures, classes)`."""
        rows = np.arange(len(labels))
        in_set = score_bin(probabilities) >= np.broadcast_to(thresholds.set_from, rows.shape)[:, np.newaxis]
        held_back = is_held_back(probabilities, answers, malignant, thresholds.malignant_from)
        reported = (score_bin(probabilities[rows, answers]) >= thresholds.report_from) & ~held_back
        suspicious = is_suspicious(probabilities, malignant, thresholds.malignant_from)
        side = np.full(len(labels), -1)  # the share that a picture is of at the working point
        if thresholds.malignant_from is not None:
            side = np.where(malignant[labels], 0, 1)
        all_of = np.zeros(len(labels), dtype=np.int64)
        found = [
            (in_set[rows, labels], all_of),
            (reported, all_of),
            (answers != labels, np.where(reported, 0, -1)),
            (in_set.sum(axis=1), all_of),
            (suspicious, np.where(side == 0, 0, -1)),
            (~suspicious, np.where(side == 1, 0, -1)),
        ]
        sums = [LesionSums.count(x.astype(np.int64), of, lesions, 1).to_array() for x, of in found]
        return cls(LesionSums(*np.concatenate(sums).T))

    @classmethod
    def from_array(cls, rows: NDArray[Any], n: int) -> "Decisions":
        """Reads and validates a received array about n pictures.

        Raises:
            CountsError: it is not what `sums.to_array` gives.
        """
        sums = LesionSums.from_array(rows, _SHARES, "decisions")
        whole = sums.n[[COVERED, REPORTED, SET_SIZE]]
        shares = np.arange(_SHARES) != SET_SIZE
        if (
            (whole != n).any()
            or sums.n[WRONG] != sums.x[REPORTED]
            or sums.n[SUSPICIOUS] + sums.n[CLEARED] not in (0, n)
            or (sums.x[shares] > sums.n[shares]).any()
        ):
            raise CountsError(
                "`decisions` does not hold the pictures of the confusion matrix; the block is broken"
            )
        return cls(sums)


class ScoreHistograms(Frozen):
    """Histograms of some test pictures' scores, all in the bins of the manifest that they stand in.

    Attributes:
        confidence: the highest probability, one count per score bin.
        scores: each class's probability, one count per score bin, `(classes, bins)`.
        malignancy: the malignancy probability, one count per score bin; None where the labels are not of both
            kinds.
        right: `confidence` of those pictures whose most probable class was the true one.
        smallest_cell: the fewest patients of an occupied bin where pictures were counted: neighbours of
            fewer were merged there (`merged_bins`). 1 where none were.
        parts: how many such histograms, each of a subgroup at a hospital, were added up.
    """

    confidence: tuple[int, ...]
    scores: tuple[tuple[int, ...], ...]
    malignancy: tuple[int, ...] | None = None
    right: tuple[int, ...] | None = None
    smallest_cell: int = Field(1, ge=1)
    parts: int = Field(1, ge=1)

    @property
    def rows(self) -> tuple[tuple[int, ...], ...]:
        """Every histogram."""
        given = (self.confidence, *self.scores, self.malignancy, self.right)
        return tuple(row for row in given if row is not None)

    @classmethod
    def from_counts(cls, counts: Counts, **more: Any) -> Self:
        """The histograms of counts without replicates; keywords are further attributes."""
        malignancy = tuple(np.sum(counts.malignancy, axis=0).tolist())
        return cls(
            confidence=tuple(np.sum(counts.confidence, axis=0).tolist()),
            scores=tuple(tuple(row) for row in np.sum(counts.scores, axis=1).tolist()),
            malignancy=malignancy if any(malignancy) else None,
            right=tuple(np.asarray(counts.confidence)[1].tolist()),
            **more,
        )
