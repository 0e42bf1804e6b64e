"""RandAugment on whole batches on the device, with draws per picture (Cubuk et al. 2020, section 3).

Each picture goes through N operations, drawn uniformly with replacement from the paper's fourteen, at the
level M / 30 of each operation's range. Operations that have two directions take the one that a sign says,
drawn for each picture and operation. The ranges are torchvision's, after AutoAugment (Cubuk et al. 2019).

`random_magnitude` and `cutout` are not the paper's: FixMatch draws every level at random and finally cuts out
a grey square (Sohn et al. 2020, section 2.3).

Departures: M is any number, not a whole one. Beyond its border a picture goes on as its mirror image, not in
grey: that is what the weak augmentations do, so that two views of a picture differ by the operations alone,
and the edge of a grey wedge would stand out more or less with the tone of the skin. Geometry is bilinear.
"""

import torch
from pydantic import Field
from torch import Tensor

from training.algorithms.augmentation_operations import OPERATIONS, apply_in_turn
from training.algorithms.augmentations import draw
from training.config import FrozenConfig

MAX_MAGNITUDE = 30
CPU = torch.device("cpu")


class RandAugmentConfig(FrozenConfig):
    """How strongly pictures are changed.

    Attributes:
        operations: how many operations each picture goes through, one after the other.
        magnitude: how far each goes, of 30.
        random_magnitude: draw each level uniformly from [0, M / 30]; otherwise all are M / 30.
        cutout: the side of a grey square as a share of the picture's shorter side; 0 is none.
    """

    operations: int = Field(2, ge=0, le=20)  # N
    magnitude: float = Field(10.0, ge=0, le=MAX_MAGNITUDE)  # M
    random_magnitude: bool = False
    cutout: float = Field(0.0, ge=0, le=1)


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
    images = apply_in_turn(images, steps, tuple(OPERATIONS.values()))
    if config.cutout:
        images = cut_out(images, config.cutout, generator)
    return images


def draw_levels(count: int, config: RandAugmentConfig, generator: torch.Generator) -> Tensor:
    """Signed levels `(count,)`: of size M / 30, or uniform in [-M / 30, M / 30] if magnitudes are random."""
    level = config.magnitude / MAX_MAGNITUDE
    if config.random_magnitude:
        return draw(count, level, generator, CPU)
    return torch.where(torch.rand(count, generator=generator) < 0.5, level, -level)


def cut_out(images: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """A mid-grey square centred anywhere in the picture and cut off at its border (DeVries & Taylor 2017).

    Args:
        images: the pictures.
        share: the square's side over the picture's shorter side.
        generator: of the draws.
    """
    count, _, height, width = images.shape
    reach = share * min(height, width) / 2
    centres = torch.rand(2, count, 1, generator=generator).to(images)
    rows, columns = (
        (torch.arange(side, device=images.device) + 0.5 - centre * side).abs() < reach
        for side, centre in zip((height, width), centres, strict=True)
    )
    inside = rows.view(count, 1, height, 1) & columns.view(count, 1, 1, width)
    return images.clone().masked_fill_(inside, 0.5)  # a clone has the memory format
