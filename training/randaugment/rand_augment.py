"""RandAugment on whole batches on the device, with draws per picture (Cubuk et al. 2020, section 3).

Each picture goes through N operations, drawn uniformly with replacement from the paper's fourteen, at the
level M / 30 of each operation's range. Operations that have two directions take the one that a sign says,
drawn for each picture and operation. The ranges are torchvision's, after AutoAugment (Cubuk et al. 2019).

`random_magnitude` and `cutout` are not the paper's: FixMatch draws every level anew and in the end cuts out a
grey square (Sohn et al. 2020, section 2.3).

Departures: M is any number, not a whole one. Beyond its border a picture goes on as its mirror image, not in
grey: that is what the weak augmentations do, so that two views of a picture differ by the operations alone,
and the edge of a grey wedge would stand out more or less with the tone of the skin. Geometry is bilinear.
"""

from collections.abc import Callable, Mapping

import torch
from pydantic import Field
from torch import Tensor

from training.augmentations import draw
from training.config import FrozenConfig
from training.randaugment.colours import (
    auto_contrast,
    brightness,
    colour,
    contrast,
    equalize,
    identity,
    posterize,
    sharpness,
    solarize,
)
from training.randaugment.geometry import rotate, shear_x, shear_y, translate_x, translate_y

MAX_MAGNITUDE = 30
CPU = torch.device("cpu")

# Each takes pictures `(batch, 3, height, width)` and their signed levels `(batch,)` in [-1, 1].
# The order is part of what a seed draws.
OPERATIONS: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "identity": identity,
    "auto-contrast": auto_contrast,
    "equalize": equalize,
    "rotate": rotate,
    "solarize": solarize,
    "colour": colour,
    "posterize": posterize,
    "contrast": contrast,
    "brightness": brightness,
    "sharpness": sharpness,
    "shear x": shear_x,
    "shear y": shear_y,
    "translate x": translate_x,
    "translate y": translate_y,
}


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
    channels_last = images.is_contiguous(memory_format=torch.channels_last)
    images = images.contiguous()  # most operations go through one channel after the other
    for _ in range(config.operations):
        kinds = torch.randint(len(OPERATIONS), (len(images),), generator=generator)
        images = apply_each(images, kinds, draw_levels(len(images), config, generator))
    if config.cutout:
        images = cut_out(images, config.cutout, generator)
    return images.contiguous(memory_format=torch.channels_last if channels_last else torch.contiguous_format)


def draw_levels(count: int, config: RandAugmentConfig, generator: torch.Generator) -> Tensor:
    """Signed levels `(count,)`: of size M / 30, or uniform in [-M / 30, M / 30] if magnitudes are random."""
    level = config.magnitude / MAX_MAGNITUDE
    if config.random_magnitude:
        return draw(count, level, generator, CPU)
    return torch.where(torch.rand(count, generator=generator) < 0.5, level, -level)


def apply_each(images: Tensor, kinds: Tensor, levels: Tensor) -> Tensor:
    """Put each picture through its own operation, all pictures of one operation at once.

    Args:
        images: the pictures.
        kinds: each picture's place in `OPERATIONS`, `(batch,)`, on the CPU.
        levels: each picture's signed level, `(batch,)`, on the CPU.
    """
    order = kinds.argsort(stable=True)
    counts = torch.bincount(kinds, minlength=len(OPERATIONS)).tolist()
    levels, order = levels[order].to(images), order.to(images.device)
    changed = torch.empty_like(images)
    groups = zip(OPERATIONS.values(), torch.split(order, counts), torch.split(levels, counts), strict=True)
    for operation, places, theirs in groups:
        if len(places):
            changed.index_copy_(0, places, operation(images.index_select(0, places), theirs))
    return changed


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
    return images.masked_fill(rows.view(count, 1, height, 1) & columns.view(count, 1, 1, width), 0.5)
