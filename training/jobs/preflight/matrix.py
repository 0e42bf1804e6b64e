"""Pictures by client, split, subgroup and class: which cells are thin, and of which nothing will be told."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from training.data.cells import count_people
from training.data.dataset import SPLITS, Dataset
from training.rounds.census import Census

THIN: Final = 10
"""A cell of fewer labelled pictures is marked: were nine of nine found, 0.66 could not be excluded (95 %)."""


@dataclass(frozen=True)
class MatrixRow:
    """One client's pictures of one subgroup in one split.

    Attributes:
        client: None for all hospitals together.
        split: of the pictures.
        subgroup: of the pictures.
        pictures: how many of each class, `unlabelled` last where there are any.
        patients: of how many patients the labelled ones are; None for all hospitals together, who may share
            some.
        told: whether counts of answers about them may leave the client; None where nobody asks.
    """

    client: str | None
    split: str
    subgroup: str
    pictures: Mapping[str, int]
    patients: int | None
    told: bool | None

    @property
    def thin(self) -> tuple[str, ...]:
        """The classes of which there are few pictures, or none."""
        return tuple(name for name, n in self.pictures.items() if name != UNLABELLED and n < THIN)

    def record(self) -> dict[str, Any]:
        """The row as JSON has it."""
        return {**asdict(self), "thin": list(self.thin)}


UNLABELLED: Final = "unlabelled"


def matrix(census: Census, patients: Mapping[str, NDArray[np.int64]], min_count: int) -> list[MatrixRow]:
    """The rows of all hospitals together, then of each client.

    Args:
        census: who holds what.
        patients: of how many patients that is, see `rehearsal.patients_of`.
        min_count: nothing is told of fewer.
    """
    names = (*census.classes, UNLABELLED)
    nobody = np.zeros((len(SPLITS), len(census.all_subgroups), len(names)), dtype=np.int64)
    everybody = sum((census.counts[name] for name in census.all_hospitals), nobody)
    rows = list(_rows(census, None, everybody, names, None, min_count))
    for client, counts in census.counts.items():
        classes = (*census.codes(client)[:-1], UNLABELLED)
        rows += _rows(census, client, counts, classes, patients[client], min_count)
    return rows


def _rows(
    census: Census,
    client: str | None,
    counts: NDArray[np.int64],
    classes: Sequence[str],
    patients: NDArray[np.int64] | None,
    min_count: int,
) -> list[MatrixRow]:
    rows = []
    for place, split in enumerate(SPLITS):
        for group, subgroup in enumerate(census.all_subgroups):
            held = counts[place, group]
            wanted = client is None and subgroup in census.subgroups
            if not held.sum() and not wanted:
                continue
            pictures = {name: int(n) for name, n in zip(classes, held, strict=True)}
            if not pictures[UNLABELLED]:
                del pictures[UNLABELLED]
            people = None if patients is None else int(patients[place, group])
            judged = split != "train" and people is not None
            told = (people or 0) >= max(min_count, 1) if judged else None
            rows.append(MatrixRow(client, split, subgroup, pictures, people, told))
    return rows


def patients_of(dataset: Dataset) -> dict[str, NDArray[np.int64]]:
    """Of how many patients each client's labelled pictures are, `(splits, subgroups + 1)`."""
    places = len(dataset.subgroups) + 1
    found = {}
    for client in dataset.clients:
        counts = []
        for split in SPLITS:
            examples = dataset.examples(client, split)
            labelled = examples.where(examples.labels >= 0)
            counts.append(count_people(labelled.subgroups % places, labelled.people, places))
        found[client] = np.stack(counts)
    return found


def as_told(census: Census, patients: Mapping[str, NDArray[np.int64]], min_count: int) -> Census:
    """The census that knows of which labelled pictures, to judge a model by, a hospital will tell nothing.

    These are of fewer patients of a subgroup than `min_count`. Of training pictures all count.
    """
    judging = np.array([split != "train" for split in SPLITS])
    counts = {}
    for client, held in census.counts.items():
        few = judging[:, None] & (patients[client] < max(min_count, 1))
        counts[client] = held.copy()
        counts[client][few, :-1] = 0
    return replace(census, told=counts)
