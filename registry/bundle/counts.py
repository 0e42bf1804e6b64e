"""Counts that add up over clients: confusion matrices, histograms of scores, and what thresholds do.

`Counts` are those of a whole subgroup. Of a part of it, such as the women among the dark-skinned, there is a
`Confusion` matrix alone: a block of counts for each part would be hundreds of megabytes, and the matrix is
enough for every metric of right and wrong answers.

`Decisions` are what a model's thresholds do to some pictures. Histograms leave a client merged, so that a
threshold would cut through a run of pictures: coverage, set size and referral at the thresholds that are
served are therefore counted by the client, exactly.

`ScoreHistograms` are test pictures' scores in a bundle, which the service measures drift against.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self
from urllib.parse import quote, unquote

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from registry.bundle.errors import CountsError
from registry.bundle.frozen import Frozen
from registry.bundle.lesion_counts import LesionSums, SumsByShare
from registry.bundle.score_bins import SCORE_BINS, ScoreBins, bins_of, is_suspicious, score_bin


@dataclass(frozen=True)
class Confusion:
    """Confusion matrices `(..., classes, classes)`, true by predicted class."""

    confusion: NDArray[np.int64]

    @property
    def num_classes(self) -> int:
        """How many classes there are."""
        return int(self.confusion.shape[-1])

    @property
    def n(self) -> NDArray[np.int64]:
        """How many pictures were counted, `(...)`."""
        total: NDArray[np.int64] = np.asarray(self.confusion.sum(axis=(-2, -1)))
        return total

    def __add__(self, other: Self) -> Self:
        if self.confusion.shape != other.confusion.shape:
            raise CountsError(
                f"counts with confusion matrices of shape {self.confusion.shape} and {other.confusion.shape} "
                "do not add up: both need the same classes"
            )
        return type(self)(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))


@dataclass(frozen=True)
class Counts(Confusion):
    """Confusion matrix and score histograms of predictions; arrays may carry leading axes.

    Attributes:
        confusion: `(..., classes, classes)`, true by predicted class.
        scores: `(..., classes, 2, bins)`, for each class the histogram of its probability over the
            pictures not of the class (0) and of the class (1).
        malignancy: `(..., 2, bins)`, the malignancy probability over the pictures that are not
            malignant (0) and malignant (1); all zero when the labels are not of both kinds.
        confidence: `(..., 2, bins)`, the highest probability over wrong (0) and right (1) answers.
    """

    scores: NDArray[np.int64]
    malignancy: NDArray[np.int64]
    confidence: NDArray[np.int64]

    @classmethod
    def zeros(cls, num_classes: int) -> "Counts":
        """The counts of no pictures."""
        return cls(*(np.zeros(shape, dtype=np.int64) for shape in _shapes(num_classes, SCORE_BINS).values()))

    @property
    def bins(self) -> ScoreBins:
        """The bins of the histograms."""
        return bins_of(self.confidence.shape[-1])

    @property
    def tells_confidence(self) -> NDArray[np.bool_]:
        """Whether `confidence` has the pictures, `(...)`; counts with noise have none there."""
        return np.asarray(self.confidence.sum(axis=(-2, -1)) == self.n)

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
                    f"a count of {array.max():,} in `{name}` is over {largest:,}, the most that can be sent"
                )
        return {name: array.astype(np.int32) for name, array in arrays.items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "Counts":
        """Reads and validates received counts: names, shapes, signs, and sums that must agree.

        Raises:
            CountsError: the arrays are not what `to_arrays` gives.
        """
        names = [each.name for each in fields(cls)]
        if sorted(arrays) != sorted(names):
            raise CountsError(
                f"counts are the arrays {', '.join(names)}; these are {', '.join(sorted(arrays))}"
            )
        confusion = arrays["confusion"]
        if confusion.ndim != 2 or confusion.shape[-1] != confusion.shape[-2]:
            raise CountsError(f"`confusion` has shape {confusion.shape}; it is classes by classes")
        bins = bins_of(arrays["confidence"].shape[-1] if arrays["confidence"].ndim else 0)
        for name, shape in _shapes(confusion.shape[-1], len(bins)).items():
            array = arrays[name]
            if not np.issubdtype(array.dtype, np.integer) or array.shape != shape:
                raise CountsError(
                    f"`{name}` is {array.dtype} of shape {array.shape}; whole numbers of shape {shape} are "
                    "expected"
                )
            if array.size and array.min() < 0:
                raise CountsError(f"`{name}` has {array.min()}; a count is never negative")
        counts = cls(*(np.asarray(arrays[name]).astype(np.int64) for name in names))
        if not counts._agree():
            raise CountsError(
                "the histograms do not hold the pictures of the confusion matrix; the block is broken"
            )
        return counts

    def _agree(self) -> bool:
        right, n = np.trace(self.confusion), self.n
        return bool(
            (self.scores.sum(axis=-1)[:, 1] == self.confusion.sum(axis=-1)).all()
            and (self.scores.sum(axis=(-2, -1)) == n).all()
            and (self.confidence.sum(axis=-1) == (n - right, right)).all()
            and self.malignancy.sum() in (0, n)
        )


def _shapes(num_classes: int, bins: int) -> dict[str, tuple[int, ...]]:
    """The shape of each array of `Counts`, without a leading axis, in the order of its attributes."""
    return {
        "confusion": (num_classes, num_classes),
        "scores": (num_classes, 2, bins),
        "malignancy": (2, bins),
        "confidence": (2, bins),
    }


Trait = tuple[str, str]
"""A column and what it says, such as `("sex", "female")`."""

_PREFIX = "cell:"  # before a trait, in the names of arrays


def name_of_array(trait: Trait) -> str:
    """The name of a cell's array in a message; never with a slash in it."""
    return _PREFIX + ":".join(quote(part, safe="") for part in trait)


