"""The picture rule: from the bytes of a picture to the pixels a model sees, the same on every side.

The same bytes and rule give the same pixels. What is done, in this order:

1. the format is recognized by content, never by name: JPEG, PNG, WebP, HEIC, AVIF, or a photograph in a DICOM
   file (`registry.bundle.pictures.dicom`), nothing else;
2. the number of pixels is read from the header, and refused above the ceiling before any is decoded;
3. a JPEG is decoded at the smallest of 1/1, 1/2, 1/4, 1/8 that is no smaller than asked (`draft`);
4. a picture whose bytes end early is refused, never filled with grey;
5. transparency is laid over white; palettes, greys, 16-bit greys and CMYK become RGB;
6. antialiased resizing to a square, bilinear or bicubic;
7. colours become those of sRGB by the picture's own colour profile, or by what it declares in another way
   (`registry.bundle.pictures.declared`), after resizing: that costs half a millisecond, and of a hundred
   numbers 99 are the same or one off. Colours that are not converted are no reason to refuse a picture: they
   are taken as sRGB, and `unused_profile` says so;
8. the turn with which browsers show it.

An animated picture is refused: which frame was meant is not ours to guess. The further pictures that phones
put into a JPEG or HEIC (thumbnails, depth) are ignored.

`placement` is the way back: the part of a picture, as it was sent, that a model saw. A map of where it looked
becomes a transparent PNG to lay over the whole picture, whatever its size (`relevance`, `overlay_png`): each
cell as a share of the strongest one, and no pixel of the picture, no text and no metadata.
"""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, JpegImagePlugin
from pydantic import Field, SerializerFunctionWrapHandler, field_validator, model_serializer

from registry.bundle.errors import PictureTooLarge, UnsupportedPicture
from registry.bundle.frozen import Frozen
from registry.bundle.pictures.colours import Conversion, ProfileNotUsed, conversion_of
from registry.bundle.pictures.declared import DECODER_ERRORS, Declared
from registry.bundle.pictures.jpeg import load_jpeg
from registry.bundle.pictures.open_file import open_picture, refusal

PICTURE_VERSION = 3
"""Raised whenever the same bytes would give other pixels: a model is tied to what it was trained on."""

Interpolation = Literal["bilinear", "bicubic"]


class PictureRule(Frozen):
    """How a picture becomes pixels.

    Attributes:
        size: pixels on both sides of what the model sees.
        fit: `squash` scales both sides to `size`; `crop` scales the shorter one and cuts the centre.
        draft: let the JPEG decoder scale down by itself: five times as fast, other pixels.
        interpolation: how pixels are weighed when a picture is resized.
        max_pixels: the largest picture that is decoded, in pixels (width times height).
        version: the version of this function that the pixels come from.
    """

    size: int = Field(ge=8, le=2048)
    fit: Literal["squash", "crop"] = "squash"
    interpolation: Interpolation = "bilinear"
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

    @model_serializer(mode="wrap")
    def _as_older_rules_are_written(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        plain: dict[str, Any] = handler(self)
        if self.interpolation == "bilinear":
            plain.pop("interpolation", None)
        return plain


def decode_picture(content: bytes, rule: PictureRule, frame: int | None = None) -> NDArray[np.uint8]:
    """Decodes a picture to the pixels that a model sees, `(size, size, 3)` RGB; `frame` as `open_picture`.

    Raises:
        NotAPicture: the bytes are no picture.
        UnsupportedPicture: a picture, but of no format that is read here, or an animated one; a DICOM file
            that holds no photograph.
        PictureTooLarge: more pixels than `rule.max_pixels`; nothing was decoded.
        TruncatedPicture: the bytes end before the picture does.
        DamagedPicture: the bytes do not decode.
    """
    return decode_opened(open_picture(content, frame), rule)


def decode_opened(image: Image.Image, rule: PictureRule) -> NDArray[np.uint8]:
    """Decodes an opened picture as `decode_picture`; the image is used up by it.

    Raises:
        UnsupportedPicture, PictureTooLarge, TruncatedPicture, DamagedPicture: likewise.
    """
    refuse_too_large(image.width, image.height, rule)
    # A JPEG or HEIC with more pictures is a photograph with its thumbnails; the others are animations.
    if getattr(image, "is_animated", False) and image.format not in ("JPEG", "MPO", "HEIF"):
        raise UnsupportedPicture("the picture is animated; send the one frame that is meant")
    if rule.draft:
        image.draft("RGB", (rule.size, rule.size))
    conversion, _ = _conversion(image)
    loaded = _loaded(image)
    inks = conversion is not None and conversion.mode == "CMYK"
    square = (loaded if inks else _rgb(loaded)).resize(
        (rule.size, rule.size),
        _RESAMPLING[rule.interpolation],
        box=_box(image.size, rule.fit),
        reducing_gap=2.0,
    )
    if conversion is not None:
        square = conversion.apply(square.convert(conversion.mode))
    turn = _TURNS.get(image.info["declared"].turn)
    upright = square if turn is None else square.transpose(turn)
    return np.array(upright.convert("RGB"), dtype=np.uint8)


def lies_on_its_side(image: Image.Image) -> bool:
    """Whether an opened picture is looked at with its sides exchanged, by the turn that it declares."""
    return _TURNS.get(image.info["declared"].turn) in _ON_ITS_SIDE


def unused_profile(image: Image.Image) -> str | None:
    """Why the colours of an opened picture are not converted as it declares them; None where they are.

    It may be asked before or after decoding.
    """
    return _conversion(image)[1]


def _conversion(image: Image.Image) -> tuple[Conversion | None, str | None]:
    """The conversion of an opened picture, if it needs one, or why its colours are not known."""
    said: Declared = image.info["declared"]
    try:
        return conversion_of(image, said.profile), said.unused
    except ProfileNotUsed as error:
        return None, f"it has a colour profile that cannot be used: {error}"


def refuse_too_large(width: int, height: int, rule: PictureRule) -> None:
    """Refuses a picture of so many pixels that the rule does not let it be decoded.

    Raises:
        PictureTooLarge: saying how many there are, and how many are accepted.
    """
    pixels = width * height
    if pixels > rule.max_pixels:
        raise PictureTooLarge(
            f"the picture has {width} x {height} = {pixels:,} pixels; at most {rule.max_pixels:,} are "
            "accepted. Send a smaller copy"
        )


_RESAMPLING = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}

