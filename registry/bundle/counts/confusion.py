"""Confusion matrices of parts of a subgroup, such as the women among the dark-skinned.

A whole block of counts for each such part would be hundreds of megabytes; the matrix is enough for every
figure of right and wrong answers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote, unquote

import numpy as np
from numpy.typing import NDArray

from registry.bundle.errors import CountsError

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
