"""Operations on colours; the level of each picture is signed, in [-1, 1].

At level 1: posterize to 4 bits, solarize everything, and a factor of 1.9 for colour, contrast, brightness and
sharpness (0.1 at level -1). Where there is one direction only, the sign is ignored.

Departures from torchvision on floats: posterize works on values of 8 bits, as equalize does, and solarize has
Pillow's threshold, so that white stays at level 0.
"""

import torch
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
