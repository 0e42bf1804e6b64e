"""Counts of predictions, which add up over clients, and the block of them that a client sends."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.confusion import Cell, Trait, add_cells, name_of_array, read_cells, trait_of
from registry.bundle.counts.score_bins import SCORE_BINS
from registry.bundle.errors import CountsError


@dataclass(frozen=True)
class Counts:
    """Confusion matrix and score histograms of predictions; arrays may carry a leading axis of replicates.

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
    def zeros(cls, num_classes: int, replicates: int | None = None) -> "Counts":
        """The counts of no pictures."""
        lead = () if replicates is None else (replicates,)
        return cls(*(np.zeros(lead + shape, dtype=np.int64) for shape in array_shapes(num_classes).values()))

    @property
    def num_classes(self) -> int:
        """How many classes there are."""
        return int(self.confusion.shape[-1])

    @property
    def n(self) -> NDArray[np.int64]:
        """How many pictures were counted, `()` or `(replicates,)`."""
        total: NDArray[np.int64] = np.asarray(self.confusion.sum(axis=(-2, -1)))
        return total

    def __add__(self, other: "Counts") -> "Counts":
        if self.confusion.shape != other.confusion.shape:
            raise CountsError(
                f"counts with confusion matrices of shape {self.confusion.shape} and "
                f"{other.confusion.shape} do not add up: both need the same classes and replicates"
            )
        return Counts(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    def replicate(self, index: int) -> "Counts":
        """One replicate of counts that carry a leading axis."""
        if self.confusion.ndim != 3:
            raise CountsError("these counts have no replicates; ask for `replicates` when counting")
        return Counts(*(getattr(self, each.name)[index] for each in fields(self)))

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


@dataclass(frozen=True)
class Block:
    """The counts that a client sends for one subgroup, with bootstrap replicates and cells.

    Attributes:
        point: its counts.
        replicates: their bootstrap replicates, if asked for.
        cells: confusion matrices of those of its pictures that share a trait, if asked for; with as many
            replicates, of the same weights.
    """

    point: Counts
    replicates: Counts | None = None
    cells: Mapping[Trait, Cell] = field(default_factory=dict)

    def __add__(self, other: "Block") -> "Block":
        cells = add_cells(self.cells, other.cells)
        if self.replicates is None and other.replicates is None:
            return Block(self.point + other.point, cells=cells)
        if self.replicates is None or other.replicates is None:
            raise CountsError("one block has bootstrap replicates and the other has none; count both alike")
        return Block(self.point + other.point, self.replicates + other.replicates, cells)

    def to_arrays(self) -> dict[str, NDArray[np.int32]]:
        """Serializes the block for a message: row 0 of each array is the point, the others the replicates."""
        point = self.point.to_arrays()
        # No count of a cell is over the block's own, which fits.
        cells = {name_of_array(trait): cell.to_array().astype(np.int32) for trait, cell in self.cells.items()}
        if self.replicates is None:
            return {name: array[np.newaxis] for name, array in point.items()} | cells
        replicates = self.replicates.to_arrays()
        return {
            name: np.concatenate([array[np.newaxis], replicates[name]]) for name, array in point.items()
        } | cells

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "Block":
        """Reads and validates a received block.

        Raises:
            CountsError: the arrays are not what `to_arrays` gives.
        """
        rows = Counts.from_arrays({name: array for name, array in arrays.items() if trait_of(name) is None})
        if rows.confusion.ndim != 3 or not len(rows.confusion):
            raise CountsError(
                f"a block's arrays start with the point; `confusion` has shape {rows.confusion.shape}"
            )
        rest = Counts(*(getattr(rows, each.name)[1:] for each in fields(rows)))
        cells = read_cells(arrays, rows.confusion)
        return cls(rows.replicate(0), rest if len(rest.confusion) else None, cells)


def array_shapes(num_classes: int) -> dict[str, tuple[int, ...]]:
    """The shape of each array of `Counts`, without a leading axis, in the order of its attributes."""
    return {
        "confusion": (num_classes, num_classes),
        "scores": (num_classes, 2, SCORE_BINS),
        "malignancy": (2, SCORE_BINS),
        "confidence": (2, SCORE_BINS),
    }


def _checked(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.int64]]:
    names = [each.name for each in fields(Counts)]
    if sorted(arrays) != sorted(names):
        raise CountsError(f"counts are the arrays {', '.join(names)}; these are {', '.join(sorted(arrays))}")
    confusion = arrays["confusion"]
    if confusion.ndim not in (2, 3) or confusion.shape[-1] != confusion.shape[-2]:
        raise CountsError(f"`confusion` has shape {confusion.shape}; it is classes by classes")
    lead = confusion.shape[:-2]
    for name, shape in array_shapes(confusion.shape[-1]).items():
        array = arrays[name]
        if not np.issubdtype(array.dtype, np.integer) or array.shape != lead + shape:
            raise CountsError(
                f"`{name}` is {array.dtype} of shape {array.shape}; whole numbers of shape "
                f"{lead + shape} are expected"
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
