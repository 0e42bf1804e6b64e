"""Spool: updates wait on disk where memory should not grow with the cohort."""

import itertools
import shutil
from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from dataclasses import replace
from pathlib import Path

import torch
from safetensors import SafetensorError

from training.errors import CheckpointError
from training.messages.message import Tensors, Update, tensor_bytes
from training.messages.tensor_file import map_tensors, names_in, save_tensors

SUFFIX = ".safetensors"


class SpooledTensors(Mapping[str, torch.Tensor]):
    """Named tensors in a safetensors file, read when asked for and not kept in memory.

    One by one, each tensor opens the file; `items` and `values` open it once.

    Args:
        path: the file.

    Raises:
        SafetensorError: it is none, or damaged.
        OSError: it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._names = names_in(path)

    def __getitem__(self, name: str) -> torch.Tensor:
        if name not in self._names:
            raise KeyError(name)
        return map_tensors(self._path)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def items(self) -> ItemsView[str, torch.Tensor]:
        """All names and tensors."""
        return map_tensors(self._path).items()

    def values(self) -> ValuesView[torch.Tensor]:
        """All tensors."""
        return map_tensors(self._path).values()


class Spool:
    """A folder of updates that wait to be summed.

    Args:
        folder: emptied at the start; what was in it belongs to a round that will be done again.
    """

    def __init__(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self._folder = folder
        self._numbers = itertools.count(1)  # several threads may write

    def write(self, tensors: Tensors) -> Path:
        """Put tensors on disk; returns the file.

        Raises:
            CheckpointError: when the disk does not take them.
        """
        path = self._folder / f"{next(self._numbers):08d}{SUFFIX}"
        try:
            save_tensors(tensors, path)
        except (OSError, SafetensorError) as error:
            raise CheckpointError(
                f"cannot spool {tensor_bytes(tensors):,} bytes to {self._folder}: {error}; "
                "free some disk space and continue with --resume"
            ) from error
        return path

    def spooled(self, update: Update) -> Update:
        """The same update with its tensors on disk."""
        return replace(update, tensors=SpooledTensors(self.write(update.tensors)))

    def clear(self) -> None:
        """Forget all that waited here, the workers' updates included."""
        for path in self._folder.rglob(f"*{SUFFIX}"):
            path.unlink()

    def remove(self) -> None:
        """Remove the folder; nothing waits any more."""
        shutil.rmtree(self._folder, ignore_errors=True)