def read_cells(arrays: Mapping[str, NDArray[Any]], whole: NDArray[np.int64]) -> dict[Trait, Confusion]:
    """Reads the cells among received arrays: the confusion matrices of pictures that share a trait.

    Args:
        arrays: by name; those of other names are left out.
        whole: the confusion matrix of the block that they are parts of, `(classes, classes)`.

    Raises:
        CountsError: an array is no confusion matrix of this shape, counts more than it does, or is called
            by no column and value.
    """
    cells: dict[Trait, Confusion] = {}
    for name in filter(is_cell, arrays):
        column, _, value = name.removeprefix(_PREFIX).partition(":")
        if not column or not value or ":" in value:
            raise CountsError(f"the array {name!r} should be `{_PREFIX}<column>:<value>`")
        rows = arrays[name]
        if not np.issubdtype(rows.dtype, np.integer) or rows.shape != whole.shape:
            raise CountsError(
                f"`{name}` is {rows.dtype} of shape {rows.shape}; whole numbers of shape {whole.shape} are "
                "expected"
            )
        if rows.size and (rows.min() < 0 or (rows > whole).any()):
            raise CountsError(f"`{name}` is no part of `confusion`: a count is negative or larger than there")
        cells[unquote(column), unquote(value)] = Confusion(rows.astype(np.int64))
    return cells


def is_cell(name: str) -> bool:
    """Whether the array of a name is that of a cell."""
    return name.startswith(_PREFIX)


@dataclass(frozen=True)
class Thresholds:
    """The thresholds of a model, as bins of scores.

    Attributes:
        set_from: a class is in the prediction set if its bin is at least this.
        malignant_from: a picture is suspicious if its malignancy's bin is at least this; None of a model
            without a working point.
        ruled_out_below: it is ruled out if that is below this, and is not urgent; None of a model without
            triage, 0 of one that rules nothing out.
        urgent_from: it is urgent if that is at least this; as many as there are bins where none is.
        nodes: of each node of the tree of diagnoses, from which bin on it is concluded; empty where nothing
            is concluded.
    """

    set_from: int
    malignant_from: int | None = None
    ruled_out_below: int | None = None
    urgent_from: int | None = None
    nodes: tuple[int, ...] = ()


@dataclass(frozen=True)
class ThresholdsOfEach:
    """As `Thresholds`, of each picture its own, `(pictures,)`."""

    set_from: NDArray[np.int64]
    malignant_from: NDArray[np.int64] | None = None
    ruled_out_below: NDArray[np.int64] | None = None
    urgent_from: NDArray[np.int64] | None = None
    nodes: NDArray[np.int64] | None = None


def is_ruled_out(
    malignancy: NDArray[np.int64], thresholds: Thresholds | ThresholdsOfEach
) -> NDArray[np.bool_]:
    """Which pictures triage rules out, by the score bin of their malignancy, `(pictures,)`."""
    below, urgent_from = thresholds.ruled_out_below, thresholds.urgent_from
    if below is None or urgent_from is None:
        return np.zeros(len(malignancy), dtype=np.bool_)
    ruled_out: NDArray[np.bool_] = (malignancy < below) & (malignancy < urgent_from)
    return ruled_out


def is_urgent(malignancy: NDArray[np.int64], thresholds: Thresholds | ThresholdsOfEach) -> NDArray[np.bool_]:
    """Which pictures triage calls urgent, by the score bin of their malignancy, `(pictures,)`."""
    urgent_from = thresholds.urgent_from
    return np.zeros(len(malignancy), dtype=np.bool_) if urgent_from is None else malignancy >= urgent_from


