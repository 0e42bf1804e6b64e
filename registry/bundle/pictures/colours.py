"""Colours as they were meant: which colour profiles are used, and from them to sRGB by LittleCMS.

The intent is relative colorimetric with black-point compensation: colours that sRGB has stay what they were,
skin among them, and others move to its border. Perceptual tables would move all colours, each maker's by
rules of his own. A profile that moves no colour by more than `ALIKE` is sRGB under whatever name, and leaves
pixels as they are, to the bit; so nothing is done to most pictures.

A profile is a small program for LittleCMS, and the sender of the picture writes it. Accepted is what cameras,
phones, scanners and editors embed: of one device, for RGB, grey or CMYK, made of curves, a matrix and tables,
each of which LittleCMS bounds. Refused are links, abstract spaces and named colours, and what may ask for any
amount of work: `multiProcessElements`, which have as many steps as fit.
"""

import io
import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

import numpy as np
from PIL import Image, ImageCms

MAX_PROFILE: Final = 4 * 2**20
"""Bytes of a profile: a phone's has 500, a printer's up to 3 million."""

MAX_TAGS: Final = 100
"""Tags of a profile; most have ten to twenty."""

Space = Literal["RGB", "GRAY", "CMYK"]

_SPACES: Final[dict[bytes, Space]] = {b"RGB ": "RGB", b"GRAY": "GRAY", b"CMYK": "CMYK"}
_DEVICES: Final = (b"mntr", b"scnr", b"prtr", b"spac")
_CONNECTIONS: Final = (b"XYZ ", b"Lab ")
_HEADER: Final = struct.Struct(">I8x4s4s4s12x4s")
_AT_TAGS: Final = 132
_TAG: Final = struct.Struct(">4sII")
DAMAGED: Final = "it is damaged or incomplete"
"""Why most that are not used are not."""

_ANY_WORK: Final = b"mpet"


class ProfileNotUsed(ValueError):  # noqa: N818 - reads as what it says where it is caught
    """A colour profile is not applied; the text says what it is: "it …"."""


def profile_space(profile: bytes) -> Space:
    """The colours that a profile is for.

    Raises:
        ProfileNotUsed: it is none, too large, or of a kind that no camera embeds.
    """
    if len(profile) > MAX_PROFILE:
        raise ProfileNotUsed(f"it has {len(profile):,} bytes, and {MAX_PROFILE:,} are looked at")
    if len(profile) < _AT_TAGS:
        raise ProfileNotUsed(f"it has {len(profile)} bytes, and its header alone has {_AT_TAGS}")
    size, device, space, connection, mark = _HEADER.unpack_from(profile)
    if mark != b"acsp" or size > len(profile):
        raise ProfileNotUsed(DAMAGED)
    if space not in _SPACES or device not in _DEVICES or connection not in _CONNECTIONS:
        raise ProfileNotUsed("it is not of a camera, scanner, screen or printer with RGB, grey or CMYK")
    _look_at_tags(profile)
    return _SPACES[space]


def _look_at_tags(profile: bytes) -> None:
    number = int.from_bytes(profile[_AT_TAGS - 4 : _AT_TAGS], "big")
    if number > MAX_TAGS:
        raise ProfileNotUsed(f"it has {number:,} tags, and {MAX_TAGS} are looked at")
    if _AT_TAGS + number * _TAG.size > len(profile):
        raise ProfileNotUsed(DAMAGED)
    for _, start, length in _TAG.iter_unpack(profile[_AT_TAGS : _AT_TAGS + number * _TAG.size]):
        if start + length > len(profile):
            raise ProfileNotUsed(DAMAGED)
        if profile[start : start + 4] == _ANY_WORK:
            raise ProfileNotUsed("it has tags of a kind that may ask for any amount of work")


ALIKE: Final = 2
"""Of 255: the most that a colour may move for a profile to count as sRGB."""

_MODES: Final[dict[Space, str]] = {"RGB": "RGB", "GRAY": "L", "CMYK": "CMYK"}
_REMEMBERED: Final = 8  # profiles; a clinic's cameras have few
_MEMORABLE: Final = 2**20  # bytes of one that is remembered; those of printers have half as many
_SIDE: Final = 17  # colours along a side of the cube in which a profile is compared with sRGB


@dataclass(frozen=True)
class Conversion:
    """What makes sRGB of the colours of one profile; threads may share it.

    Attributes:
        mode: of the pictures that it is for: RGB, L or CMYK.
        transform: LittleCMS's.
    """

    mode: str
    transform: ImageCms.ImageCmsTransform

    def apply(self, image: Image.Image) -> Image.Image:
        """Converts a picture of `mode` to RGB."""
        return self.transform.apply(image)


def conversion_of(image: Image.Image, profile: bytes | None) -> Conversion | None:
    """The conversion for an opened picture by a profile; None where its colours are sRGB.

    Raises:
        ProfileNotUsed: its profile is broken, not one of those that are looked at, or not for such a picture.
    """
    if profile is None:
        return None
    if not profile:
        raise ProfileNotUsed(DAMAGED)
    if len(profile) > MAX_PROFILE:
        profile_space(profile)
    mode, judged = _judged(profile) if len(profile) <= _MEMORABLE else _judged.__wrapped__(profile)
    if isinstance(judged, str):
        raise ProfileNotUsed(judged)
    if mode not in _modes_for(image):
        raise ProfileNotUsed(f"it is for pictures of the mode {mode}, and this one is {image.mode}")
    return judged


def _modes_for(image: Image.Image) -> tuple[str, ...]:
    """For which modes a picture's profile may be: a grey picture is one of colours, too."""
    if image.mode == "CMYK":
        return ("CMYK",)
    return ("L", "RGB") if Image.getmodebase(image.mode) == "L" else ("RGB",)


@lru_cache(_REMEMBERED)
def _judged(profile: bytes) -> tuple[str, Conversion | str | None]:
    """The mode that a profile is for, and its conversion, nothing where it is sRGB, or why it is not used."""
    try:
        mode = _MODES[profile_space(profile)]
        transform = ImageCms.buildTransform(
            ImageCms.ImageCmsProfile(io.BytesIO(profile)),
            ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")),
            mode,
            "RGB",
            ImageCms.Intent.RELATIVE_COLORIMETRIC,
            ImageCms.Flags.BLACKPOINTCOMPENSATION,
        )
    except ProfileNotUsed as error:
        return "RGB", str(error)
    except (ImageCms.PyCMSError, OSError):
        return "RGB", DAMAGED
    return mode, None if _is_srgb(mode, transform) else Conversion(mode, transform)


def _is_srgb(mode: str, transform: ImageCms.ImageCmsTransform) -> bool:
    """Whether no colour moves by more than `ALIKE`."""
    if mode == "CMYK":
        return False
    steps = np.linspace(0, 255, _SIDE).round().astype(np.uint8)
    cube = np.stack(np.meshgrid(steps, steps, steps), axis=-1).reshape(_SIDE, -1, 3)
    shown = Image.fromarray(cube if mode == "RGB" else np.arange(256, dtype=np.uint8)[None], mode)
    before, after = (np.asarray(one.convert("RGB"), np.int16) for one in (shown, transform.apply(shown)))
    return bool(np.abs(after - before).max() <= ALIKE)
