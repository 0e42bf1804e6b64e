"""The digest of a tensor, by which a message names what its receiver holds already."""

import hashlib

import torch

from training.messages.message import Tensors


def tensor_digest(tensor: torch.Tensor) -> str:
    """SHA-256 of a tensor's type, shape and values, in hexadecimal."""
    digest = hashlib.sha256(f"{tensor.dtype} {tuple(tensor.shape)} ".encode())
    digest.update(value_bytes(tensor))
    return digest.hexdigest()


def value_bytes(tensor: torch.Tensor) -> memoryview:
    """The bytes of a tensor's values, in their order."""
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data


def tensor_digests(tensors: Tensors) -> dict[str, str]:
    """The digest of each tensor, by name."""
    return {name: tensor_digest(tensor) for name, tensor in tensors.items()}
