"""Measures of image quality (blur, light, contrast) from the very pixels that the model sees.

**Blur** is the blur effect B of Crété-Roffet et al. (2007): a picture is compared with itself after a moving
average. A sharp one loses much of its variation, a blurred one little. With F the grey picture, F̄ its moving
average along one direction, D = |F(i) − F(i − 1)| and D̄ the same of F̄,

    b = 1 − Σ max(0, D − D̄) / Σ D,

and B is the larger b of both directions. It is a ratio: how dark a skin is, or how strong its contrast, is
not in it. Departures: the average is over 5 pixels where theirs is over 9, for we look at a small picture;
where the average would reach beyond the border nothing is counted.

**Light** is told by the ends of the histogram in a disc in the middle (a dermoscope's rim is outside),
never by the mean, which skin itself decides: how bright the brightest channel gets in the brightest
hundredth, and in how large a share two channels are at their ceiling, where colour is lost.

**Contrast** is (high − low) / high between the 5th and the 95th percentile in the disc, of the channel
where it is largest: nothing stands out where it is near 0.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

SIDES: Final = (128, 64)
"""Sides of the small picture that blur is measured on: the largest that the model's picture has. Pixels."""

SAMPLED: Final = 64
"""At most so many pixels of each side are looked at for light and contrast."""

RADIUS: Final = 0.8
"""Of the disc in the middle, in half sides."""

WINDOW: Final = 5
"""Pixels of the moving average."""

CEILING: Final = 253
"""From this value on a channel counts as at its ceiling; JPEG moves 255 by a little."""


@dataclass(frozen=True)
class Measures:
    """The quality measures of one picture.

    Attributes:
        side: of the picture that blur was measured on, pixels; one of `SIDES`.
        blur: B, from 0 (sharp) to 1; 0 where there is no variation at all.
        brightest: the 99th percentile of the brightest channel, 0 to 255.
        burnt: the share of pixels with two channels at their ceiling.
        contrast: from 0 (one flat colour) to 1.
    """

    side: int
    blur: float
    brightest: float
    burnt: float
    contrast: float


def measure(pixels: NDArray[np.uint8]) -> Measures | None:
    """Measures a picture, `(size, size, 3)` RGB; None where it is too small to measure."""
    size = len(pixels)
    side = next((side for side in SIDES if side <= size), None)
    if side is None:
        return None
    step = -(-size // SAMPLED)
    seen = pixels[::step, ::step]
    channels = np.ascontiguousarray(seen[_disc(len(seen))].T)
    last = channels.shape[1] - 1
    low, high = np.sort(channels, axis=1)[:, [round(0.05 * last), round(0.95 * last)]].astype(float).T
    return Measures(
        side=side,
        blur=blur_effect(_grey(pixels, side)),
        brightest=float(np.sort(channels.max(axis=0))[round(0.99 * last)]),
        burnt=float(((channels >= CEILING).sum(axis=0, dtype=np.uint8) >= 2).mean()),
        contrast=float(((high - low) / np.maximum(high, 1)).max()),
    )


def blur_effect(grey: NDArray[np.float32]) -> float:
    """The blur effect B of a grey picture `(height, width)`, of more than `WINDOW` pixels on both sides."""
    return max(_blur_along(grey), _blur_along(grey.T))


def _blur_along(grey: NDArray[np.float32]) -> float:
    """B along the first axis."""
    rows = np.ascontiguousarray(grey)
    inner = len(rows) - WINDOW + 1
    sums = rows[:inner].copy()
    for shift in range(1, WINDOW):
        sums += rows[shift : shift + inner]
    half = WINDOW // 2
    varies = np.abs(np.diff(rows[half : half + inner], axis=0))
    lost = np.maximum(varies - np.abs(np.diff(sums, axis=0)) / WINDOW, 0)
    total = float(varies.sum(dtype=np.float64))
    return 1 - float(lost.sum(dtype=np.float64)) / total if total else 0.0


def _grey(pixels: NDArray[np.uint8], side: int) -> NDArray[np.float32]:
    """The luma, `(side, side)`. It is not rounded: the steps of a rounded one look like sharp edges."""
    luma = Image.fromarray(pixels).convert("F")
    return np.asarray(luma if luma.size == (side, side) else luma.resize((side, side), Image.Resampling.BOX))


@lru_cache(maxsize=8)
def _disc(size: int) -> NDArray[np.bool_]:
    """Which pixels of a square lie within the disc, `(size, size)`."""
    place = (np.arange(size) + 0.5) / size * 2 - 1
    disc: NDArray[np.bool_] = np.hypot(place[:, np.newaxis], place) < RADIUS
    disc.flags.writeable = False
    return disc
