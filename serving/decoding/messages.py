"""What the service and a worker say to each other, and the decoded picture that comes of it.

A question is one packet: how long the picture is, which frame is meant, and its picture rule as JSON. The
picture lies in memory that both share, and its pixels take its place there. An answer is one packet of JSON,
which is read strictly: a worker may have been taken over by what it decoded.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, TypeAdapter

from registry.bundle.frozen import Frozen
from registry.bundle.pictures.open_file import open_picture
from registry.bundle.pictures.rule import (
    PictureRule,
    decode_opened,
    lies_on_its_side,
    transparent_share,
    unused_profile,
)

PIXELS: Final = 3 * 2048 * 2048
"""Bytes of the largest picture that a picture rule may ask for."""

LONGEST_PACKET: Final = 65536
LONGEST: Final = 1000
"""Characters of a sentence from a worker."""

QUESTION: Final = struct.Struct("<QI")
"""The bytes of the picture, and the number of the frame that is meant, 0 for none; the rule follows."""

Sentence = Annotated[str, Field(max_length=LONGEST)]

RefusedAs = Literal[
    "NotAPicture",
    "UnsupportedPicture",
    "PictureTooLarge",
    "DamagedPicture",
    "TruncatedPicture",
    "MemoryError",
]
"""Why a picture is not decoded: the name of a `PictureError`, or that there is not enough memory."""


class Pixels(Frozen):
    """The picture is decoded, and lies in the shared memory.

    Attributes:
        width: of the picture as it was sent, in pixels.
        height: likewise.
        unused_profile: why its colours were not converted as it declares them; None where they were.
        on_its_side: whether it is looked at with its sides exchanged, by the turn that it declares.
        transparent: the share of its pixels that are transparent, from 0 to 1; the model sees them white.
        frames: how many there are in the file.
        burned_in: whether the file says that texts are in its pixels.
    """

    model_config = ConfigDict(strict=True)

    width: int = Field(ge=1, le=2**31)
    height: int = Field(ge=1, le=2**31)
    unused_profile: Sentence | None = None
    on_its_side: bool = False
    transparent: float = Field(0.0, ge=0, le=1)
    frames: int = Field(1, ge=1, le=2**31)
    burned_in: bool = False


class Refused(Frozen):
    """The picture cannot be decoded.

    Attributes:
        error: the name of a `PictureError`; `MemoryError` where there was not enough.
        said: what is wrong with it.
    """

    model_config = ConfigDict(strict=True)

    error: RefusedAs
    said: Sentence


ANSWER: Final[TypeAdapter[Pixels | Refused]] = TypeAdapter(Pixels | Refused)


@dataclass(frozen=True)
class DecodedPicture:
    """A decoded picture.

    Attributes:
        answer: its size as it was sent, its colours, and its turn.
        pixels: what the model sees of it, `(size, size, 3)` RGB.
    """

    answer: Pixels
    pixels: NDArray[np.uint8]

    @property
    def looked_at(self) -> tuple[int, int]:
        """Width and height of the picture as it is looked at."""
        found = self.answer
        return (found.height, found.width) if found.on_its_side else (found.width, found.height)


Decode = Callable[[bytes, PictureRule, int | None], DecodedPicture]
"""Decodes the bytes of a picture by a picture rule, or a frame of it; raises `PictureError`."""


def decode_here(content: bytes, rule: PictureRule, frame: int | None = None) -> DecodedPicture:
    """Decodes in this process, without limits on time and memory; the service itself never does.

    Raises:
        PictureError: as `registry.bundle.pictures.rule.decode_picture`.
    """
    image = open_picture(content, frame)
    width, height = image.size  # before the decoder scales down
    why = unused_profile(image)
    pixels = decode_opened(image, rule)
    return DecodedPicture(
        Pixels(
            width=width,
            height=height,
            unused_profile=None if why is None else why[:LONGEST],
            on_its_side=lies_on_its_side(image),
            transparent=transparent_share(image),
            frames=image.info.get("frames", 1),
            burned_in=image.info.get("burned_in", False),
        ),
        pixels,
    )
