"""RandAugment on whole batches on the device, with draws per picture (Cubuk et al. 2020, section 3).

Each picture goes through N operations, drawn uniformly with replacement from the paper's fourteen, at the
level M / 30 of each operation's range. Operations that have two directions take the one that a sign says,
drawn for each picture and operation. The ranges are torchvision's, after AutoAugment (Cubuk et al. 2019).

Departures: M is any number, not a whole one. Beyond its border a picture goes on as its mirror image, not in
grey: that is what the weak augmentations do, so that two views of a picture differ by the operations alone,
and the edge of a grey wedge would stand out more or less with the tone of the skin. Geometry is bilinear.
"""

import torch
from pydantic import Field
from torch import Tensor

from training.algorithms.augmentations.operations import OPERATIONS, apply_in_turn
from training.config import FrozenConfig

MAX_MAGNITUDE = 30


class RandAugmentConfig(FrozenConfig):
    """How strongly pictures are changed.

    Attributes:
        operations: how many operations each picture goes through, one after the other.
        magnitude: how far each goes, of 30.
    """

    operations: int = Field(2, ge=0, le=20)  # N
    magnitude: float = Field(10.0, ge=0, le=MAX_MAGNITUDE)  # M


def rand_augment(images: Tensor, config: RandAugmentConfig, generator: torch.Generator) -> Tensor:
    """Strongly changed pictures, `(batch, 3, height, width)` in [0, 1]; the input is left as it is.

    Args:
        images: pictures in [0, 1]; what comes back has their device and memory format.
        config: how strongly.
        generator: of the draws, on the CPU.
    """
    count = len(images)
    steps = (
        (
            torch.randint(len(OPERATIONS), (count,), generator=generator),
            draw_levels(count, config, generator),
        )
        for _ in range(config.operations)
    )
    return apply_in_turn(images, steps, tuple(OPERATIONS.values()))


def draw_levels(count: int, config: RandAugmentConfig, generator: torch.Generator) -> Tensor:
    """Signed levels `(count,)` of size M / 30."""
    level = config.magnitude / MAX_MAGNITUDE
    return torch.where(torch.rand(count, generator=generator) < 0.5, level, -level)
