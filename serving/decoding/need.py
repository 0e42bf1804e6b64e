"""What it takes to decode a picture, told by its header: seconds of a core, and bytes of memory.

The figures were measured with Pillow 13 on one core, and are rather too large than too small. They choose a
lane and refuse what is far beyond any photograph; what holds are the worker's limits on time and memory.
"""

import io
from dataclasses import dataclass
from typing import Final

from PIL import Image, JpegImagePlugin, PngImagePlugin, WebPImagePlugin

from registry.bundle.pictures.piece_limits import jpeg_scans
from registry.bundle.pictures.rule import PictureRule

MARGIN: Final = 32 * 2**20
"""Bytes that any picture may take besides: tables, text of a PNG, what is left of the one before."""

_MEGA: Final = 1e6
_COPIES: Final = 2  # of what was decoded, four bytes a pixel each: as RGB, and in the model's colours

# Seconds for a million pixels; of a JPEG without its scans.
_JPEG, _JPEG_FULL, _SCAN, _PNG, _WEBP, _RAW = 0.005, 0.012, 0.001, 0.05, 0.035, 0.02
# Seconds for a million bytes of a JPEG, for each of which bits are taken apart.
_JPEG_BYTES: Final = 0.035

# Bytes for each pixel while it is decoded.
_PNG_BYTES: Final = {"RGB": 4, "RGBA": 8, "LA": 8, "I;16": 24, "I": 24}
_WEBP_BYTES: Final = 12


@dataclass(frozen=True)
class Need:
    """What decoding takes.

    Attributes:
        seconds: of one core.
        memory: bytes.
    """

    seconds: float
    memory: int


def picture_need(image: Image.Image, rule: PictureRule) -> Need:
    """What it takes to decode an opened picture by a rule; nothing is decoded."""
    pixels = image.width * image.height
    if isinstance(image, JpegImagePlugin.JpegImageFile):
        return _jpeg(image, rule)
    if isinstance(image, WebPImagePlugin.WebPImageFile):
        return webp_need(pixels)
    if isinstance(image, PngImagePlugin.PngImageFile):
        held = _PNG_BYTES.get(image.mode, 8 if "transparency" in image.info else 5)
        return _need(_PNG, held, pixels)
    return _need(_RAW, 30, pixels)


def webp_need(pixels: int) -> Need:
    """What it takes to decode a WebP of so many pixels; opening it takes half of the memory already."""
    return _need(_WEBP, _WEBP_BYTES, pixels)


def webp_size(content: bytes) -> tuple[int, int]:
    """Width and height that the header of a WebP promises, in pixels; 0 and 0 where it promises none."""
    kind, head = content[12:16], content[20:30]
    if len(head) < 10:
        return 0, 0
    if kind == b"VP8X":
        return 1 + int.from_bytes(head[4:7], "little"), 1 + int.from_bytes(head[7:10], "little")
    if kind == b"VP8L":
        bits = int.from_bytes(head[1:5], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 ":
        width, height = int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:10], "little")
        return width & 0x3FFF, height & 0x3FFF
    return 0, 0


def _need(seconds: float, held: int, pixels: int) -> Need:
    return Need(seconds * pixels / _MEGA, (held + 4 * _COPIES) * pixels + MARGIN)


def _jpeg(image: JpegImagePlugin.JpegImageFile, rule: PictureRule) -> Need:
    pixels = image.width * image.height
    content = image.fp.getvalue() if isinstance(image.fp, io.BytesIO) else b""
    scans = jpeg_scans(content)
    decoded = pixels // _scale(image, rule) ** 2 if rule.draft else pixels
    seconds = (_JPEG_FULL if decoded > pixels // 4 else _JPEG) + (_SCAN * scans if scans > 1 else 0)
    # Of several scans every coefficient is held, two bytes each, until the last has been read.
    blocks = [across * down for _, across, down, _ in image.layer]
    held = 2 * sum(blocks) * pixels // max(1, max(blocks, default=1)) if scans > 1 else 0
    return Need(
        seconds * pixels / _MEGA + _JPEG_BYTES * len(content) / _MEGA,
        held + 4 * (1 + _COPIES) * decoded + 3 * len(content) + MARGIN,
    )


def _scale(image: Image.Image, rule: PictureRule) -> int:
    """By how much a JPEG is scaled down while it is decoded."""
    most = min(image.width, image.height) // rule.size
    return next((scale for scale in (8, 4, 2) if most >= scale), 1)
