"""Sums by lesion, from which the variance of a share follows where a lesion has several pictures.

Of the pictures that a share is of, n_g at lesion g and x_g of them so (answered rightly, say): Σ n, Σ x,
Σ x², Σ x n and Σ n² over lesions, and how many lesions have several pictures. With r = Σ x / Σ n the share,
Σ_g (x_g − r n_g)² = Σ x² − 2 r Σ x n + r² Σ n² is what the cluster-robust variance of r is made of (Cochran
1977, section 3.12). Where every lesion has one picture, they tell nothing that Σ n and Σ x do not.
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
