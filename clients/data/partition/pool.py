"""The columns of a set of pictures that splits, clients and labels are drawn from."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clients.data.filtering import Picture
from clients.data.manifests.manifest import Row
from clients.data.partition.assign import name_of


@dataclass(frozen=True)
class Pool:
    """Pictures to be partitioned; every attribute has one entry per picture.

    Attributes:
        pictures: the pictures.
        component_ids: their components `(pictures,)`.
        codes: their classes, empty where they are unlabelled.
        groups: their subgroups, empty where they are undeclared.
    """

    pictures: Sequence[Picture]
    component_ids: NDArray[np.int64]
    codes: Sequence[str]
    groups: Sequence[str]

    def __len__(self) -> int:
        return len(self.pictures)

    @property
    def rows(self) -> list[Row]:
        """The manifest rows."""
        return [picture.row for picture in self.pictures]

    @property
    def names(self) -> list[str]:
        """The stable name of each picture (`name_of`)."""
        return [name_of(picture.row) for picture in self.pictures]

    @property
    def unseen(self) -> NDArray[np.bool_]:
        """Which pictures nobody trains on, `(pictures,)`."""
        return np.array([picture.unseen for picture in self.pictures], dtype=bool)

    @property
    def train_only(self) -> NDArray[np.bool_]:
        """Which pictures no model is evaluated on, `(pictures,)`."""
        return np.array([picture.train_only for picture in self.pictures], dtype=bool)

    def keep(self, keep: NDArray[np.bool_]) -> "Pool":
        """The pictures for which `keep` `(pictures,)` is true, in the same order."""
        kept = keep.nonzero()[0].tolist()
        return Pool(
            [self.pictures[place] for place in kept],
            self.component_ids[keep],
            [self.codes[place] for place in kept],
            [self.groups[place] for place in kept],
        )
