"""An exported graph as it travels: its bytes as one tensor."""

import torch

from training.messages import Tensors

GRAPH = "graph"


def as_tensor(graph: bytes) -> torch.Tensor:
    """The bytes `(n,)` uint8."""
    return torch.frombuffer(bytearray(graph), dtype=torch.uint8)


def as_bytes(tensors: Tensors) -> bytes:
    """The graph that arrived."""
    return bytes(tensors[GRAPH].numpy())
