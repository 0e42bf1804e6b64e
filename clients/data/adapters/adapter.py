"""What an adapter is: settings, and a way from a folder to a manifest."""

from abc import abstractmethod
from pathlib import Path
from typing import ClassVar

from clients.data.manifest import Manifest
from training.config import FrozenConfig


class Adapter(FrozenConfig):
    """A source of pictures. A subclass names itself, declares its options as fields, and makes a manifest.

    Attributes:
        name: what a job calls it.
        makes_pictures: whether it makes pictures of its own, so that a job need not name a folder.
    """

    name: str
    makes_pictures: ClassVar[bool] = False

    @abstractmethod
    def manifest(self, folder: Path) -> Manifest:
        """The pictures of `folder`.

        Raises:
            AdapterError: the folder lacks a file, or a file is not as its publisher made it.
        """
