"""Sums by lesion: for the variance of a share, and for two models on the same pictures.

A share of pictures (answered rightly, say) has at lesion g the pictures n_g, x_g of them so. Added up over
lesions are Σ n, Σ x, Σ x², Σ x n and Σ n², and how many lesions have several pictures. With r = Σ x / Σ n,
Σ_g (x_g − r n_g)² = Σ x² − 2 r Σ x n + r² Σ n² is what the cluster-robust variance of r is made of (Cochran
1977, section 3.12). Where every lesion has one picture, they disclose no more than Σ n and Σ x.

`PairedCounts` compares the answers of two models to the same pictures: one row for each true class, by
whether the class is answered, one for malignant pictures, by whether a malignant class is, and one for the
others.
"""

from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from registry.bundle.errors import CountsError


@dataclass(frozen=True)
class _Sums:
    """Columns of sums, one entry per share, `(shares,)` int64; those of hospitals add up."""

    def __add__(self, other: Self) -> Self:
        mine, theirs = self.to_array(), other.to_array()
        if mine.shape != theirs.shape:
            raise CountsError(f"sums by lesion of {len(mine)} and {len(theirs)} shares do not add up")
        return type(self)(*(mine + theirs).T)

    def to_array(self) -> NDArray[np.int64]:
        """`(shares, columns)`, in the order of the attributes."""
        return np.stack([getattr(self, each.name) for each in fields(self)], axis=-1)

    @classmethod
    def _read(cls, rows: NDArray[Any], shares: int, name: str) -> Self:
        shape = (shares, len(fields(cls)))
        if rows.shape != shape or not np.issubdtype(rows.dtype, np.integer):
            raise CountsError(
                f"`{name}` is {rows.dtype} of shape {rows.shape}; whole numbers of shape {shape} are expected"
            )
        return cls(*rows.astype(np.int64).T)


