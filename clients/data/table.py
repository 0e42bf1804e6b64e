"""The picture table of a job: labels, subgroups, splits and clients as arrays."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from training.data.dataset import Cases


@dataclass(frozen=True)
class PictureTable:
    """One entry per picture, or per case; all arrays but `traits` and `names` are `(entries,)` int64.

    Attributes:
        rows: its place in the array of images.
        labels: class index, -1 where there is none.
        subgroups: subgroup index, -1 where it is undeclared.
        lesions: lesion number; equal numbers are pictures of one lesion.
        clients: index of the client that holds it.
        splits: index into `training.data.dataset.SPLITS`.
        names: digests of the picture's bytes and of whose it is, `(pictures, 2)` int64.
        traits: index of what the row says in each column that was asked for, `(pictures, columns)` int64.
        cases: the pictures and facts of each case; None where an entry is a picture.
    """

    rows: NDArray[np.int64]
    labels: NDArray[np.int64]
    subgroups: NDArray[np.int64]
    lesions: NDArray[np.int64]
    clients: NDArray[np.int64]
    splits: NDArray[np.int64]
    traits: NDArray[np.int64] | None = None
    names: NDArray[np.int64] | None = None
    cases: Cases | None = None

    def where(self, keep: NDArray[np.bool_]) -> "PictureTable":
        """The entries that `keep` marks, `(entries,)`."""
        return PictureTable(
            self.rows[keep],
            self.labels[keep],
            self.subgroups[keep],
            self.lesions[keep],
            self.clients[keep],
            self.splits[keep],
            None if self.traits is None else self.traits[keep],
            None if self.names is None else self.names[keep],
            None if self.cases is None else self.cases.where(keep),
        )
