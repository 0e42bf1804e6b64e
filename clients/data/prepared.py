"""The prepared data set that training reads: arrays, memory-mapped where they are large."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clients.data.errors import ClientDataError
from clients.data.pictures.cache import open_images
from clients.data.report import DataReport
from clients.data.table import PictureTable
from registry.bundle.cases import CaseInput
from registry.bundle.labels import Label
from registry.bundle.text import nearest
from training.data.dataset import SPLITS, Examples, Split
from training.data.unused import Unused


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
    def unused(self) -> Unused:
        """The pictures that are not used, and those in no subgroup."""
        return self.report.left_out

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "images"}
