"""Colours as they were meant: from what a colour profile says to sRGB, by LittleCMS.

The intent is relative colorimetric with black-point compensation: colours that sRGB has stay what they were,
skin among them, and others move to its border. Perceptual tables would move all colours, each maker's by
rules of his own. A profile that moves no colour by more than `ALIKE` is sRGB under whatever name, and leaves
pixels as they are, to the bit; so nothing is done to most pictures.
"""

import io
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from PIL import Image, ImageCms

from registry.bundle.pictures.profile import DAMAGED, MAX_PROFILE, ProfileNotUsed, Space, profile_space

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


@dataclass(frozen=True)
class _Judged:
    """A profile that was looked at: what it converts, nothing where it is sRGB, or why it is not used."""

    mode: str = "RGB"
    conversion: Conversion | None = None
    why_not: str = ""


def conversion_of(image: Image.Image) -> Conversion | None:
    """The conversion for an opened picture; None where its colours are sRGB, or nothing says otherwise.

    Raises:
        ProfileNotUsed: its profile is broken, not one of those that are looked at, or not for such a picture.
    """
    if "icc_profile" not in image.info:
        return None
    profile: bytes | None = image.info["icc_profile"]
    if not profile:
        raise ProfileNotUsed(DAMAGED)
    if len(profile) > MAX_PROFILE:
        profile_space(profile)
    judged = _judged(profile) if len(profile) <= _MEMORABLE else _judged.__wrapped__(profile)
    if judged.why_not:
        raise ProfileNotUsed(judged.why_not)
    if judged.mode not in _modes_for(image):
        raise ProfileNotUsed(f"it is for pictures of the mode {judged.mode}, and this one is {image.mode}")
    return judged.conversion


def _modes_for(image: Image.Image) -> tuple[str, ...]:
    """For which modes a picture's profile may be: a grey picture is one of colours, too."""
    if image.mode == "CMYK":
        return ("CMYK",)
    return ("L", "RGB") if Image.getmodebase(image.mode) == "L" else ("RGB",)


@lru_cache(_REMEMBERED)
def _judged(profile: bytes) -> _Judged:
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
        return _Judged(why_not=str(error))
    except (ImageCms.PyCMSError, OSError):
        return _Judged(why_not=DAMAGED)
    return _Judged(mode, None if _is_srgb(mode, transform) else Conversion(mode, transform))


def _is_srgb(mode: str, transform: ImageCms.ImageCmsTransform) -> bool:
    """Whether no colour moves by more than `ALIKE`."""
    if mode == "CMYK":
        return False
    steps = np.linspace(0, 255, _SIDE).round().astype(np.uint8)
    cube = np.stack(np.meshgrid(steps, steps, steps), axis=-1).reshape(_SIDE, -1, 3)
    shown = Image.fromarray(cube if mode == "RGB" else np.arange(256, dtype=np.uint8)[None], mode)
    before, after = (np.asarray(one.convert("RGB"), np.int16) for one in (shown, transform.apply(shown)))
    return bool(np.abs(after - before).max() <= ALIKE)
