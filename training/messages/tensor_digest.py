"""The digest of a tensor, by which a message names what its receiver holds already."""

import hashlib

import torch

from training.messages.message import Tensors


def tensor_digest(tensor: torch.Tensor) -> str:
    """SHA-256 of a tensor's type, shape and values, in hexadecimal."""
    row = tensor.detach().cpu().contiguous()
    digest = hashlib.sha256(f"{row.dtype} {tuple(row.shape)} ".encode())
    digest.update(row.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def tensor_digests(tensors: Tensors) -> dict[str, str]:
    """The digest of each tensor, by name."""
    return {name: tensor_digest(tensor) for name, tensor in tensors.items()}