@dataclass(frozen=True)
class KindSums(SumsByShare):
    """What is said of pictures by their kind, as sums by lesion of `(kinds + 1,)` shares each.

    The first row is of pictures that are not malignant, the others are of each kind of malignancy.

    Attributes:
        found: those answered with a malignant class.
        suspicious: those at the working point or above; of none without one.
        ruled_out: those that triage rules out; of none without triage.
        urgent: those that it calls urgent; likewise.
    """

    found: LesionSums
    suspicious: LesionSums
    ruled_out: LesionSums
    urgent: LesionSums

    @classmethod
    def count(
        cls,
        malignancy: NDArray[np.int64],
        called: NDArray[np.bool_],
        of_each: NDArray[np.int64],
        kinds: int,
        lesions: NDArray[np.int64],
        thresholds: Thresholds | ThresholdsOfEach,
    ) -> "KindSums":
        """Counts pictures.

        Args:
            malignancy: score bin of the probability of malignancy, `(pictures,)`.
            called: whether the answer is a malignant class, `(pictures,)`.
            of_each: the kind of each picture, `(pictures,)`; -1 of one that is not malignant.
            kinds: how many kinds there are.
            lesions: of each picture, `(pictures,)`.
            thresholds: of the model.
        """
        point, triaged = thresholds.malignant_from, thresholds.urgent_from is not None

        def sums(so: NDArray[np.bool_], *, known: bool = True) -> LesionSums:
            rows = of_each + 1 if known else np.full(len(of_each), -1)
            return LesionSums.count(so.astype(np.int64), rows, lesions, kinds + 1)

        return cls(
            sums(called),
            sums(is_suspicious(malignancy, point), known=point is not None),
            sums(is_ruled_out(malignancy, thresholds), known=triaged),
            sums(is_urgent(malignancy, thresholds), known=triaged),
        )

    @property
    def triaged(self) -> bool:
        """Whether there is any picture of a model with triage."""
        return bool(self.urgent.n.any())

    def of(self, row: int) -> dict[str, LesionSums]:
        """Each share of the others (0) or of a kind (1, …) that was counted, by name."""
        found = {each.name: getattr(self, each.name)[row : row + 1] for each in fields(self)}
        return {name: sums for name, sums in found.items() if getattr(self, name).n.any()}

    @classmethod
    def from_array(cls, rows: NDArray[Any], n: int) -> "KindSums":
        """Reads and validates a received array about n pictures.

        Raises:
            CountsError: it is not what `to_array` gives.
        """
        shares = len(fields(cls))
        each, left = divmod(len(rows) if rows.ndim else 0, shares)
        sums = LesionSums.from_array(rows, each * shares, "kinds")
        found = cls(*(sums[each * place : each * (place + 1)] for place in range(shares)))
        whole = found.found.n
        counted = [getattr(found, one.name) for one in fields(cls)]
        if (
            left
            or not each
            or whole.sum() != n
            or any((of.n != whole).any() and of.n.any() for of in counted)
            or any((of.x > of.n).any() for of in counted)
            or ((found.ruled_out.x + found.urgent.x) > whole).any()
        ):
            raise CountsError(
                "`kinds` does not hold the pictures of the confusion matrix; the block is broken"
            )
        return found


@dataclass(frozen=True)
class Concluded:
    """What is concluded of some pictures.

    Attributes:
        node: its place in the tree of diagnoses, -1 of none, `(pictures,)`.
        wrong: whether the picture is of none of its classes, `(pictures,)`.
        nodes: how many nodes the tree has.
    """

    node: NDArray[np.int64]
    wrong: NDArray[np.bool_]
    nodes: int

    def count(self) -> NDArray[np.int64]:
        """Of how many pictures each node is concluded, and of how many of them wrongly, `(nodes, 2)`."""
        of_each = (self.node[self.node >= 0], self.node[self.wrong])
        return np.stack([np.bincount(of, minlength=self.nodes) for of in of_each], axis=1)