@dataclass(frozen=True)
class LesionSums(_Sums):
    """The sums of several shares, `(shares,)` int64, added up as if no two hospitals shared a lesion.

    Attributes:
        n: pictures.
        x: those of them that are so.
        several: lesions with more than one of these pictures.
        xx: Σ_g x_g².
        xn: Σ_g x_g n_g.
        nn: Σ_g n_g².
    """

    n: NDArray[np.int64]
    x: NDArray[np.int64]
    several: NDArray[np.int64]
    xx: NDArray[np.int64]
    xn: NDArray[np.int64]
    nn: NDArray[np.int64]

    def __getitem__(self, rows: slice) -> "LesionSums":
        return LesionSums(*self.to_array()[rows].T)

    @property
    def total(self) -> "LesionSums":
        """All shares added up to one, `(1,)`, where no lesion is in two of them."""
        return LesionSums(*self.to_array().sum(axis=0, keepdims=True).T)

    @classmethod
    def of_independent(cls, x: NDArray[np.int64], n: NDArray[np.int64]) -> "LesionSums":
        """The sums where every picture is a lesion of its own."""
        return cls(n, x, np.zeros_like(n), x, x, n)

    @classmethod
    def count(
        cls, x: NDArray[np.int64], groups: NDArray[np.int64], lesions: NDArray[np.int64], shares: int
    ) -> "LesionSums":
        """The sums of some pictures.

        Args:
            x: 1 for each picture that is so, 0 for the others (or another whole number, for a mean), `(n,)`.
            groups: the share that each picture is of, `(n,)`; pictures of -1 are of none.
            lesions: of each picture, `(n,)`.
            shares: how many shares there are.
        """
        kept = groups >= 0
        share, n_g, x_g = _by_lesion(groups[kept], lesions[kept], x[kept])
        return cls(*_added(share, shares, n_g, x_g, n_g > 1, x_g**2, x_g * n_g, n_g**2))

    @classmethod
    def from_array(cls, rows: NDArray[Any], shares: int, name: str) -> "LesionSums":
        """Reads and validates a received array.

        Raises:
            CountsError: it is not what `to_array` gives.
        """
        sums = cls._read(rows, shares, name)
        if (rows < 0).any() or (sums.nn < sums.n).any() or (sums.several > sums.n // 2).any():
            raise CountsError(f"`{name}` has sums by lesion that no pictures have; the block is broken")
        return sums


_SIDES = 2  # malignant, and not


@dataclass(frozen=True)
class SumsByShare:
    """Sums of shares that have names, each of one or several rows; those of hospitals add up."""

    def __add__(self, other: Self) -> Self:
        return type(self)(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    def to_array(self) -> NDArray[np.int64]:
        """The columns of `LesionSums` of each row, share after share, `(rows, 6)`."""
        return np.concatenate([getattr(self, each.name).to_array() for each in fields(self)])


@dataclass(frozen=True)
class PairedCounts(_Sums):
    """What changes from one model to another on the same pictures, `(classes + 2,)` int64 each.

    Attributes:
        n: pictures.
        gained: those that the second gets right and the first got wrong.
        lost: those that the first got right and the second gets wrong.
        nn: Σ_g n_g² over lesions g, n_g being their pictures.
    """

    n: NDArray[np.int64]
    gained: NDArray[np.int64]
    lost: NDArray[np.int64]
    nn: NDArray[np.int64]

    @classmethod
    def zeros(cls, num_classes: int) -> "PairedCounts":
        """Those of no pictures."""
        return cls(*np.zeros((len(fields(cls)), num_classes + _SIDES), dtype=np.int64))

    @property
    def classes(self) -> slice:
        """The rows of the classes."""
        return slice(0, len(self.n) - _SIDES)

    @property
    def malignant(self) -> int:
        """The row of malignant pictures."""
        return len(self.n) - _SIDES

    @classmethod
    def count(
        cls,
        labels: NDArray[np.int64],
        before: NDArray[np.int64],
        after: NDArray[np.int64],
        lesions: NDArray[np.int64],
        malignant: NDArray[np.bool_],
    ) -> "PairedCounts":
        """Those of some pictures.

        Args:
            labels: true class indices, `(n,)`.
            before: the first model's answers, `(n,)`.
            after: the second's, `(n,)`.
            lesions: of each picture, `(n,)`.
            malignant: which classes are malignant, `(classes,)`.
        """
        answers = np.stack([before, after])
        sides = np.where(malignant[labels], len(malignant), len(malignant) + 1)
        total = cls.zeros(len(malignant))
        for groups, right in ((labels, answers == labels), (sides, malignant[answers] == malignant[labels])):
            row, n, gained, lost = _by_lesion(groups, lesions, right[1] & ~right[0], right[0] & ~right[1])
            total += cls(*_added(row, len(total.n), n, gained, lost, n**2))
        return total

    @classmethod
    def from_array(cls, rows: NDArray[Any], num_classes: int) -> "PairedCounts":
        """Reads and validates a received array.

        Raises:
            CountsError: it is not what `to_array` gives.
        """
        found = cls._read(rows, num_classes + _SIDES, "paired counts")
        of_classes, of_sides = found.n[found.classes].sum(), found.n[found.malignant :].sum()
        if (rows < 0).any() or (found.gained + found.lost > found.n).any() or (found.nn < found.n).any():
            raise CountsError("paired counts have more changes than pictures, or fewer than none")
        if of_classes != of_sides:
            raise CountsError(
                f"paired counts are of {of_classes} pictures by class and {of_sides} by malignancy"
            )
        return found


def _by_lesion(
    groups: NDArray[np.int64], lesions: NDArray[np.int64], *values: NDArray[Any]
) -> list[NDArray[np.int64]]:
    """For each group's pictures of a lesion `(pairs,)`: the group, how many, and their sum of each value."""
    pairs, owner = np.unique(np.stack([groups, lesions], axis=1), axis=0, return_inverse=True)
    sums = _added(owner.reshape(-1), len(pairs), np.ones(len(groups)), *values)
    return [pairs[:, 0], *sums]


def _added(groups: NDArray[np.int64], number: int, *values: NDArray[Any]) -> list[NDArray[np.int64]]:
    """Each value `(n,)` added up by group, `(number,)`."""
    return [np.bincount(groups, weights=of, minlength=number).astype(np.int64) for of in values]
