"""The data report of a run: pictures used, left out and broken."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from clients.data.table import PictureTable
from training.data.dataset import FOLDED_CLASSES, SPLITS, Split
from training.data.unused import Unused


@dataclass(frozen=True)
class BrokenPicture:
    """A picture that cannot be decoded: its location, and why."""

    image: str
    reason: str


@dataclass(frozen=True)
class Cell:
    """One cell of the census; an empty subgroup is "undeclared", an empty label "unlabelled".

    At an unseen client the label is one of `FOLDED_CLASSES`.
    """

    client: str
    split: Split
    subgroup: str
    label: str


@dataclass(frozen=True)
class DataReport:
    """What became of the pictures of a job.

    Attributes:
        pictures: how many are used.
        lesions: how many lesions they show.
        counts: pictures in each cell that has any; cases, where the job is about lesions.
        left_out: how many are not used, and how many are in no subgroup.
        broken: the pictures that could not be decoded.
    """

    pictures: int
    lesions: int
    counts: Mapping[Cell, int]
    left_out: Unused
    broken: tuple[BrokenPicture, ...]


def count_cells(
    table: PictureTable,
    clients: Sequence[str],
    subgroups: Sequence[str],
    codes: Sequence[str],
    unseen: Sequence[str] = (),
) -> Mapping[Cell, int]:
    """Pictures by client, split, subgroup and label; only cells that have any.

    Args:
        table: what is known of each picture.
        clients: the clients' ids.
        subgroups: the subgroups' names.
        codes: the classes' codes.
        unseen: the clients whose labels are folded.
    """
    known = [FOLDED_CLASSES if client in unseen else codes for client in clients]
    facts = np.stack([table.clients, table.splits, table.subgroups, table.labels], axis=1).tolist()
    return Counter(
        Cell(
            clients[client],
            SPLITS[split],
            subgroups[group] if group >= 0 else "",
            known[client][label] if label >= 0 else "",
        )
        for client, split, group, label in facts
    )
