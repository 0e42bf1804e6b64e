"""Tensors and JSON in a safetensors file that is there whole or not at all, and a folder of updates."""

import itertools
import json
import shutil
import sys
from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, TensorSpec, safe_open, serialize, serialize_file
from safetensors.torch import load_file
from torch import Tensor

from training.errors import CheckpointError
from training.files import write_whole
from training.messages import Tensors, Update, tensor_bytes

FORMAT = 1
ENTRY = "dermfed"  # the entry of the file's own header that holds ours


def write_tensors(path: Path, job: str, header: Mapping[str, Any], tensors: Tensors) -> None:
    """Write tensors and what is said of them.

    Raises:
        CheckpointError: when the disk does not take it; what was there before is untouched.
    """
    text = json.dumps({**header, "format": FORMAT, "job": job})
    write_whole(path, lambda temporary: save_tensors(tensors, temporary, {ENTRY: text}))


def save_tensors(tensors: Tensors, path: Path, metadata: Mapping[str, str] | None = None) -> None:
    """Write what `safetensors.torch.save_file` would, several times faster for a model of many small tensors.

    That function refuses tensors that share memory, and its search for them takes longer than the writing.
    Here each is written whole, so that two models may share what neither has changed.
    """
    rows = row_by_row(tensors)
    serialize_file(specs(rows), path, metadata=dict(metadata) if metadata else None)


def pack_tensors(tensors: Tensors) -> bytes:
    """The bytes of the file that `save_tensors` would write."""
    rows = row_by_row(tensors)
    content: bytes = serialize(specs(rows), metadata=None)
    return content


def row_by_row(tensors: Tensors) -> dict[str, Tensor]:
    """The tensors on the CPU, the last axis innermost: as a file has them."""
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def specs(rows: Tensors) -> dict[str, TensorSpec]:
    """Where the tensors are in memory; of use only while they are alive."""
    return {
        name: TensorSpec(
            dtype=str(tensor.dtype).removeprefix("torch."),
            shape=tensor.shape,
            data_ptr=tensor.data_ptr(),
            data_len=tensor.nbytes,
        )
        for name, tensor in rows.items()
    }


def read_tensors(
    path: Path, job: str, advice: str = "remove it to go on from what was there before it"
) -> tuple[dict[str, Any], Tensors]:
    """What `write_tensors` wrote for the same job.

    Args:
        path: the file.
        job: the job's digest.
        advice: what to do where it is damaged.

    Raises:
        CheckpointError: when it is damaged, of another format, or of another job.
    """
    try:
        with safe_open(path, framework="pt") as file:
            header: dict[str, Any] = json.loads((file.metadata() or {})[ENTRY])
        tensors = load_file(path)
    except (OSError, SafetensorError, KeyError, json.JSONDecodeError) as error:
        raise CheckpointError(f"{path} cannot be read ({error}); {advice}") from error
    if header["format"] != FORMAT:
        raise CheckpointError(
            f"{path} has format {header['format']}; this version reads {FORMAT} alone: use another --out"
        )
    if header["job"] != job:
        raise CheckpointError(
            f"{path} belongs to job {header['job']}, not to {job}; "
            "use another --out, or the job file of that run"
        )
    return header, tensors


TYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U64": torch.uint64,
    "U32": torch.uint32,
    "U16": torch.uint16,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}

LENGTH = 8  # bytes at the start that say how long the header is


def names_in(path: Path) -> tuple[str, ...]:
    """Names of the tensors.

    Raises:
        SafetensorError: the file is none, or damaged.
        OSError: it cannot be read.
    """
    with safe_open(path, framework="pt") as file:
        return tuple(map(sys.intern, file.keys()))  # one copy of each name for all files


def map_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a file that must not change; writing to one changes a private copy of its page.

    They stay when the file is removed, until the last of them is gone.

    Raises:
        SafetensorError: the file is none, is damaged, or has a type that we do not read.
        OSError: it cannot be read.
    """
    names = names_in(path)  # which also checks that every tensor lies in the file, and no two in one place
    with path.open("rb") as file:
        length = int.from_bytes(file.read(LENGTH), "little")
        header = json.loads(file.read(length))
    if not names:
        return {}
    # Not by `safe_open`: safetensors 0.8 loses 60 bytes for every tensor that it maps from a file.
    whole = torch.from_file(str(path), shared=False, size=path.stat().st_size, dtype=torch.uint8)
    return {name: _view(whole[LENGTH + length :], header[name]) for name in names}


def _view(data: Tensor, entry: dict[str, Any]) -> Tensor:
    kind, (start, end) = entry["dtype"], entry["data_offsets"]
    if kind not in TYPES:
        raise SafetensorError(f"a tensor of type {kind}; read are {', '.join(TYPES)}")
    dtype = TYPES[kind]
    place = data[start:end]
    if place.storage_offset() % dtype.itemsize:
        place = place.clone()  # others' files need not be aligned
    return place.view(dtype).view(entry["shape"])


SUFFIX = ".safetensors"
MEMORY_FOR_UPDATES = 1 << 30  # bytes of waiting updates that stay in memory; the rest waits on disk


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
        memory: bytes of updates that may wait in memory.
    """

    def __init__(self, folder: Path, memory: int = MEMORY_FOR_UPDATES) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self._folder = folder
        self._memory = memory
        self._waiting = 0  # bytes
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

    def stored(self, update: Update) -> Update:
        """The update as it is, or with its tensors on disk where there is no more room in memory."""
        tensors = update.tensors
        if isinstance(tensors, SpooledTensors) or self._has_room(tensor_bytes(tensors)):
            return update
        return replace(update, tensors=SpooledTensors(self.write(tensors)))

    def read(self, path: Path) -> Tensors:
        """The tensors of an update that another process wrote, in memory or on disk as those of `stored`."""
        return map_tensors(path) if self._has_room(path.stat().st_size) else SpooledTensors(path)

    def _has_room(self, size: int) -> bool:
        self._waiting += size
        return self._waiting <= self._memory

    def clear(self) -> None:
        """Forget all that waited, here and in memory, the workers' updates included."""
        self._waiting = 0
        for path in self._folder.rglob(f"*{SUFFIX}"):
            path.unlink()

    def remove(self) -> None:
        """Remove the folder; nothing waits any more."""
        shutil.rmtree(self._folder, ignore_errors=True)
