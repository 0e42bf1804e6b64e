"""Numbers of pictures as a client told them before patients withdrew: those, and no others, are told on.

The difference of two numbers is what the patient had. So in a run from which pictures were taken the census
stays that of before, and so do the numbers of training pictures behind an update, from which its weight in
the mean follows. A mean loss of a subgroup is told no more while from the training pictures that the last one
was of fewer patients than the job's minimum are gone: with the number of pictures, the two would tell what
the model answers for the patient. So it is where several withdraw one after another, and where only one of
those who are gone had labels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from registry.bundle.manifest.schema import UNDECLARED
from training.data.dataset import SPLITS
from training.data.picture_list import LABEL, PATIENT, PICTURE, SPLIT, SUBGROUP, PictureList
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
        losses_of: the pictures that the losses told last were of; by default all that numbers were told of.
    """

    told: PictureList
    now: PictureList
    subgroups: tuple[str, ...]
    classes: int
    losses_of: PictureList | None = None

    @property
    def census(self) -> NDArray[np.int64]:
        """The counts `(splits, subgroups + 1, classes + 1)` that were told."""
        return self.told.counts(len(self.subgroups), self.classes)

    def trained(self, counted: Mapping[str, int], *, all_pictures: bool = False) -> dict[str, int]:
        """The numbers of training pictures that were told, for those of the same kind that are there now.

        Args:
            counted: of the pictures that an objective trains on, by subgroup: labelled ones, or all.
            all_pictures: which of the two it is where they are as many now, and were not before.

        Raises:
            DataError: they are neither, and nobody knows what they were before.
        """
        labelled, every = slice(None, -1), slice(None)
        for kind in (every, labelled) if all_pictures else (labelled, every):
            now, told = (self._by_subgroup(of, kind) for of in (self.now, self.told))
            if all(now.get(name) == n for name, n in counted.items()):
                # A model of all subgroups: one that has lost its last picture is told of as before, too.
                whole = counted.keys() == {name for name, n in now.items() if n}
                lost = [name for name, n in told.items() if n and not now[name]] if whole else []
                return {name: told[name] for name in (*counted, *lost)}
        raise DataError(
            "patients withdrew from this run, and the objective counts neither all training pictures nor the "
            "labelled ones: what it counted before is not known, and other numbers are not told. Leave the "
            "run (the coordinator goes on with --without)"
        )

    def hidden_losses(self, least: int) -> frozenset[str]:
        """The subgroups of whose training pictures a loss would tell of fewer than `least` patients.

        A loss is of labelled pictures, of others, or of all; of each kind nobody may be gone, or as many.
        """
        before = (self.told if self.losses_of is None else self.losses_of).rows
        gone = before[~np.isin(before[:, PICTURE], self.now.rows[:, PICTURE])]
        gone = gone[gone[:, SPLIT] == TRAIN]
        few = set()
        for group in np.unique(gone[:, SUBGROUP]).tolist():
            theirs = gone[gone[:, SUBGROUP] == group]
            labelled = theirs[:, LABEL] >= 0
            kinds = [
                len(np.unique(part[:, PATIENT])) for part in (theirs, theirs[labelled], theirs[~labelled])
            ]
            if any(0 < patients < least for patients in kinds):
                few.add(group)
        return frozenset(self._names[group] for group in few)

    def losses_told(self, least: int) -> PictureList:
        """The pictures that losses are of from now on: of each subgroup those now there, or of before."""
        hidden = [place for place, name in enumerate(self._names) if name in self.hidden_losses(least)]
        before = (self.told if self.losses_of is None else self.losses_of).rows
        kept, new = (
            np.isin(rows[:, SUBGROUP] % len(self._names), hidden) for rows in (before, self.now.rows)
        )
        return PictureList(np.concatenate([before[kept], self.now.rows[~new]]))

    @property
    def _names(self) -> Sequence[str]:
        return (*self.subgroups, UNDECLARED)  # undeclared is -1, the last

    def _by_subgroup(self, of: PictureList, kind: slice) -> dict[str, int]:
        counts = of.counts(len(self.subgroups), self.classes)[TRAIN][:, kind].sum(axis=1)
        return {name: int(n) for name, n in zip(self._names, counts, strict=True)}
