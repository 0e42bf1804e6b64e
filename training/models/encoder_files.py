"""Tensors of a file that others made, read without running anything of it.

Files are safetensors, or what `torch.save` wrote, read with `weights_only=True`: a file that holds more than
tensors, numbers and text is refused. A file is identified by its content, never by its name.
"""

import importlib.util
import json
import pickle
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import model_validator
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from registry.bundle.pictures.rule import Interpolation
from training.config import FrozenConfig
from training.errors import JobError
from training.messages import Tensors, named
from training.tensor_file import ENTRY

SCHEMAS = {
    "nms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}


def prepare_torchvision() -> None:
    """Load torchvision's operators, or declare the two that its import needs.

    The package index serves torchvision as a CUDA build, whose compiled part cannot load with a CPU torch;
    its import then stops at two unknown operators. timm needs torchvision's Python part alone.
    """
    if hasattr(torch.ops.torchvision, "nms"):
        return
    found = importlib.util.find_spec("torchvision")
    if found is None or found.origin is None:
        return
    for library in Path(found.origin).parent.glob("_C*.so"):
        try:
            torch.ops.load_library(str(library))  # type: ignore[no-untyped-call]
        except OSError:  # built for CUDA libraries that are not here
            continue
        return
    for name, schema in SCHEMAS.items():
        torch.library.define(f"torchvision::{name}", schema)


Colours = tuple[float, float, float]


class Normalisation(FrozenConfig):
    """Mean and standard deviation that pictures in [0, 1] are normalised with: (x - mean) / std.

    Attributes:
        mean: of red, green and blue.
        std: of red, green and blue.
    """

    mean: Colours
    std: Colours

    @model_validator(mode="after")
    def _of_pictures_up_to_one(self) -> "Normalisation":
        if not all(0 <= value <= 1 for value in self.mean) or not all(0 < value <= 1 for value in self.std):
            raise ValueError(
                f"mean {list(self.mean)} and std {list(self.std)} are not of pictures in [0, 1]: give means "
                "from 0 to 1 and standard deviations above 0 up to 1; divide those of 0 to 255 by 255"
            )
        return self


IMAGENET = Normalisation(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))


class Preprocessing(FrozenConfig):
    """What an encoder expects of its pictures.

    Attributes:
        normalisation: of their colours.
        interpolation: by which they were resized.
    """

    normalisation: Normalisation = IMAGENET
    interpolation: Interpolation = "bilinear"


AS_EVER = Preprocessing()


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


BEGINS = 8  # the first field is the version of the format, a small number
NEWEST = 32  # above every version of the format
EMBEDDINGS, POSITIONS = "embeddings", "position_embeddings"


def is_onnx(path: Path) -> bool:
    """Whether a file begins as ONNX files do."""
    with path.open("rb") as file:
        head = file.read(2)
    return len(head) == 2 and head[0] == BEGINS and head[1] < NEWEST and not is_safetensors(path)


def read_onnx(path: Path) -> FileContent:
    """The weights of an encoder in an ONNX file, by the names that they had before it was exported.

    Exporters keep the names of biases and convolutions, and turn the matrix of a linear layer round and take
    its name away. The node that multiplies by it is named by its place, `/encoder/layer.0/mlp/fc1/MatMul`,
    which says whose it is. Positions that were cut into that of the class token and those of patches are put
    together.

    Raises:
        JobError: it is damaged, or has its weights in other files.
    """
    import onnx
    from google.protobuf.message import DecodeError
    from onnx import numpy_helper

    try:
        graph = onnx.load(path, load_external_data=False).graph
    except (DecodeError, OSError) as error:
        raise JobError(f"model.weights: {path} cannot be read as ONNX: {error}; fetch it again") from error
    if any(each.external_data for each in graph.initializer):
        raise JobError(
            f"model.weights: {path} has its weights in other files; save the graph as one file, or give the "
            "encoder's state_dict()"
        )
    held = {each.name: torch.from_numpy(numpy_helper.to_array(each).copy()) for each in graph.initializer}
    tensors = {name: tensor for name, tensor in held.items() if "::" not in name}
    positions: dict[str, list[Tensor]] = {}
    for scope, kind, name in _nameless(graph):
        if kind == "MatMul" and held[name].ndim == 2:
            tensors[f"{scope}.weight"] = held[name].T.contiguous()
        elif scope.endswith(EMBEDDINGS) and held[name].ndim in (3, 4) and len(held[name]) == 1:
            tokens = held[name] if held[name].ndim == 3 else held[name].flatten(2).transpose(1, 2)
            positions.setdefault(f"{scope}.{POSITIONS}", []).append(tokens)
    for name, parts in positions.items():
        tensors[name] = torch.cat(sorted(parts, key=lambda part: part.shape[1]), dim=1)
    return FileContent(tensors, ("weights taken from an ONNX graph",), antialias=_antialiases(graph))


def _nameless(graph: Any) -> Iterator[tuple[str, str, str]]:
    """The scope and kind of each node that takes a weight without a name of its own, and that weight."""
    nameless = {each.name for each in graph.initializer if "::" in each.name}
    for node in graph.node:
        scope = ".".join(node.name.strip("/").split("/")[:-1])
        for name in nameless.intersection(node.input):
            yield scope, node.op_type, name


def _antialiases(graph: Any) -> bool:
    """Whether positions are resampled with antialiasing, as timm does it, or not at all."""
    resizes = [node for node in graph.node if node.op_type == "Resize" and f"/{EMBEDDINGS}/" in node.name]
    return all(any(each.name == "antialias" and each.i for each in node.attribute) for node in resizes)
