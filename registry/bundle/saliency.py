"""Saliency maps: where a model looked, as a transparent PNG over the picture as it was sent.

A map as a transparent PNG that is laid over the whole picture as it was sent, whatever its size.

It holds the map alone: no pixel of the picture, no text and no metadata.

The map of one class as people are shown it: each cell as a share of the strongest one.
"""

import io
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from registry.bundle.pictures.rule import PictureRule


@dataclass(frozen=True)
class Placement:
    """The part of a picture that a model saw.

    Attributes:
        width: of the picture as it is looked at, after the turn that EXIF asks for, in pixels.
        height: likewise.
        box: left, upper, right and lower edge of what the model saw, as shares of width and height.
    """

    width: int
    height: int
    box: tuple[float, float, float, float]


def placement(width: int, height: int, rule: PictureRule) -> Placement:
    """What a model of this picture rule saw of a picture.

    A rule cuts the centre, so that a turn of the picture turns what was cut with it.

    Args:
        width: of the picture as it is looked at, in pixels.
        height: likewise.
        rule: by which it became pixels.
    """
    if rule.fit == "squash":
        return Placement(width, height, (0.0, 0.0, 1.0, 1.0))
    edge = min(width, height)
    across, down = (1 - edge / width) / 2, (1 - edge / height) / 2
    return Placement(width, height, (across, down, 1 - across, 1 - down))


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


def relevance(grids: NDArray[np.float32]) -> NDArray[np.float64]:
    """What speaks for a class, as shares from 0 to 1 of the strongest cell of all pictures of a lesion.

    What speaks against the class is 0, as in Grad-CAM (Selvaraju et al. 2017, Eq. 2); where nothing speaks
    for it, everything is.

    Args:
        grids: of one class, `(pictures, rows, columns)`, in units of logits.
    """
    positive = np.clip(grids.astype(np.float64), 0, None)
    strongest = positive.max(initial=0.0)
    return positive / strongest if strongest > 0 else positive
