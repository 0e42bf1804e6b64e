"""A list of a client's pictures as digests: what a run began with, and what of it is left.

No pixel and no name is in it. Of each example it has the digest of its bytes and of its patient, and what the
job makes of it: split, subgroup, class, and a digest of its traits and facts.
"""

import hashlib
import io
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from training.data.dataset import SPLITS, Dataset, Examples

PICTURE, PATIENT, SPLIT, SUBGROUP, LABEL, FACTS = range(6)  # the columns
COLUMNS = 6
OTHER = {  # what a picture that was there before may not have changed, in the order in which it is told
    PATIENT: "is of another patient",
    SPLIT: "is in another split",
    SUBGROUP: "is in another subgroup",
    LABEL: "has another label",
    FACTS: "has other facts or traits",
}


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

    @classmethod
    def of_bytes(cls, content: bytes) -> "PictureList":
        """The list that `to_bytes` wrote.

        Raises:
            ValueError: it is none.
        """
        rows: NDArray[np.int64] = np.load(io.BytesIO(content), allow_pickle=False)
        if rows.ndim != 2 or rows.shape[1] != COLUMNS or rows.dtype != np.int64:
            raise ValueError(f"an array {rows.shape} of {rows.dtype} is no list of pictures")
        return cls(rows)

    def to_bytes(self) -> bytes:
        """The list as a file of NumPy's."""
        content = io.BytesIO()
        np.save(content, self.rows, allow_pickle=False)
        return content.getvalue()

    def beyond(self, earlier: "PictureList") -> Iterator[str]:
        """A line for each picture that was not there before, or not so; none where only some are gone."""
        left = Counter(map(tuple, earlier.rows.tolist()))
        known = {row[PICTURE]: row for row in earlier.rows.tolist()}
        for row in self.rows.tolist():
            if left[tuple(row)]:
                left[tuple(row)] -= 1
                continue
            before = known.get(row[PICTURE])
            changed = [
                what for column, what in OTHER.items() if before is not None and before[column] != row[column]
            ]
            name = f"the picture sha256:{row[PICTURE] & (2**64 - 1):016x}…"
            yield f"{name} {' and '.join(changed) if changed else 'was not there'}"

    def counts(self, subgroups: int, classes: int) -> NDArray[np.int64]:
        """Pictures by split, subgroup and class, as the census has them.

        Args:
            subgroups: of the job; undeclared pictures follow them.
            classes: of the job; unlabelled pictures follow them.
        """
        shape = len(SPLITS), subgroups + 1, classes + 1
        found = np.zeros(shape, dtype=np.int64)
        places = self.rows[:, SPLIT], self.rows[:, SUBGROUP] % shape[1], self.rows[:, LABEL] % shape[2]
        np.add.at(found, places, 1)
        return found

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
