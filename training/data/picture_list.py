"""A list of a client's pictures as digests: what a run began with.

No pixel and no name is in it. Of each example it has the digest of its bytes and of its patient, and what the
job makes of it: split, subgroup, class, and a digest of its traits and facts.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from training.data.dataset import SPLITS, Dataset, Examples

PICTURE, PATIENT, SPLIT, SUBGROUP, LABEL, FACTS = range(6)  # the columns
COLUMNS = 6


@dataclass(frozen=True)
class PictureList:
    """A client's pictures.

    Attributes:
        rows: `(pictures, 6)` int64: digests of picture and patient, split, subgroup (-1 where undeclared),
            class (-1 where unlabelled), digest of facts.
    """

    rows: NDArray[np.int64]

    @classmethod
    def of(cls, dataset: Dataset, client: str) -> "PictureList":
        """The list of what a client holds now."""
        parts = [
            np.column_stack(
                [
                    examples.identities,
                    np.full(len(examples), place, dtype=np.int64),
                    examples.subgroups,
                    examples.labels,
                    facts_of(examples),
                ]
            )
            for place, split in enumerate(SPLITS)
            if len(examples := dataset.examples(client, split))
        ]
        return cls(np.concatenate([np.empty((0, COLUMNS), dtype=np.int64), *parts]))

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def digest(self) -> str:
        """Of the list, in whatever order."""
        rows = self.rows[np.lexsort(self.rows.T)]
        return "sha256:" + hashlib.sha256(rows.tobytes()).hexdigest()

    def sets(self) -> list[NDArray[np.int64]]:
        """Pictures and patients `(n, 2)` of each split and subgroup, with labels and without."""
        return self._parts(np.column_stack([self.rows[:, [SPLIT, SUBGROUP]], self.rows[:, LABEL] >= 0]))

    def classes(self) -> list[NDArray[np.int64]]:
        """Pictures and patients `(n, 2)` of each class that has any."""
        labelled = PictureList(self.rows[self.rows[:, LABEL] >= 0])
        return labelled._parts(labelled.rows[:, [LABEL]])

    def _parts(self, keys: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Pictures and patients of each value of keys `(pictures, columns)`."""
        _, places = np.unique(keys, axis=0, return_inverse=True)
        numbers = places.reshape(-1)
        return [
            self.rows[numbers == number][:, [PICTURE, PATIENT]]
            for number in range(numbers.max(initial=-1) + 1)
        ]


def facts_of(examples: Examples) -> NDArray[np.int64]:
    """A digest of what is known of each example beside its class and subgroup, `(n,)`."""
    cases = examples.cases
    found = np.empty(len(examples), dtype=np.int64)
    for place in range(len(examples)):
        parts = [] if examples.traits is None else [examples.traits[place]]
        parts += [] if cases is None else [cases.kinds[place], cases.context[place]]
        digest = hashlib.sha256(b"|".join(np.ascontiguousarray(part).tobytes() for part in parts)).digest()
        found[place] = int.from_bytes(digest[:8], "big", signed=True)
    return found
