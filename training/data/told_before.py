"""Numbers of pictures as a client told them before patients withdrew: those, and no others, are told on.

The difference of two numbers is what the patient had. So in a run from which pictures were taken the census
stays that of before, and so do the numbers of training pictures behind an update, from which its weight in
the mean follows. A mean loss of a subgroup from whose training pictures fewer patients than the job's minimum
are gone is told no more: with the number of pictures, two of them would tell what the model answers for the
patient.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from registry.bundle.manifest.schema import UNDECLARED
from training.data.dataset import SPLITS
from training.data.picture_list import PATIENT, PICTURE, SPLIT, SUBGROUP, PictureList
from training.errors import DataError

TRAIN = SPLITS.index("train")


@dataclass(frozen=True)
class ToldBefore:
    """What a client told of, and what of it is left.

    Attributes:
        told: the pictures of which numbers were told.
        now: those that are there.
        subgroups: the job's.
        classes: how many the job has.
    """

    told: PictureList
    now: PictureList
    subgroups: tuple[str, ...]
    classes: int

    @property
    def census(self) -> NDArray[np.int64]:
        """The counts `(splits, subgroups + 1, classes + 1)` that were told."""
        return self.told.counts(len(self.subgroups), self.classes)

    def trained(self, counted: Mapping[str, int]) -> dict[str, int]:
        """The numbers of training pictures that were told, for those of the same kind that are there now.

        Args:
            counted: of the pictures that an objective trains on, by subgroup: labelled ones, or all.

        Raises:
            DataError: they are neither, and nobody knows what they were before.
        """
        for kind in (slice(None, -1), slice(None)):
            now, told = (self._by_subgroup(of, kind) for of in (self.now, self.told))
            if all(now.get(name) == n for name, n in counted.items()):
                return {name: told[name] for name in counted}
        raise DataError(
            "patients withdrew from this run, and the objective counts neither all training pictures nor the "
            "labelled ones: what it counted before is not known, and other numbers are not told. Leave the "
            "run (the coordinator goes on with --without)"
        )

    def hidden_losses(self, least: int) -> frozenset[str]:
        """The subgroups from whose training pictures fewer than `least` patients are gone, but some."""
        gone = self.told.rows[~np.isin(self.told.rows[:, PICTURE], self.now.rows[:, PICTURE])]
        gone = gone[gone[:, SPLIT] == TRAIN]
        few = {
            int(group)
            for group in np.unique(gone[:, SUBGROUP])
            if len(np.unique(gone[gone[:, SUBGROUP] == group, PATIENT])) < least
        }
        return frozenset(self._names[group] for group in few)

    @property
    def _names(self) -> Sequence[str]:
        return (*self.subgroups, UNDECLARED)  # undeclared is -1, the last

    def _by_subgroup(self, of: PictureList, kind: slice) -> dict[str, int]:
        counts = of.counts(len(self.subgroups), self.classes)[TRAIN][:, kind].sum(axis=1)
        return {name: int(n) for name, n in zip(self._names, counts, strict=True)}
