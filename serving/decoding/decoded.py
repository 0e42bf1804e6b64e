"""A decoded picture, whoever decoded it; and decoding in this very process, for pictures that are trusted."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from registry.bundle.pictures.open_file import open_picture
from registry.bundle.pictures.rule import PictureRule, decode_opened, unused_profile


@dataclass(frozen=True)
class DecodedPicture:
    """A decoded picture.

    Attributes:
        width: of the picture as it was sent, in pixels.
        height: likewise.
        pixels: what the model sees of it, `(size, size, 3)` RGB.
        unused_profile: why its colour profile was not applied; None where it has none, or it was.
    """

    width: int
    height: int
    pixels: NDArray[np.uint8]
    unused_profile: str | None = None


Decode = Callable[[bytes, PictureRule], DecodedPicture]
"""Decodes the bytes of a picture by a picture rule; raises `PictureError`."""


def decode_here(content: bytes, rule: PictureRule) -> DecodedPicture:
    """Decodes in this process, without limits on time and memory; the service itself never does.

    Raises:
        PictureError: as `registry.bundle.pictures.rule.decode_picture`.
    """
    image = open_picture(content)
    width, height = image.size  # before the decoder scales down
    not_used = unused_profile(image, rule)
    return DecodedPicture(width, height, decode_opened(image, rule), not_used)
