"""Tensors and JSON in one safetensors file that is there whole or not at all, and belongs to one job."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
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
    own = unshared(tensors)
    write_whole(path, lambda temporary: save_file(own, temporary, metadata={ENTRY: text}))


def unshared(tensors: Tensors) -> dict[str, Tensor]:
    """The tensors with memory of their own: two models may still share what neither has changed."""
    seen: set[int] = set()
    own = {}
    for name, tensor in tensors.items():
        contiguous = tensor.contiguous()
        own[name] = contiguous.clone() if contiguous.data_ptr() in seen else contiguous
        seen.add(contiguous.data_ptr())
    return own


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
