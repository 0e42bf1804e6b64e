"""The prepared data set that training reads: arrays, memory-mapped where they are large.

Its table has labels, subgroups, splits and clients; its report the pictures used, left out and broken.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clients.data.errors import ClientDataError
from clients.data.picture_files import open_images
from registry.bundle.cases import CaseInput
from registry.bundle.labels import Label
from registry.bundle.text import nearest
from training.data.dataset import FOLDED_CLASSES, SPLITS, Cases, Examples, Split
from training.data.unused import Unused


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
        kept: dict[str, Any] = {
            name: column.where(keep) if isinstance(column, Cases) else column[keep]
            for name, column in vars(self).items()
            if column is not None
        }
        return PictureTable(**kept)


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


@dataclass(frozen=True)
class PreparedDataset:
    """All clients' data of one job; implements `training.data.dataset.Dataset`.

    Pickled, it is paths and small arrays: each process maps the images into memory when it first asks.

    Attributes:
        labels: the classes, in the order of the model's outputs.
        subgroups: the subgroups' names.
        clients: the clients' ids.
        fingerprint: SHA-256 of the pictures' contents, labels, subgroups, splits and holders.
        images_path: the array of decoded pictures.
        table: what is known of each picture.
        report: what became of the pictures.
        unseen: the clients that train nothing; their labels are indices into
            `training.data.dataset.FOLDED_CLASSES`.
        communities: the clients of each source, by its name, where clients are by source.
        traits: the columns of the table's `traits`, and what their indices stand for.
        case: what a case has; None where examples are pictures.
        tells_unused: whether pictures that are not used are reported.
    """

    labels: tuple[Label, ...]
    subgroups: tuple[str, ...]
    clients: tuple[str, ...]
    fingerprint: str
    images_path: Path
    table: PictureTable
    report: DataReport
    unseen: tuple[str, ...] = ()
    communities: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    traits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    case: CaseInput | None = None
    tells_unused: bool = True

    @cached_property
    def images(self) -> NDArray[np.uint8]:
        """The decoded pictures, `(all, size, size, 3)`, mapped into memory."""
        return open_images(self.images_path)

    def examples(self, client: str, split: Split) -> Examples:
        """The pictures of one split of one client; the labels of an unseen one are folded.

        Raises:
            ClientDataError: no such client or split.
        """
        if client not in self.clients:
            raise ClientDataError(f"there is no client {client!r}; {nearest(client, list(self.clients))}")
        if split not in SPLITS:
            raise ClientDataError(f"there is no split {split!r}; {nearest(split, list(SPLITS))}")
        table = self.table
        keep = (table.clients == self.clients.index(client)) & (table.splits == SPLITS.index(split))
        part = table.where(keep)
        return Examples(
            self.images,
            part.rows,
            part.labels,
            part.subgroups,
            part.lesions,
            part.traits,
            part.names,
            part.cases,
        )

    @property
    def unused(self) -> Unused | None:
        """The pictures that are not used, and those in no subgroup, where they are reported."""
        return self.report.left_out if self.tells_unused else None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "images"}