_ON_ITS_SIDE = (
    Image.Transpose.TRANSPOSE,
    Image.Transpose.ROTATE_270,
    Image.Transpose.TRANSVERSE,
    Image.Transpose.ROTATE_90,
)

# Rows of a transparent picture that are laid over white at once.
_STRIP = 256

_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def _loaded(image: Image.Image) -> Image.Image:
    """The picture with its pixels.

    Raises:
        TruncatedPicture, DamagedPicture: they end early, or do not decode.
    """
    try:
        if isinstance(image, JpegImagePlugin.JpegImageFile):
            return load_jpeg(image)
        image.load()
    except DECODER_ERRORS as error:
        raise refusal(error) from error
    return image


def _rgb(image: Image.Image) -> Image.Image:
    """Every mode that pictures come in, as RGB, or as RGBX, whose fourth channel is nothing."""
    if image.mode in ("RGB", "RGBX") and "transparency" not in image.info:
        return image
    if image.mode.startswith("I"):  # 16 bits of grey: keep the upper eight
        deep = np.asarray(image).astype(np.int64)
        if "transparency" in image.info:
            deep = np.where(deep == image.info["transparency"], 0xFFFF, deep)
        return Image.fromarray((deep >> 8).clip(0, 255).astype(np.uint8)).convert("RGB")
    if _is_transparent(image):
        return _over_white(image)
    return image.convert("RGB")


def _is_transparent(image: Image.Image) -> bool:
    return image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info


def _over_white(image: Image.Image) -> Image.Image:
    """A transparent picture over white paper."""
    over = Image.new("RGB", image.size)
    for top, strip in _strips(image):
        paper = Image.new("RGBA", strip.size, (255, 255, 255, 255))
        over.paste(Image.alpha_composite(paper, strip).convert("RGB"), (0, top))
    return over


def _strips(image: Image.Image) -> Iterator[tuple[int, Image.Image]]:
    """A transparent picture as RGBA, a strip at a time with its first row: a large copy would not fit."""
    for top in range(0, image.height, _STRIP):
        part = image.crop((0, top, image.width, min(top + _STRIP, image.height)))
        if "transparency" in image.info:
            part.info["transparency"] = image.info["transparency"]
        yield top, part.convert("RGBA")


def transparent_share(image: Image.Image) -> float:
    """The share of a decoded picture's pixels that are more transparent than not, from 0 to 1."""
    if not _is_transparent(image):
        return 0.0
    if image.mode.startswith("I"):
        return float((np.asarray(image) == image.info["transparency"]).mean())
    clear = sum(sum(strip.getchannel("A").histogram()[:128]) for _, strip in _strips(image))
    return clear / (image.width * image.height)


def _box(size: tuple[int, int], fit: Literal["squash", "crop"]) -> tuple[float, float, float, float]:
    """The part of the picture that is kept: left, upper, right, lower, in pixels."""
    width, height = size
    if fit == "squash":
        return (0.0, 0.0, float(width), float(height))
    edge = min(width, height)
    left, upper = (width - edge) / 2, (height - edge) / 2
    return (left, upper, left + edge, upper + edge)


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
