"""The weights of an encoder in an ONNX file, by the names that they had before it was exported.

Exporters keep the names of biases and convolutions, and turn the matrix of a linear layer round and take its
name away. The node that multiplies by it is named by its place, `/encoder/layer.0/mlp/fc1/MatMul`, which says
whose it is. Positions that were cut into that of the class token and those of patches are put together.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from training.errors import JobError
from training.models.encoders.files import FileContent, is_safetensors

BEGINS = 8  # the first field is the version of the format, a small number
NEWEST = 32  # above every version of the format
EMBEDDINGS, POSITIONS = "embeddings", "position_embeddings"


def is_onnx(path: Path) -> bool:
    """Whether a file begins as ONNX files do."""
    with path.open("rb") as file:
        head = file.read(2)
    return len(head) == 2 and head[0] == BEGINS and head[1] < NEWEST and not is_safetensors(path)


def read_onnx(path: Path) -> FileContent:
    """All weights of a graph; it is not run.

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
