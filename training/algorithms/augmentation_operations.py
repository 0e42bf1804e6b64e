"""Operations on colours and on the shape; the level of each picture is signed, in [-1, 1].

At level 1: posterize to 4 bits, solarize everything, and a factor of 1.9 for colour, contrast, brightness and
sharpness (0.1 at level -1). Where there is one direction only, the sign is ignored.

Departures from torchvision on floats: posterize works on values of 8 bits, as equalize does, and solarize has
Pillow's threshold, so that white stays at level 0.

Of the shape, at level 1: rotate by 30 degrees, shear by 0.3 pixels a pixel, translate by 150/331 of the side.
All are affine maps, bilinear, with the border reflected.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

MAX_BLEND = 0.9
MAX_LOST_BITS = 4
BITS = 8
LEVELS = 2**BITS


def identity(images: Tensor, levels: Tensor) -> Tensor:
    """The pictures as they are."""
    return images


def auto_contrast(images: Tensor, levels: Tensor) -> Tensor:
    """Stretch each channel over [0, 1]: (x - min) / (max - min); a channel of one value stays."""
    low, high = images.amin(dim=(2, 3), keepdim=True), images.amax(dim=(2, 3), keepdim=True)
    span = high - low
    return torch.where(span > 0, (images - low) / span, images)


def equalize(images: Tensor, levels: Tensor) -> Tensor:
    """Spread each channel's values so that all are about equally frequent, as Pillow does it.

    With n(k) pixels below value k, m at the channel's highest value and s = (pixels - m) // 255, value k
    becomes (n(k) + s // 2) // s of 255, at most 255; a channel where s is 0 keeps its values.
    """
    count, channels, height, width = images.shape
    rows = count * channels
    values = eight_bits(images).long().reshape(rows, height * width)
    # Every row has a range of places of its own, so that one histogram counts all.
    places = values + LEVELS * torch.arange(rows, device=images.device).view(-1, 1)
    histogram = torch.bincount(places.flatten(), minlength=rows * LEVELS).view(rows, LEVELS)
    below = histogram.cumsum(dim=1) - histogram
    step = below.gather(1, values.amax(dim=1, keepdim=True)) // (LEVELS - 1)
    table = ((below + step // 2) // step.clamp(min=1)).clamp(max=LEVELS - 1)
    spread = torch.where(step > 0, table.gather(1, values), values)
    return spread.view(images.shape).to(images).div_(LEVELS - 1)


def invert(images: Tensor, levels: Tensor) -> Tensor:
    """1 - x."""
    return 1 - images


def solarize(images: Tensor, levels: Tensor) -> Tensor:
    """Invert what is, of 255, at least 256 (1 - |level|): nothing at level 0, everything at level 1.

    With [.] one where it holds and zero elsewhere, x becomes |[x >= threshold] - x|.
    """
    threshold: Tensor = LEVELS * (1 - per_picture(levels.abs())) / (LEVELS - 1)
    return images.ge(threshold).to(images.dtype).sub_(images).abs_()


def colour(images: Tensor, levels: Tensor) -> Tensor:
    """Stronger or weaker differences from each pixel's grey."""
    return blend(grey(images), images, levels)


def posterize(images: Tensor, levels: Tensor) -> Tensor:
    """Keep the highest 8 - 4 |level| bits, rounded to whole ones, of each value's 8."""
    kept = (BITS - MAX_LOST_BITS * per_picture(levels.abs())).round()
    step = 2 ** (BITS - kept)
    return eight_bits(images).div_(step).floor_().mul_(step).div_(LEVELS - 1)


def contrast(images: Tensor, levels: Tensor) -> Tensor:
    """Stronger or weaker differences from the picture's mean grey."""
    return blend(grey(images).mean(dim=(2, 3), keepdim=True), images, levels)


def brightness(images: Tensor, levels: Tensor) -> Tensor:
    """Farther from or nearer to black."""
    return blend(images.new_zeros(()), images, levels)


def sharpness(images: Tensor, levels: Tensor) -> Tensor:
    """Stronger or weaker differences from the picture smoothed by (1 1 1, 1 5 1, 1 1 1) / 13.

    Pixels on the border stay, and so do pictures less than three pixels wide or high.
    """
    rows = images[:, :, :-2] + images[:, :, 1:-1] + images[:, :, 2:]
    inner = images[:, :, 1:-1, 1:-1]
    smooth = (rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:] + 4 * inner) / 13
    sharper = images.clone()
    sharper[:, :, 1:-1, 1:-1] = blend(smooth, inner, levels)
    return sharper


