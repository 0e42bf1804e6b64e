"""Tensors of a file that others made, read without running anything of it.

Files are safetensors, or what `torch.save` wrote, read with `weights_only=True`: a file that holds more than
tensors, numbers and text is refused. What is told of a file, it is told by its content, never by its name.
"""

import json
import pickle
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from training.errors import JobError
from training.messages.message import Tensors, named
from training.messages.tensor_file import ENTRY
from training.models.encoders.preprocessing import AS_EVER, Preprocessing

GLOBAL_IN_OUTCOME = "model-0/"  # before the names of the global model's weights in what a stage leaves
WRAPPERS = ("state_dict", "model", "teacher", "model_ema", "module")  # in which others put their tensors
PREPROCESSING = "preprocessing"  # in the header of what a stage leaves
DAMAGED = (OSError, RuntimeError, EOFError, ValueError, KeyError, AttributeError, pickle.UnpicklingError)

TO_BE_RUN = ("GLOBAL", "allowlisted")  # in torch's error for what is not a tensor


@dataclass(frozen=True)
class FileContent:
    """What a file of weights holds.

    Attributes:
        tensors: by the names in the file, without what others wrap around them.
        notes: what was passed over on the way to the tensors.
        antialias: whether positions of another size are resampled with antialiasing.
    """

    tensors: Tensors
    notes: tuple[str, ...] = ()
    antialias: bool = True


def read_file(path: Path) -> FileContent:
    """All tensors of a file.

    Raises:
        JobError: it is not there, damaged, or would have to be run.
    """
    if not path.is_file():
        raise JobError(f"model.weights: {path} does not exist; give a file, `package:NAME` or `none`")
    return _read_safetensors(path) if is_safetensors(path) else _read_torch(path)


def is_safetensors(path: Path) -> bool:
    """Whether a file begins as safetensors do: eight bytes of a length, then JSON."""
    with path.open("rb") as file:
        return file.read(9)[8:] == b"{"


def preprocessing_in(path: Path) -> Preprocessing | None:
    """What a file that a stage left says of how its model is shown pictures; None where none says it."""
    try:
        if not is_safetensors(path):
            return None
        with safe_open(path, framework="pt") as file:
            said = json.loads((file.metadata() or {}).get(ENTRY, "{}"))
    except (OSError, SafetensorError, json.JSONDecodeError):
        return None  # whoever reads its tensors says what is wrong
    before = said.get(PREPROCESSING) if isinstance(said, Mapping) else None
    return Preprocessing.model_validate(before) if before else None


def said_of(shown: Preprocessing) -> dict[str, Any]:
    """What a stage writes of how its models are shown pictures; nothing where it is as ever."""
    return {} if shown == AS_EVER else {PREPROCESSING: shown.model_dump(mode="json")}


def _read_safetensors(path: Path) -> FileContent:
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise JobError(f"model.weights: {path} cannot be read: {error}; fetch it again") from error
    return FileContent(named(tensors, GLOBAL_IN_OUTCOME) or tensors)


def _read_torch(path: Path) -> FileContent:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of pickles that torch did not write
            content = torch.load(path, map_location="cpu", weights_only=True)
    except DAMAGED as error:
        if any(word in str(error) for word in TO_BE_RUN):
            raise JobError(would_have_to_be_run(path, str(error))) from error
        told = re.search(r"WeightsUnpickler error: (.*)", str(error))  # else torch advises to run the file
        reason = told[1] if told else str(error).partition("\n")[0]
        raise JobError(
            f"model.weights: {path} is neither safetensors nor what torch.save writes, or is not whole "
            f"({reason}); fetch it again"
        ) from error
    tensors, wrappers = unwrap(content)
    if not tensors:
        keys = f" of {', '.join(map(str, list(content)[:5]))}" if isinstance(content, Mapping) else ""
        raise JobError(
            f"model.weights: {path} holds no tensors by name, but a {type(content).__name__}{keys}; save the "
            "model's state_dict()"
        )
    return FileContent(tensors, notes=(f"tensors taken from `{'.'.join(wrappers)}`",) if wrappers else ())


def unwrap(content: Any) -> tuple[dict[str, Tensor], list[str]]:
    """The tensors by name in what a file holds, and the keys that led to them."""
    wrappers: list[str] = []
    while isinstance(content, Mapping):
        inner = next((key for key in WRAPPERS if isinstance(content.get(key), Mapping)), None)
        if inner is None:
            break
        wrappers.append(inner)
        content = content[inner]
    if not isinstance(content, Mapping):
        return {}, wrappers
    return {str(name): value for name, value in content.items() if isinstance(value, Tensor)}, wrappers


def would_have_to_be_run(path: Path, reason: str) -> str:
    """The error text for a file that holds more than tensors, with how its tensors are got out."""
    what = re.search(r"(?:GLOBAL |got )(\S+)", reason)
    return (
        f"model.weights: {path} holds more than tensors, and reading it would run what is in it"
        f"{f' ({what[1]})' if what else ''}. Where you trust who made it, convert it once, on a machine that "
        "matters less, and name the new file:\n"
        "    import torch; from safetensors.torch import save_file\n"
        f'    state = torch.load("{path.name}", map_location="cpu", weights_only=False)  # runs it\n'
        '    save_file({k: v.contiguous() for k, v in state["state_dict"].items()}, '
        f'"{path.with_suffix(".safetensors").name}")'
    )
