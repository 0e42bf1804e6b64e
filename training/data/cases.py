"""Cases in arrays: which pictures each has, of which kinds, and what is known beside them."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from registry.bundle.cases import EMPTY


@dataclass(frozen=True)
class Cases:
    """The pictures and facts of n cases; see `registry.bundle.cases` for the numbers.

    Attributes:
        pictures: rows of the pictures, `(n, slots)` int64; -1 where a slot is empty. The first is never.
        kinds: of the pictures, `(n, slots)` int64; -1 where a slot is empty.
        context: the facts, `(n, facts)` float32; NaN where one is not known.
    """

    pictures: NDArray[np.int64]
    kinds: NDArray[np.int64]
    context: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.pictures)

    def where(self, keep: NDArray[np.bool_] | NDArray[np.int64]) -> "Cases":
        """The cases for which `keep` `(n,)` is true, or at these positions."""
        return Cases(self.pictures[keep], self.kinds[keep], self.context[keep])

    @property
    def present(self) -> NDArray[np.bool_]:
        """Which slots hold a picture, `(n, slots)`."""
        present: NDArray[np.bool_] = self.kinds != EMPTY
        return present


def joined_cases(many: Iterable[Cases]) -> Cases:
    """The cases of several parts, one after the other."""
    parts = list(many)
    return Cases(
        np.concatenate([part.pictures for part in parts]),
        np.concatenate([part.kinds for part in parts]),
        np.concatenate([part.context for part in parts]),
    )
