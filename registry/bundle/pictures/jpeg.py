"""JPEG files: whole ones alone.

libjpeg fills what is missing of a JPEG with grey and only warns, and Pillow passes no warning on. simplejpeg
runs the same library, gives the same pixels to the bit, and raises on warnings. Those about lost pixels are
errors here; others, such as of bytes that a camera put between two segments, are none. Two things
simplejpeg cannot tell. A file that ends between two of its scans lacks nothing that was begun, so what its
scans hold is added up here. And a header that no encoder we know writes (another sampling of colours, an
unknown revision of JFIF) it does not read at all: such a JPEG is Pillow's, without this check.
"""

import io
import re
from collections.abc import Iterator
from typing import Final, Literal

import numpy as np
import simplejpeg
from numpy.typing import NDArray
from PIL import Image, JpegImagePlugin

from registry.bundle.errors import DamagedPicture, TruncatedPicture

_SCAN, _END = 0xDA, 0xD9
# The next marker within a JPEG's compressed data: neither a stuffed byte nor a restart.
_MARKER: Final = re.compile(rb"\xff[\x01-\xcf\xd8-\xfe]")


def _segments(content: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    """Each marker from a place to the end mark, with its segment, as a decoder meets them.

    Over each segment by its length: phones append films, whose bytes look like anything, and a comment may
    have what looks like the end.
    """
    while found := _MARKER.search(content, at):
        at, marker = found.end(), content[found.end() - 1]
        if marker == _END:
            return
        if marker == 0x01 or 0xD0 <= marker <= 0xD8:  # stands alone
            yield marker, b""
            continue
        length = int.from_bytes(content[at : at + 2], "big")
        yield marker, content[at + 2 : at + length]
        at += max(2, length)


# What libjpeg warns of where pixels are lost.
_ENDS_EARLY: Final = re.compile("premature end|found marker 0xd9", re.IGNORECASE)
_SPOILT: Final = re.compile("bad Huffman code|bad arithmetic code|found marker")
# A broken colour profile does not break the picture, but stops simplejpeg: it must not be known as one.
_PROFILE, _NO_PROFILE = b"ICC_PROFILE\0", b"ICC_UNKNOWN\0"

# How Pillow's modes are asked for; the fourth byte of a pixel lets Pillow take the array without a copy.
_ASKED: Final[dict[str, Literal["GRAY", "RGBX", "CMYK"]]] = {"L": "GRAY", "RGB": "RGBX", "CMYK": "CMYK"}

_FRAMES: Final = (0xC0, 0xC1, 0xC2)
_PROGRESSIVE: Final = 0xC2
_COEFFICIENTS: Final = 64  # of a block


def load_jpeg(image: JpegImagePlugin.JpegImageFile) -> Image.Image:
    """Decodes an opened JPEG, at the scale that its `draft` chose.

    Returns:
        A picture of the modes L, RGBX or CMYK; or RGB where Pillow decoded it.

    Raises:
        TruncatedPicture: its bytes end before the picture does.
        DamagedPicture: the compressed data is spoilt.
        ValueError, OSError: the decoder gave up.
    """
    assert isinstance(image.fp, io.BytesIO)
    content = image.fp.getvalue()
    pixels = _whole(content, image)
    if pixels is None:
        image.load()
        return image
    _refuse_missing_scans(content)
    if image.mode == "CMYK":
        np.subtract(255, pixels, out=pixels)  # Adobe writes inks the other way round, and all others follow
    mode = "RGBX" if image.mode == "RGB" else image.mode
    return Image.frombuffer(mode, image.size, pixels, "raw", mode, 0, 1)


def _whole(content: bytes, image: JpegImagePlugin.JpegImageFile) -> NDArray[np.uint8] | None:
    """The samples, `(height, width, channels)`, none of them missing; None where simplejpeg reads no header.

    Raises:
        TruncatedPicture, DamagedPicture: some are missing.
    """
    strict, scale = True, image.decoderconfig[0] if image.decoderconfig else 1
    while True:
        try:
            decoded: NDArray[np.uint8] = simplejpeg.decode_jpeg(
                content,
                _ASKED[image.mode],
                min_factor=scale,
                min_width=image.width,
                min_height=image.height,
                strict=strict,
            )
            return decoded
        except ValueError as error:
            if _ENDS_EARLY.search(str(error)):
                raise TruncatedPicture(
                    f"the picture's bytes end early ({error}); send the whole file again"
                ) from error
            if _SPOILT.search(str(error)):
                raise DamagedPicture(
                    f"bytes of the JPEG are missing or changed ({error}); send the whole file again"
                ) from error
            if "ICC marker" in str(error) and _PROFILE in content:
                content = content.replace(_PROFILE, _NO_PROFILE)
            elif strict:
                strict = False
            else:
                return None


def _refuse_missing_scans(content: bytes) -> None:
    """Refuses a JPEG of several scans that lacks a part of its coefficients.

    Raises:
        TruncatedPicture: one of its components lacks some, or some of their bits.
    """
    progressive = False
    missing: dict[int, list[int]] = {}  # of each component, which bit of each coefficient comes next
    for marker, segment in _segments(content, 2):
        if marker in _FRAMES:
            progressive = marker == _PROGRESSIVE
            missing = {name: [1] * _COEFFICIENTS for name in segment[6::3]}
        elif marker == _SCAN:
            first, last, bits = segment[-3:] if progressive else (0, _COEFFICIENTS - 1, 0)
            last = min(last, _COEFFICIENTS - 1)
            for name in missing.keys() & set(segment[1 : 1 + 2 * segment[0] : 2]):
                missing[name][first : last + 1] = [bits & 15] * (last + 1 - first)
            if not any(any(bits) for bits in missing.values()):
                return
    if any(any(bits) for bits in missing.values()):
        raise TruncatedPicture(
            "the picture's bytes end early (the last of its scans are missing); send the whole file again"
        )
