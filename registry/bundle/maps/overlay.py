"""A map as a transparent PNG that is laid over the whole picture as it was sent, whatever its size.

It holds the map alone: no pixel of the picture, no text and no metadata.
"""

import io
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from registry.bundle.maps.placement import Placement

LONGEST: Final = 128
"""Pixels of the longer side: more than a coarse map has to say."""

COLOUR: Final = (20, 90, 255)
"""A blue: skin of every tone and nearly all lesions are of the other hues."""

STRONGEST: Final = 170
"""The opacity of the strongest cell, of 255: what lies below stays visible."""

LEVELS: Final = STRONGEST + 1


def overlay_png(grid: NDArray[np.float64], where: Placement) -> bytes:
    """The map over the whole picture: opaque where the model looked, clear where it did not or saw nothing.

    Args:
        grid: shares from 0 to 1, `(rows, columns)`.
        where: what the model saw of the picture.
    """
    size = frame_size(where)
    left, upper, right, lower = pixel_box(where, size)
    strength = Image.fromarray(np.round(grid.clip(0, 1) * STRONGEST).astype(np.uint8))
    opacity = Image.new("L", size, 0)
    # Bilinear: between the middles of two cells it is between them; what looks sharper would be made up.
    inside = strength.resize((right - left, lower - upper), Image.Resampling.BILINEAR)
    opacity.paste(inside, (left, upper))
    # One colour for every number, whose opacity is the number: a quarter of the bytes of four channels.
    picture = Image.frombytes("P", size, opacity.tobytes())
    picture.putpalette(COLOUR * LEVELS)
    file = io.BytesIO()
    picture.save(file, format="PNG", transparency=bytes(range(LEVELS)), compress_level=1)
    return file.getvalue()


def frame_size(where: Placement, longest: int = LONGEST) -> tuple[int, int]:
    """Width and height of a copy of the whole picture whose longer side has so many pixels."""
    scale = longest / max(where.width, where.height)
    return max(1, round(where.width * scale)), max(1, round(where.height * scale))


def pixel_box(where: Placement, size: tuple[int, int]) -> tuple[int, int, int, int]:
    """The box of what the model saw in whole pixels of a copy of the picture, at least one each way."""
    left, upper, right, lower = where.box
    x, y = min(round(left * size[0]), size[0] - 1), min(round(upper * size[1]), size[1] - 1)
    return x, y, max(round(right * size[0]), x + 1), max(round(lower * size[1]), y + 1)
