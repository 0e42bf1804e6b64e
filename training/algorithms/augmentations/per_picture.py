"""Every picture of a batch through operations of its own, all pictures of one operation at once."""

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

Operation = Callable[[Tensor, Tensor], Tensor]
"""Takes pictures `(batch, 3, height, width)` in [0, 1] and their signed levels `(batch,)` in [-1, 1]."""


def apply_in_turn(
    images: Tensor, steps: Iterable[tuple[Tensor, Tensor]], operations: Sequence[Operation]
) -> Tensor:
    """Pictures after one operation per step; what comes back has their device and memory format.

    Args:
        images: the pictures; they are left as they are.
        steps: the kinds and levels that `apply_each` takes, asked for as their turn comes.
        operations: what a kind is a place in.
    """
    channels_last = images.is_contiguous(memory_format=torch.channels_last)
    images = images.contiguous()  # most operations go through one channel after the other
    for kinds, levels in steps:
        images = apply_each(images, kinds, levels, operations)
    return images.contiguous(memory_format=torch.channels_last if channels_last else torch.contiguous_format)


def apply_each(images: Tensor, kinds: Tensor, levels: Tensor, operations: Sequence[Operation]) -> Tensor:
    """Put each picture through its own operation.

    Args:
        images: the pictures.
        kinds: each picture's place in `operations`, `(batch,)`, on the CPU.
        levels: each picture's signed level, `(batch,)`, on the CPU.
        operations: those that a picture may go through.
    """
    order = kinds.argsort(stable=True)
    counts = torch.bincount(kinds, minlength=len(operations)).tolist()
    levels, order = levels[order].to(images), order.to(images.device)
    changed = torch.empty_like(images)
    groups = zip(operations, torch.split(order, counts), torch.split(levels, counts), strict=True)
    for operation, places, theirs in groups:
        if len(places):
            changed.index_copy_(0, places, operation(images.index_select(0, places), theirs))
    return changed
