"""Augmentations on whole batches on the device, with a draw per picture.

Pictures are float tensors `(batch, 3, height, width)` in [0, 1]. The draws come from a CPU generator, so that
the same seed gives the same draws on every device.
"""

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from training.config import FrozenConfig


class AugmentConfig(FrozenConfig):
    """How far pictures are changed; every default but the flips is no change.

    Attributes:
        flip: mirror left-right and up-down, each with probability 1/2.
        rotation: up to this many degrees either way.
        scale: zoom by a factor in [1 - scale, 1 + scale].
        brightness, contrast, saturation: factors in [1 - x, 1 + x].
    """

    flip: bool = True
    rotation: float = Field(0.0, ge=0, le=180)
    scale: float = Field(0.0, ge=0, lt=1)
    brightness: float = Field(0.0, ge=0, lt=1)
    contrast: float = Field(0.0, ge=0, lt=1)
    saturation: float = Field(0.0, ge=0, lt=1)


def augment(images: Tensor, config: AugmentConfig, generator: torch.Generator) -> Tensor:
    """Changed pictures, `(batch, 3, height, width)` in [0, 1]; the input is left as it is."""
    if config.flip:
        images = flip(images, generator)
    if config.rotation or config.scale:
        images = rotate_and_scale(images, config.rotation, config.scale, generator)
    if config.brightness or config.contrast or config.saturation:
        images = jitter(images, config, generator)
    return images


def draw(count: int, reach: float, generator: torch.Generator, device: torch.device) -> Tensor:
    """`count` numbers uniform in [-reach, reach]."""
    return ((torch.rand(count, generator=generator) * 2 - 1) * reach).to(device)


def flip(images: Tensor, generator: torch.Generator) -> Tensor:
    """Mirror each picture left-right and up-down, each with probability 1/2."""
    chosen = (torch.rand(2, len(images), generator=generator) < 0.5).to(images.device).view(2, -1, 1, 1, 1)
    images = torch.where(chosen[0], images.flip(-1), images)
    return torch.where(chosen[1], images.flip(-2), images)


def rotate_and_scale(images: Tensor, degrees: float, scale: float, generator: torch.Generator) -> Tensor:
    """Turn and zoom about the centre, bilinear, with the border reflected."""
    angle = torch.deg2rad(draw(len(images), degrees, generator, images.device))
    zoom = 1 / (1 + draw(len(images), scale, generator, images.device))
    cosine, sine, zero = torch.cos(angle) * zoom, torch.sin(angle) * zoom, torch.zeros_like(angle)
    affine = torch.stack([cosine, -sine, zero, sine, cosine, zero], dim=1).view(-1, 2, 3)
    grid = F.affine_grid(affine, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, padding_mode="reflection", align_corners=False)


def jitter(images: Tensor, config: AugmentConfig, generator: torch.Generator) -> Tensor:
    """Brightness, then contrast about the picture's mean grey, then saturation about each pixel's grey."""
    factors = [
        1 + draw(len(images), reach, generator, images.device).view(-1, 1, 1, 1)
        for reach in (config.brightness, config.contrast, config.saturation)
    ]
    images = images * factors[0]
    mean = grey(images).mean(dim=(2, 3), keepdim=True)
    images = mean + (images - mean) * factors[1]
    shade = grey(images)
    return (shade + (images - shade) * factors[2]).clamp(0, 1)


def grey(images: Tensor) -> Tensor:
    """Luma (ITU-R BT.601) `(batch, 1, height, width)`."""
    weights = torch.tensor([0.299, 0.587, 0.114], device=images.device).view(1, 3, 1, 1)
    return (images * weights).sum(dim=1, keepdim=True)