@dataclass(frozen=True)
class Decisions(SumsByShare):
    """What thresholds do to some pictures, as sums by lesion of one share each.

    Attributes:
        covered: of all pictures, those whose prediction set has the true class.
        answered: of all pictures, those of which more is said than that a clinician has to look: something is
            concluded, or triage calls them urgent or rules them out.
        reported: of all pictures, those of which something is concluded.
        wrong: of the reported pictures, those that are none of the classes that were concluded.
        set_sizes: of all pictures, the classes in their prediction sets.
        suspicious: of the malignant pictures, those at the working point or above; of none without one.
        cleared: of the other pictures, those below the working point; likewise.
    """

    covered: LesionSums
    answered: LesionSums
    reported: LesionSums
    wrong: LesionSums
    set_sizes: LesionSums
    suspicious: LesionSums
    cleared: LesionSums

    @property
    def at_working_point(self) -> bool:
        """Whether there is any picture of a model with a working point."""
        return bool(self.suspicious.n.any() or self.cleared.n.any())

    @classmethod
    def count(
        cls,
        probabilities: NDArray[np.float64],
        labels: NDArray[np.int64],
        lesions: NDArray[np.int64],
        thresholds: Thresholds | ThresholdsOfEach,
        malignant: NDArray[np.bool_],
        malignancy: NDArray[np.int64],
        concluded: Concluded | None = None,
    ) -> "Decisions":
        """What thresholds do to pictures of these probabilities `(pictures, classes)`.

        `malignancy` are the score bins of their probabilities of malignancy, `(pictures,)`.
        """
        rows = np.arange(len(labels))
        in_set = score_bin(probabilities) >= np.broadcast_to(thresholds.set_from, rows.shape)[:, np.newaxis]
        reported = wrong = np.zeros(len(labels), dtype=np.bool_)
        if concluded is not None:
            reported, wrong = concluded.node >= 0, concluded.wrong
        answered = reported | is_urgent(malignancy, thresholds) | is_ruled_out(malignancy, thresholds)
        suspicious = is_suspicious(malignancy, thresholds.malignant_from)
        has_point = np.full(len(labels), thresholds.malignant_from is not None)
        everything = np.ones(len(labels), dtype=np.bool_)
        shares = (
            (in_set[rows, labels], everything),
            (answered, everything),
            (reported, everything),
            (wrong, reported),
            (in_set.sum(axis=1), everything),
            (suspicious, has_point & malignant[labels]),
            (~suspicious, has_point & ~malignant[labels]),
        )
        return cls(
            *(LesionSums.count(x.astype(np.int64), of.astype(int) - 1, lesions, 1) for x, of in shares)
        )

    @classmethod
    def from_array(cls, rows: NDArray[Any], n: int) -> "Decisions":
        """Reads and validates a received array about n pictures.

        Raises:
            CountsError: it is not what `to_array` gives.
        """
        sums = LesionSums.from_array(rows, len(fields(cls)), "decisions")
        found = cls(*(sums[row : row + 1] for row in range(len(fields(cls)))))
        whole = (found.covered.n, found.answered.n, found.reported.n, found.set_sizes.n)
        shares = (found.covered, found.answered, found.wrong, found.suspicious, found.cleared)
        if (
            any(of != n for of in whole)
            or found.reported.x > found.answered.x
            or found.wrong.n != found.reported.x
            or found.suspicious.n + found.cleared.n not in (0, n)
            or any(share.x > share.n for share in shares)
        ):
            raise CountsError(
                "`decisions` does not hold the pictures of the confusion matrix; the block is broken"
            )
        return found


Histogram = tuple[int, ...]


class ScoreHistograms(Frozen):
    """Histograms of some test pictures' scores, all in `LOGIT_BINS`.

    Attributes:
        confidence: the highest probability, one count per score bin.
        scores: each class's probability, one count per score bin, `(classes, bins)`.
        malignancy: the malignancy probability, one count per score bin; None where the labels are not of both
            kinds.
        right: `confidence` of those pictures whose most probable class was the true one.
        smallest_cell: the fewest patients of an occupied bin where pictures were counted: neighbours of
            fewer were merged there (`merge`). 1 where none were.
        parts: how many such histograms, each of a subgroup at a hospital, were added up.
    """

    confidence: Histogram
    scores: tuple[Histogram, ...]
    malignancy: Histogram | None = None
    right: Histogram | None = None
    smallest_cell: int = Field(1, ge=1)
    parts: int = Field(1, ge=1)

    @property
    def rows(self) -> tuple[Histogram, ...]:
        """Every histogram."""
        given = (self.confidence, *self.scores, self.malignancy, self.right)
        return tuple(row for row in given if row is not None)

    @classmethod
    def from_counts(cls, counts: Counts, **more: Any) -> Self:
        """The histograms of these counts; keywords are further attributes."""
        malignancy = tuple(np.sum(counts.malignancy, axis=0).tolist())
        return cls(
            confidence=tuple(np.sum(counts.confidence, axis=0).tolist()),
            scores=tuple(tuple(row) for row in np.sum(counts.scores, axis=1).tolist()),
            malignancy=malignancy if any(malignancy) else None,
            right=tuple(np.asarray(counts.confidence)[1].tolist()),
            **more,
        )
