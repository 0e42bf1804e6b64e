"""Tensors of a safetensors file as views of its pages: opened at once, read when used, never copied."""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

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
    """All tensors of a file that nobody changes; whoever writes to one changes a copy of its page.

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
