"""Sums by lesion: for the variance of a share, and of two models on the same pictures.

Sums by lesion, from which the variance of a share follows where a lesion has several pictures.

Of the pictures that a share is of, n_g at lesion g and x_g of them so (answered rightly, say): Σ n, Σ x,
Σ x², Σ x n and Σ n² over lesions, and how many lesions have several pictures. With r = Σ x / Σ n the share,
Σ_g (x_g − r n_g)² = Σ x² − 2 r Σ x n + r² Σ n² is what the cluster-robust variance of r is made of (Cochran
1977, section 3.12). Where every lesion has one picture, they tell nothing that Σ n and Σ x do not.

Two models' answers to the same pictures: how many the one gets right that the other got wrong.

Counted where the pictures are, in rows that add up over hospitals: one for each true class, by whether the
class is answered; one for malignant pictures, by whether a malignant class is, and one for the others.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from registry.bundle.errors import CountsError

COLUMNS = ("n", "x", "several", "xx", "xn", "nn")


@dataclass(frozen=True)
class LesionSums:
    """The sums of several shares, `(shares,)` int64; those of hospitals add up, as if none shared a lesion.

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

    def __add__(self, other: "LesionSums") -> "LesionSums":
        if self.n.shape != other.n.shape:
            raise CountsError(f"sums by lesion of {self.n.shape} and {other.n.shape} shares do not add up")
        return LesionSums(*(self.to_array() + other.to_array()).T)

    def __getitem__(self, rows: slice) -> "LesionSums":
        return LesionSums(*self.to_array()[rows].T)

    def to_array(self) -> NDArray[np.int64]:
        """`(shares, 6)`, in the order of the attributes."""
        return np.stack([getattr(self, name) for name in COLUMNS], axis=-1)

    @property
    def others(self) -> "LesionSums":
        """Of the same shares, the pictures that are not so: x becomes n − x."""
        xx, xn = self.xx - 2 * self.xn + self.nn, self.nn - self.xn
        return LesionSums(self.n, self.n - self.x, self.several, xx, xn, self.nn)

    def pooled(self) -> "LesionSums":
        """All shares together as one, `(1,)`."""
        return LesionSums(*self.to_array().sum(axis=0, keepdims=True).T)

    @classmethod
    def of_independent(cls, x: NDArray[np.int64], n: NDArray[np.int64]) -> "LesionSums":
        """The sums where every picture is a lesion of its own."""
        x, n = np.asarray(x, dtype=np.int64), np.asarray(n, dtype=np.int64)
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
        x, groups, lesions = x[kept], groups[kept], lesions[kept]
        pairs, owner = np.unique(np.stack([groups, lesions], axis=1), axis=0, return_inverse=True)
        owner = owner.reshape(-1)
        pictures = np.bincount(owner, minlength=len(pairs))
        found = np.bincount(owner, weights=x, minlength=len(pairs)).astype(np.int64)
        columns = (pictures, found, pictures > 1, found**2, found * pictures, pictures**2)
        sums = [np.bincount(pairs[:, 0], weights=each, minlength=shares) for each in columns]
        return cls(*(each.astype(np.int64) for each in sums))

    @classmethod
    def from_array(cls, rows: NDArray[Any], shares: int, name: str) -> "LesionSums":
        """Reads and validates a received array.

        Raises:
            CountsError: it is not what `to_array` gives.
        """
        if rows.shape != (shares, len(COLUMNS)) or not np.issubdtype(rows.dtype, np.integer):
            raise CountsError(
                f"`{name}` is {rows.dtype} of shape {rows.shape}; whole numbers of shape "
                f"{(shares, len(COLUMNS))} are expected"
            )
        sums = cls(*rows.astype(np.int64).T)
        if (rows < 0).any() or (sums.nn < sums.n).any() or (sums.several > sums.n // 2).any():
            raise CountsError(f"`{name}` holds sums by lesion that no pictures have; the block is broken")
        return sums


PAIRED_COLUMNS = ("n", "gained", "lost", "nn")
SIDES = 2  # malignant, and not


@dataclass(frozen=True)
class PairedCounts:
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
        return cls(*np.zeros((len(PAIRED_COLUMNS), num_classes + SIDES), dtype=np.int64))

    def __add__(self, other: "PairedCounts") -> "PairedCounts":
        return PairedCounts(*(self.to_array() + other.to_array()).T)

    @property
    def classes(self) -> slice:
        """The rows of the classes."""
        return slice(0, len(self.n) - SIDES)

    @property
    def malignant(self) -> int:
        """The row of malignant pictures."""
        return len(self.n) - SIDES

    def to_array(self) -> NDArray[np.int64]:
        """`(classes + 2, 4)`, in the order of the attributes."""
        return np.stack([getattr(self, name) for name in PAIRED_COLUMNS], axis=-1)

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
        classes = len(malignant)
        sides = np.where(malignant[labels], classes, classes + 1)
        right = np.stack([before == labels, after == labels])
        right_side = malignant[np.stack([before, after])] == malignant[labels]
        rows = [
            _rows(group, kept[0], kept[1], lesions) for group, kept in ((labels, right), (sides, right_side))
        ]
        total = cls.zeros(classes).to_array()
        for group, columns in rows:
            np.add.at(total, group, columns)
        return cls(*total.T)

    @classmethod
    def from_array(cls, rows: NDArray[Any], num_classes: int) -> "PairedCounts":
        """Reads and validates a received array.

        Raises:
            CountsError: it is not what `to_array` gives.
        """
        if rows.shape != (num_classes + SIDES, len(PAIRED_COLUMNS)) or not np.issubdtype(
            rows.dtype, np.integer
        ):
            raise CountsError(
                f"paired counts are {rows.dtype} of shape {rows.shape}; whole numbers of shape "
                f"{(num_classes + SIDES, len(PAIRED_COLUMNS))} are expected"
            )
        found = cls(*rows.astype(np.int64).T)
        of_classes, of_sides = found.n[found.classes].sum(), found.n[found.malignant :].sum()
        if (rows < 0).any() or (found.gained + found.lost > found.n).any() or (found.nn < found.n).any():
            raise CountsError("paired counts hold more changes than pictures, or fewer than none")
        if of_classes != of_sides:
            raise CountsError(
                f"paired counts are of {of_classes} pictures by class and {of_sides} by malignancy"
            )
        return found


def _rows(
    groups: NDArray[np.int64],
    before: NDArray[np.bool_],
    after: NDArray[np.bool_],
    lesions: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The group of each lesion's pictures of a group, and what they add to its row, `(pairs, 4)`."""
    pairs, owner = np.unique(np.stack([groups, lesions], axis=1), axis=0, return_inverse=True)
    owner = owner.reshape(-1)
    n, gained, lost = (
        np.bincount(owner, weights=each, minlength=len(pairs)).astype(np.int64)
        for each in (np.ones(len(groups)), after & ~before, before & ~after)
    )
    return pairs[:, 0], np.stack([n, gained, lost, n**2], axis=-1)
