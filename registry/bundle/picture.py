"""From the bytes of a picture to the pixels a model sees: one function, the same on every side.

The same bytes and rule give the same pixels. What is done, in this order:

1. the format is told by content, never by name: JPEG, PNG or WebP, nothing else;
2. the number of pixels is read from the header, and refused above the ceiling before any is decoded;
3. a JPEG is decoded at the smallest of 1/1, 1/2, 1/4, 1/8 that is no smaller than asked (`draft`);
4. a picture whose bytes end early is refused, never filled with grey;
5. transparency is laid over white; palettes, greys, 16-bit greys and CMYK become RGB. Colour
   profiles are not applied;
6. antialiased resizing to a square, then the turn that EXIF asks for. EXIF that cannot be read is
   no reason to refuse a picture: it is taken as it lies.

An animated PNG or WebP is refused: which frame was meant is not ours to guess. The further pictures
that phones append to a JPEG (thumbnails, depth) are ignored.
"""

import io
import struct
import zlib
from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, JpegImagePlugin, PngImagePlugin, WebPImagePlugin
from PIL.ImageFile import ImageFile
from pydantic import Field, field_validator

from registry.bundle.errors import (
    DamagedPicture,
    NotAPicture,
    PictureTooLarge,
    TruncatedPicture,
    UnsupportedPicture,
)
from registry.bundle.frozen import Frozen

PICTURE_VERSION = 1
"""Raised whenever the same bytes would give other pixels: a model is tied to what it was trained on."""


class PictureRule(Frozen):
    """How a picture becomes pixels.

    Attributes:
        size: pixels on both sides of what the model sees.
        fit: `squash` scales both sides to `size`; `crop` scales the shorter one and cuts the centre.
        draft: let the JPEG decoder scale down by itself: five times as fast, other pixels.
        max_pixels: the largest picture that is decoded, in pixels (width times height).
        version: the version of this function that the pixels come from.
    """

    size: int = Field(ge=8, le=2048)
    fit: Literal["squash", "crop"] = "squash"
    draft: bool = True
    max_pixels: int = Field(50_000_000, ge=1)
    version: int = PICTURE_VERSION

    @field_validator("version")
    @classmethod
    def _one_we_have(cls, version: int) -> int:
        if version != PICTURE_VERSION:
            raise ValueError(
                f"picture version {version} is not one this dermfed can make; it makes version "
                f"{PICTURE_VERSION}. Use the dermfed that wrote the rule"
            )
        return version


def decode_picture(content: bytes, rule: PictureRule) -> NDArray[np.uint8]:
    """The pixels that a model sees, `(size, size, 3)` RGB.

    Raises:
        NotAPicture: the bytes are no picture.
        UnsupportedPicture: a picture, but not JPEG, PNG or WebP, or an animated one.
        PictureTooLarge: more pixels than `rule.max_pixels`; nothing was decoded.
        TruncatedPicture: the bytes end before the picture does.
        DamagedPicture: the bytes do not decode.
    """
    _refuse_early_end(content)
    image = _open(content)
    pixels = image.width * image.height
    if pixels > rule.max_pixels:
        raise PictureTooLarge(
            f"the picture has {image.width} x {image.height} = {pixels:,} pixels; at most "
            f"{rule.max_pixels:,} are accepted. Send a smaller copy"
        )
    if getattr(image, "is_animated", False) and isinstance(
        image, PngImagePlugin.PngImageFile | WebPImagePlugin.WebPImageFile
    ):
        raise UnsupportedPicture("the picture is animated; send the one frame that is meant")
    if rule.draft:
        image.draft("RGB", (rule.size, rule.size))
    try:
        image.load()
    except _DECODER_ERRORS as error:
        raise _damage(error) from error
    square = _rgb(image).resize(
        (rule.size, rule.size), Image.Resampling.BILINEAR, box=_box(image.size, rule.fit), reducing_gap=2.0
    )
    turn = _turn(image)
    return np.array(square if turn is None else square.transpose(turn), dtype=np.uint8)


# What Pillow's decoders raise on bytes that somebody else chose.
_DECODER_ERRORS = (
    OSError,
    SyntaxError,
    ValueError,
    TypeError,
    IndexError,
    KeyError,
    EOFError,
    OverflowError,
    ZeroDivisionError,
    AttributeError,
    struct.error,
    zlib.error,
)

