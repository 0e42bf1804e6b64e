"""Augmentations on whole batches on the device, with a draw per picture.

Pictures are float tensors `(batch, 3, height, width)` in [0, 1]. The draws come from a CPU generator, so that
the same seed gives the same draws on every device. Contrastive learning calls `augment` twice for two views.

Departures from torchvision, whose operations take one draw for a whole batch: hue turns the colour about
the grey axis (in YIQ) instead of through HSV, and colour is always changed in one order.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field, field_validator
from torch import Tensor

from training.algorithms.augmentation_operations import grey
from training.algorithms.auto_augment import POLICIES, auto_augment
from training.config import FrozenConfig
from training.models.classifier import CaseBatch, Inputs

Share = Annotated[float, Field(gt=0, le=1)]
Deviation = Annotated[float, Field(gt=0, le=20)]
ASPECT = 4 / 3  # width over height of what is cut out is in [1 / ASPECT, ASPECT]


class AugmentConfig(FrozenConfig):
    """How far pictures are changed; every default but the flips is no change.

    Attributes:
        flip: mirror left-right and up-down, each with probability 1/2.
        rotation: up to this many degrees either way.
        scale: zoom by a factor in [1 - scale, 1 + scale].
        crop: cut out a part with a share of the area in this range and blow it up; 1 to 1 is no cut.
        brightness, contrast, saturation: factors in [1 - x, 1 + x].
        hue: turn colours by up to this share of the colour circle either way.
        colour_probability: the share of pictures whose colours are changed.
        grey_probability: the share of pictures that lose their colours.
        blur_probability: the share of pictures that are blurred.
        blur: the range of the Gaussian's standard deviation, in pixels of a picture 224 pixels wide.
        auto: the policy of AutoAugment that pictures go through in the end; `none` is no change.
    """

    flip: bool = True
    rotation: float = Field(0.0, ge=0, le=180)
    scale: float = Field(0.0, ge=0, lt=1)
    crop: tuple[Share, Share] = (1.0, 1.0)
    brightness: float = Field(0.0, ge=0, lt=1)
    contrast: float = Field(0.0, ge=0, lt=1)
    saturation: float = Field(0.0, ge=0, lt=1)
    hue: float = Field(0.0, ge=0, le=0.5)
    colour_probability: float = Field(1.0, ge=0, le=1)
    grey_probability: float = Field(0.0, ge=0, le=1)
    blur_probability: float = Field(0.0, ge=0, le=1)
    blur: tuple[Deviation, Deviation] = (0.1, 2.0)
    auto: Literal["none", "imagenet"] = "none"

    @field_validator("crop", "blur")
    @classmethod
    def _rising(cls, ends: tuple[float, float]) -> tuple[float, float]:
        if ends[0] > ends[1]:
            raise ValueError(f"{list(ends)} does not rise; give the smaller end first")
        return ends


def augment(images: Tensor, config: AugmentConfig, generator: torch.Generator) -> Tensor:
    """Changed pictures, `(batch, 3, height, width)` in [0, 1]; the input is left as it is."""
    if config.flip:
        images = flip(images, generator)
    if config.rotation or config.scale:
        images = rotate_and_scale(images, config.rotation, config.scale, generator)
    if config.crop != (1.0, 1.0):
        images = crop(images, config.crop, ASPECT, generator)
    if config.brightness or config.contrast or config.saturation or config.hue:
        changed = partial(jitter, images, config, generator)
        images = some(images, config.colour_probability, changed, generator)
    if config.grey_probability:
        changed = partial(grey(images).expand, *images.shape)
        images = some(images, config.grey_probability, changed, generator)
    if config.blur_probability:
        changed = partial(blur, images, config.blur, generator)
        images = some(images, config.blur_probability, changed, generator)
    if config.auto != "none":
        images = auto_augment(images, POLICIES[config.auto], generator)
    return images


def some(
    images: Tensor, probability: float, changed: Callable[[], Tensor], generator: torch.Generator
) -> Tensor:
    """Put each picture's changed form in its place with a probability; where that is 1 nothing is drawn."""
    if probability == 1:
        return changed()
    chosen = (torch.rand(len(images), generator=generator) < probability).to(images.device)
    return torch.where(chosen.view(-1, 1, 1, 1), changed(), images)


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


def crop(images: Tensor, area: tuple[float, float], aspect: float, generator: torch.Generator) -> Tensor:
    """Cut a part out of each picture and blow it up to the whole, bilinear.

    The share of the area is uniform in `area` and the logarithm of width over height in [-log aspect,
    log aspect] (Szegedy et al. 2015); a part that would not fit is as wide or high as the picture.
    """
    count = len(images)
    low, high = area
    share = low + (high - low) * torch.rand(count, generator=generator)
    ratio = torch.exp(draw(count, math.log(aspect), generator, torch.device("cpu")))
    width = (share * ratio).sqrt().clamp(max=1)
    height = (share / ratio).sqrt().clamp(max=1)
    # In the grid's coordinates a picture reaches from -1 to 1: the centre may be where the part still fits.
    x = draw(count, 1.0, generator, torch.device("cpu")) * (1 - width)
    y = draw(count, 1.0, generator, torch.device("cpu")) * (1 - height)
    zero = torch.zeros(count)
    affine = torch.stack([width, zero, x, zero, height, y], dim=1).view(-1, 2, 3).to(images.device)
    grid = F.affine_grid(affine, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, padding_mode="border", align_corners=False)


