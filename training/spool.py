"""Tensors on disk: where updates wait when memory should not grow with the cohort."""

import shutil
import sys
from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from dataclasses import replace
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load

from training.errors import CheckpointError
from training.messages import Tensors, Update, tensor_bytes
from training.tensor_file import save_tensors


class SpooledTensors(Mapping[str, torch.Tensor]):
    """Named tensors in a safetensors file, read when asked for and not kept in memory.

    One by one, each tensor opens the file; `items` and `values` open it once.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with safe_open(path, framework="pt") as file:
            self._names = tuple(map(sys.intern, file.keys()))  # one copy of each name for all updates

    def __getitem__(self, name: str) -> torch.Tensor:
        if name not in self._names:
            raise KeyError(name)
        with safe_open(self._path, framework="pt") as file:
            tensor: torch.Tensor = file.get_tensor(name)
            return tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def items(self) -> ItemsView[str, torch.Tensor]:
        """All names and tensors."""
        return self._read().items()

    def values(self) -> ValuesView[torch.Tensor]:
        """All tensors."""
        return self._read().values()

    def _read(self) -> dict[str, torch.Tensor]:
        return read(self._path)


def read(path: Path) -> dict[str, torch.Tensor]:
    """All tensors of a spool's file, in memory."""
    # From bytes: safetensors 0.8 loses 60 bytes for every tensor that it maps from a file.
    tensors: dict[str, torch.Tensor] = load(path.read_bytes())
    return tensors


class Spool:
    """A folder of updates that wait to be summed.

    Args:
        folder: emptied at the start; what was in it belongs to a round that will be done again.
    """

    def __init__(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self._folder = folder
        self._count = 0

    def write(self, tensors: Tensors) -> Path:
        """Put tensors on disk; returns the file.

        Raises:
            CheckpointError: when the disk does not take them.
        """
        self._count += 1
        path = self._folder / f"{self._count:08d}.safetensors"
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
        for path in self._folder.rglob("*.safetensors"):
            path.unlink()

    def remove(self) -> None:
        """Remove the folder; nothing waits any more."""
        shutil.rmtree(self._folder, ignore_errors=True)
