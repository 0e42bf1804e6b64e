"""Pictures as the draws of splits, holders and labels see them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clients.data.dealing import name_of
from clients.data.filtering import Picture
from clients.data.manifest import Row


@dataclass(frozen=True)
class Lot:
    """Some pictures; every attribute has one entry per picture.

    Attributes:
        pictures: the pictures.
        numbers: their components `(pictures,)`.
        codes: their classes, empty where they are unlabelled.
        groups: their subgroups, empty where they are undeclared.
    """

    pictures: Sequence[Picture]
    numbers: NDArray[np.int64]
    codes: Sequence[str]
    groups: Sequence[str]

    def __len__(self) -> int:
        return len(self.pictures)

    @property
    def rows(self) -> list[Row]:
        """What the manifests say of them."""
        return [picture.row for picture in self.pictures]

    @property
    def names(self) -> list[str]:
        """What identifies each in any copy of its manifest."""
        return [name_of(picture.row) for picture in self.pictures]

    @property
    def unseen(self) -> NDArray[np.bool_]:
        """Those that nobody trains on `(pictures,)`."""
        return np.array([picture.unseen for picture in self.pictures], dtype=bool)

    @property
    def train_only(self) -> NDArray[np.bool_]:
        """Those that nobody is judged by `(pictures,)`."""
        return np.array([picture.train_only for picture in self.pictures], dtype=bool)

    def keep(self, keep: NDArray[np.bool_]) -> "Lot":
        """Those for which `keep` `(pictures,)` is true, in the same order."""
        kept = keep.nonzero()[0].tolist()
        return Lot(
            [self.pictures[place] for place in kept],
            self.numbers[keep],
            [self.codes[place] for place in kept],
            [self.groups[place] for place in kept],
        )