def blend(origin: Tensor, images: Tensor, levels: Tensor) -> Tensor:
    """The difference from `origin` times 1 + 0.9 level."""
    factors = 1 + MAX_BLEND * per_picture(levels)
    return torch.addcmul(origin, images - origin, factors).clamp_(0, 1)


def eight_bits(images: Tensor) -> Tensor:
    """The nearest whole numbers of 255."""
    return images.mul(LEVELS - 1).round_()


def per_picture(values: Tensor) -> Tensor:
    """One value `(batch,)` for all of a picture `(batch, 1, 1, 1)`."""
    return values.view(-1, 1, 1, 1)


def grey(images: Tensor) -> Tensor:
    """Luma (ITU-R BT.601) `(batch, 1, height, width)`."""
    weights = torch.tensor([0.299, 0.587, 0.114], device=images.device).view(1, 3, 1, 1)
    return (images * weights).sum(dim=1, keepdim=True)


MAX_ROTATION = math.radians(30)
MAX_SHEAR = 0.3
MAX_TRANSLATION = 150 / 331


def rotate(images: Tensor, levels: Tensor) -> Tensor:
    """Turn about the centre, anticlockwise at a positive level."""
    height, width = images.shape[2:]
    cosine, sine = torch.cos(levels * MAX_ROTATION), torch.sin(levels * MAX_ROTATION)
    return warp(images, (cosine, -sine * height / width, 0), (sine * width / height, cosine, 0))


def shear_x(images: Tensor, levels: Tensor) -> Tensor:
    """Move each row to the left by 0.3 level times its distance from the upper border."""
    height, width = images.shape[2:]
    slope = MAX_SHEAR * levels * height / width
    return warp(images, (1, slope, slope), (0, 1, 0))


def shear_y(images: Tensor, levels: Tensor) -> Tensor:
    """Move each column up by 0.3 level times its distance from the left border."""
    height, width = images.shape[2:]
    slope = MAX_SHEAR * levels * width / height
    return warp(images, (1, 0, 0), (slope, 1, slope))


def translate_x(images: Tensor, levels: Tensor) -> Tensor:
    """Move to the right by 150/331 level of the width."""
    return warp(images, (1, 0, -2 * MAX_TRANSLATION * levels), (0, 1, 0))


def translate_y(images: Tensor, levels: Tensor) -> Tensor:
    """Move down by 150/331 level of the height."""
    return warp(images, (1, 0, 0), (0, 1, -2 * MAX_TRANSLATION * levels))


Row = tuple[Tensor | int, Tensor | int, Tensor | int]


def warp(images: Tensor, x_from: Row, y_from: Row) -> Tensor:
    """Pictures whose pixel at (x, y) is looked up at (a x + b y + c, d x + e y + f).

    Args:
        images: the pictures; each reaches from -1 to 1 on both axes, and y grows downwards.
        x_from: a, b and c, for all pictures or for each, `(batch,)`.
        y_from: d, e and f.
    """
    count, _, height, width = images.shape
    x, y = centres(width, images), centres(height, images).view(-1, 1)
    sources = []
    for row in (x_from, y_from):
        by_x, by_y, shift = (entry.view(-1, 1, 1) if isinstance(entry, Tensor) else entry for entry in row)
        sources.append((by_x * x + (by_y * y + shift)).expand(count, height, width))
    grid = torch.stack(sources, dim=-1)
    # Rounding can put a mean of pixels a little above 1.
    return F.grid_sample(images, grid, padding_mode="reflection", align_corners=False).clamp_(0, 1)


def centres(side: int, images: Tensor) -> Tensor:
    """Where the centres of `side` pixels are on an axis from -1 to 1."""
    return (2 * torch.arange(side, dtype=images.dtype, device=images.device) + 1) / side - 1


Operation = Callable[[Tensor, Tensor], Tensor]
"""Takes pictures `(batch, 3, height, width)` in [0, 1] and their signed levels `(batch,)` in [-1, 1]."""

# RandAugment's; the order is part of what a seed draws.
OPERATIONS: Mapping[str, Operation] = {
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