def blur(images: Tensor, deviation: tuple[float, float], generator: torch.Generator) -> Tensor:
    """A Gaussian of each picture's own width, with the border reflected.

    Args:
        images: the pictures.
        deviation: the range of the standard deviation, in pixels of a picture 224 pixels wide.
        generator: of the draws.
    """
    count, channels, _, width = images.shape
    low, high = (end * width / 224 for end in deviation)
    sigma = (low + (high - low) * torch.rand(count, generator=generator)).to(images.device)
    reach = min(max(1, math.ceil(3 * high)), min(images.shape[-2:]) - 1)
    offsets = torch.arange(-reach, reach + 1, device=images.device, dtype=images.dtype)
    bell = torch.exp(-0.5 * (offsets / sigma.view(-1, 1)) ** 2)
    kernel = (bell / bell.sum(dim=1, keepdim=True)).repeat_interleave(channels, dim=0)
    # Every channel of every picture is a group of its own, with its picture's kernel; rows, then columns.
    flat = images.reshape(1, count * channels, *images.shape[-2:])
    padded = F.pad(flat, [reach] * 4, mode="reflect")
    across = F.conv2d(padded, kernel.view(-1, 1, 1, 2 * reach + 1), groups=count * channels)
    return F.conv2d(across, kernel.view(-1, 1, 2 * reach + 1, 1), groups=count * channels).view(images.shape)


def jitter(images: Tensor, config: AugmentConfig, generator: torch.Generator) -> Tensor:
    """Brightness, contrast about the picture's mean grey, saturation about each pixel's grey, then hue."""
    factors = [
        1 + draw(len(images), reach, generator, images.device).view(-1, 1, 1, 1)
        for reach in (config.brightness, config.contrast, config.saturation)
    ]
    images = images * factors[0]
    mean = grey(images).mean(dim=(2, 3), keepdim=True)
    images = mean + (images - mean) * factors[1]
    shade = grey(images)
    images = shade + (images - shade) * factors[2]
    if config.hue:
        images = turn_hue(images, draw(len(images), config.hue, generator, images.device))
    return images.clamp(0, 1)


# From RGB to luma and two axes of colour (NTSC, 1953).
_YIQ = ((0.299, 0.587, 0.114), (0.5959, -0.2746, -0.3213), (0.2115, -0.5227, 0.3112))


def turn_hue(images: Tensor, turns: Tensor) -> Tensor:
    """Each picture's colours turned about the grey axis by `turns` `(batch,)` of a whole circle."""
    to_yiq = torch.tensor(_YIQ, device=images.device)
    angle = turns * 2 * math.pi
    cosine, sine = torch.cos(angle), torch.sin(angle)
    zero, one = torch.zeros_like(angle), torch.ones_like(angle)
    rows = [one, zero, zero, zero, cosine, -sine, zero, sine, cosine]
    turn = torch.stack(rows, dim=1).view(-1, 3, 3)
    return torch.einsum("bij,bjhw->bihw", torch.linalg.inv(to_yiq) @ turn @ to_yiq, images)


def augment_inputs(inputs: Inputs, config: AugmentConfig, generator: torch.Generator) -> Inputs:
    """The inputs with every picture changed by a draw of its own; the pictures of a case are each its own.

    Features of a frozen encoder are left as they are: what they are of was changed before it saw it.
    """
    if isinstance(inputs, CaseBatch):
        if inputs.images.ndim == 3:
            return inputs
        present = inputs.present
        images = inputs.images.clone()
        images[present] = augment(inputs.images[present], config, generator)
        return replace(inputs, images=images)
    return augment(inputs, config, generator) if inputs.ndim == 4 else inputs


class ProgressiveResizing(FrozenConfig):
    """First rounds on small pictures, as in progressive resizing (Howard 2018; Touvron et al. 2019).

    A network learns most of what it will know from small pictures nearly as well, and a step on them costs
    less: of half as many pixels a convolution's takes half the time.

    Departures: Howard grows pictures in several steps; here there is one.

    Attributes:
        rounds: the first so many; the others are at the job's size, as every evaluation is.
        image_size: pixels on both sides.
    """

    rounds: int = Field(ge=1)
    image_size: int = Field(ge=8)

    def size_in(self, round_: int) -> int | None:
        """To how many pixels a round's batches are scaled; None for as they are."""
        return self.image_size if round_ <= self.rounds else None


def scale_down(inputs: Inputs, size: int) -> Inputs:
    """Pictures, or those of cases, at `size` pixels on both sides, bilinear and antialiased."""
    if isinstance(inputs, CaseBatch):
        scaled = scaled_down(inputs.images.flatten(0, 1), size)
        return replace(inputs, images=scaled.view(*inputs.kinds.shape, *scaled.shape[1:]))
    return scaled_down(inputs, size)


def scaled_down(images: Tensor, size: int) -> Tensor:
    """Pictures `(batch, 3, height, width)` at `size` pixels on both sides."""
    return F.interpolate(images, size=(size, size), mode="bilinear", antialias=True)
