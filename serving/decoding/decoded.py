"""A decoded picture, whoever decoded it; and decoding in this very process, for pictures that are trusted."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from registry.bundle.pictures.open_file import open_picture
from registry.bundle.pictures.rule import PictureRule, decode_opened, lies_on_its_side, unused_profile


@dataclass(frozen=True)
class DecodedPicture:
    """A decoded picture.

    Attributes:
        width: of the picture as it was sent, in pixels.
        height: likewise.
        pixels: what the model sees of it, `(size, size, 3)` RGB.
        unused_profile: why its colour profile was not applied; None where it has none, or it was.
        on_its_side: whether it is looked at with its sides exchanged, by the turn that EXIF asks for.
    """

    width: int
    height: int
    pixels: NDArray[np.uint8]
    unused_profile: str | None = None
    on_its_side: bool = False

    @property
    def looked_at(self) -> tuple[int, int]:
        """Width and height of the picture as it is looked at."""
        return (self.height, self.width) if self.on_its_side else (self.width, self.height)


Decode = Callable[[bytes, PictureRule], DecodedPicture]
"""Decodes the bytes of a picture by a picture rule; raises `PictureError`."""


def decode_here(content: bytes, rule: PictureRule) -> DecodedPicture:
    """Decodes in this process, without limits on time and memory; the service itself never does.

    Raises:
        PictureError: as `registry.bundle.pictures.rule.decode_picture`.
    """
    image = open_picture(content)
    width, height = image.size  # before the decoder scales down
    not_used = unused_profile(image)
    pixels = decode_opened(image, rule)
    return DecodedPicture(width, height, pixels, not_used, lies_on_its_side(image))