_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}

# Pictures that people do send, told apart from bytes that are no picture at all.
_REFUSED_FORMATS: tuple[tuple[int, bytes, str], ...] = (
    (0, b"GIF8", "GIF"),
    (0, b"BM", "BMP"),
    (0, b"II*\x00", "TIFF"),
    (0, b"MM\x00*", "TIFF"),
    (4, b"ftypheic", "HEIC"),
    (4, b"ftypmif1", "HEIF"),
    (4, b"ftypavif", "AVIF"),
    (0, b"\x00\x00\x00\x0cjP  ", "JPEG 2000"),
    (128, b"DICM", "DICOM"),
    (0, b"%PDF", "PDF"),
)


def _open(content: bytes) -> ImageFile:
    """The picture with its header read and nothing decoded.

    Pillow's plugins are called by name rather than through `Image.open`, which would warn about
    large pictures: a process-wide affair, while the ceiling here belongs to the rule.
    """
    reader = _reader(content)
    try:
        return reader(io.BytesIO(content))
    except _DECODER_ERRORS as error:
        raise _damage(error) from error


def _reader(content: bytes) -> Callable[[io.BytesIO], ImageFile]:
    if content.startswith(b"\xff\xd8\xff"):
        return JpegImagePlugin.JpegImageFile
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return PngImagePlugin.PngImageFile
    if content.startswith(b"RIFF") and content[8:12] == b"WEBP":
        return WebPImagePlugin.WebPImageFile
    for offset, magic, name in _REFUSED_FORMATS:
        if content[offset : offset + len(magic)] == magic:
            raise UnsupportedPicture(
                f"the picture is {name}; JPEG, PNG and WebP are accepted. Convert it first"
            )
    what = "no bytes" if not content else f"{len(content):,} bytes that are no picture"
    raise NotAPicture(f"{what}: JPEG, PNG and WebP are accepted, told by their content and not their name")


def _refuse_early_end(content: bytes) -> None:
    """Refuse what Pillow lets pass, or reports as any damage: a PNG without its end, a WebP cut short."""
    is_png = content.startswith(b"\x89PNG\r\n\x1a\n")
    is_webp = content.startswith(b"RIFF") and content[8:12] == b"WEBP"
    if is_png and b"IEND\xaeB`\x82" not in content:
        raise TruncatedPicture("the PNG's bytes end before its end mark; send the whole file again")
    if is_webp and (promised := 8 + int.from_bytes(content[4:8], "little")) > len(content):
        raise TruncatedPicture(
            f"the WebP has {len(content):,} of the {promised:,} bytes that its header promises; "
            "send the whole file again"
        )


def _damage(error: Exception) -> DamagedPicture:
    if "truncated" in str(error).lower():
        return TruncatedPicture(f"the picture's bytes end early ({error}); send the whole file again")
    return DamagedPicture(f"the picture does not decode ({error}); open it elsewhere and save it anew")


def _rgb(image: Image.Image) -> Image.Image:
    """Every mode the three formats come in, as RGB."""
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if image.mode.startswith("I"):  # 16 bits of grey: keep the upper eight
        return Image.fromarray(
            (np.asarray(image).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8)
        ).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        over = image.convert("RGBA")
        paper = Image.new("RGBA", over.size, (255, 255, 255, 255))
        return Image.alpha_composite(paper, over).convert("RGB")
    return image.convert("RGB")


def _box(size: tuple[int, int], fit: Literal["squash", "crop"]) -> tuple[float, float, float, float]:
    """The part of the picture that is kept: left, upper, right, lower, in pixels."""
    width, height = size
    if fit == "squash":
        return (0.0, 0.0, float(width), float(height))
    edge = min(width, height)
    left, upper = (width - edge) / 2, (height - edge) / 2
    return (left, upper, left + edge, upper + edge)


def _turn(image: Image.Image) -> Image.Transpose | None:
    try:
        return _TURNS.get(image.getexif().get(ExifTags.Base.Orientation, 1))
    except _DECODER_ERRORS:
        return None
