"""The bytes of a tensor, of which digests are made."""

import torch


def value_bytes(tensor: torch.Tensor) -> memoryview:
    """The bytes of a tensor's values, in their order."""
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
