"""The base class of adapters: options as fields, and a method from a folder to a manifest."""

from abc import abstractmethod
from pathlib import Path
from typing import ClassVar, Literal

from clients.data.manifest import Manifest
from training.config import FrozenConfig

Repeats = Literal["refuse", "first", "drop"]
"""What becomes of a picture of which two lines of a table say different things."""


class Adapter(FrozenConfig):
    """A reader of one data set or layout. A subclass names itself, declares options, and makes a manifest.

    Attributes:
        name: what a job calls it.
        makes_pictures: whether it makes pictures of its own, so that a job need not name a folder.
    """

    name: str
    makes_pictures: ClassVar[bool] = False

    @abstractmethod
    def manifest(self, folder: Path) -> Manifest:
        """Make the manifest of the pictures in `folder`.

        Raises:
            AdapterError: the folder lacks a file, or a file is not as its publisher made it.
        """


class TableAdapter(Adapter):
    """A reader of a table with a line for each picture; lines that are equal count once.

    Attributes:
        repeats: of a picture of which two lines say different things: `refuse` the table, take the `first`
            line, or `drop` the picture (`--keep-first` and `--drop-contradictions`).
    """

    repeats: Repeats = "refuse"
