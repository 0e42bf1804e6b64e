"""Tensors and JSON in one safetensors file that is there whole or not at all, and belongs to one job."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, TensorSpec, safe_open, serialize, serialize_file
from safetensors.torch import load_file
from torch import Tensor

from training.errors import CheckpointError
from training.files import write_whole
from training.messages import Tensors

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
        CheckpointError: when it is damaged, of a newer format, or of another job.
    """
    try:
        with safe_open(path, framework="pt") as file:
            header: dict[str, Any] = json.loads((file.metadata() or {})[ENTRY])
        tensors = load_file(path)
    except (OSError, SafetensorError, KeyError, json.JSONDecodeError) as error:
        raise CheckpointError(f"{path} cannot be read ({error}); {advice}") from error
    if header["format"] > FORMAT:
        raise CheckpointError(
            f"{path} has format {header['format']}; this version reads up to {FORMAT}: upgrade dermfed"
        )
    if header["job"] != job:
        raise CheckpointError(
            f"{path} belongs to job {header['job']}, not to {job}; "
            "use another --out, or the job file of that run"
        )
    return header, tensors
