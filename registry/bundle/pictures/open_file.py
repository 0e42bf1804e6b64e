"""Opens untrusted bytes as a picture: detects the format, reads the header, and names what is wrong.

Only the header is read here. Pillow's readers are called by name rather than through `Image.open`,
which would try other formats too and warn about large pictures: a process-wide affair, while the
ceiling belongs to the picture rule.
"""

import io
import struct
import zlib
from collections.abc import Callable, Mapping
from typing import Literal

from PIL import Image, JpegImagePlugin, PngImagePlugin, WebPImagePlugin

from registry.bundle.errors import (
    DamagedPicture,
    NotAPicture,
    PictureError,
    PictureTooLarge,
    TruncatedPicture,
    UnsupportedPicture,
)
from registry.bundle.pictures.dicom import open_dicom

DECODER_ERRORS = (
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
    Image.DecompressionBombError,
)
"""What Pillow's decoders raise on bytes that are not what they seem."""

Format = Literal["JPEG", "PNG", "WebP", "DICOM"]


_READERS: Mapping[Format, Callable[[bytes], Image.Image]] = {
    "JPEG": lambda content: JpegImagePlugin.JpegImageFile(io.BytesIO(content)),
    "PNG": lambda content: PngImagePlugin.PngImageFile(io.BytesIO(content)),
    "WebP": lambda content: WebPImagePlugin.WebPImageFile(io.BytesIO(content)),
    "DICOM": open_dicom,
}

_PNG_END = b"IEND\xaeB`\x82"

# The preamble of a DICOM file belongs to whoever wrote it: empty, it cannot be another file's beginning.
_DICOM = bytes(128) + b"DICM"


def _convert(suffix: str) -> str:
    return f"convert it to JPEG or PNG, e.g. with `magick in.{suffix} out.jpg`"


_PHONE = f"{_convert('heic')}, and set the phone to its most compatible format"
_RAW = "develop it to JPEG or PNG, e.g. with `darktable-cli in.raw out.jpg` or the camera's own program"
_TIFF_OR_RAW = "TIFF, or a camera's raw file of its kind"
_HEIC = tuple(b"ftyp" + brand for brand in b"heic heix heim heis hevc hevx hevm hevs".split())
_FILMS = tuple(b"ftyp" + brand for brand in (b"iso", b"mp4", b"qt", b"3gp", b"M4V", b"avc"))

# Files that people do send: where their first bytes are, how they may begin, what they are, and what to do
# with them. The first that fits is taken.
_Kinds = tuple[tuple[int, tuple[bytes, ...], str, str], ...]
_OTHER_PICTURES: _Kinds = (
    (0, (b"GIF8",), "GIF", _convert("gif")),
    (0, (b"BM",), "BMP", _convert("bmp")),
    (8, (b"CR\x02",), "a camera's raw file (CR2)", _RAW),
    (0, (b"II*\x00", b"MM\x00*"), _TIFF_OR_RAW, _convert("tif")),
    (0, (b"II+\x00", b"MM\x00+"), "TIFF", _convert("tif")),
    (4, _HEIC, "HEIC", _PHONE),
    (4, (b"ftypmif1", b"ftypmif2", b"ftypmsf1"), "HEIF", _PHONE),
    (4, (b"ftypavif", b"ftypavis"), "AVIF", _convert("avif")),
    (4, (b"ftypcrx",), "a camera's raw file (CR3)", _RAW),
    (0, (b"FUJIFILMCCD-RAW",), "a camera's raw file (RAF)", _RAW),
    (0, (b"IIRO",), "a camera's raw file (ORF)", _RAW),
    (0, (b"IIU\x00",), "a camera's raw file (RW2)", _RAW),
    (0, (b"\x00\x00\x00\x0cjP  ",), "JPEG 2000", _convert("jp2")),
    (0, (b"\xffO\xffQ",), "JPEG 2000", _convert("j2k")),
    (0, (b"\x00\x00\x00\x0cJXL ", b"\xff\x0a"), "JPEG XL", _convert("jxl")),
    (0, (b"8BPS",), "a Photoshop file (PSD)", _convert("psd")),
    (0, (b"%PDF",), "PDF", "take the picture out of it, e.g. with `pdfimages -all in.pdf out`"),
)
_NO_PICTURES: _Kinds = (
    (4, _FILMS, "a film", "take the one picture out of it that is meant"),
    (
        0,
        (b"\x00\x05\x16\x07",),
        "what a Mac keeps beside a file (AppleDouble)",
        "name the picture itself",
    ),
    (
        0,
        (b"<!DOCTYPE", b"<!doctype", b"<html", b"<HTML"),
        "a web page",
        "it was saved in place of the picture, as where one is not let in: fetch it again",
    ),
    (0, (b"PK\x03\x04",), "a zip file or an Office document", "take the picture out of it"),
)


def open_picture(content: bytes) -> Image.Image:
    """Opens a picture: its header is read, and nothing decoded.

    Raises:
        NotAPicture: the bytes are no picture.
        UnsupportedPicture: a picture, but not JPEG, PNG or WebP, nor a photograph in a DICOM file; or one,
            and the extra `dicom` is not installed.
        PictureTooLarge: so many pixels that Pillow will not look further.
        TruncatedPicture: the bytes end before the picture does, as far as can be detected without decoding.
        DamagedPicture: the header does not decode.
    """
    kind = picture_format(content)
    _refuse_early_end(content, kind)
    try:
        return _READERS[kind](content)
    except DECODER_ERRORS as error:
        raise refusal(error) from error


def refusal(error: Exception) -> PictureError:
    """The `PictureError` for a decoder's exception."""
    if isinstance(error, Image.DecompressionBombError):
        return PictureTooLarge(f"the picture has too many pixels ({error}); send a smaller copy")
    if "truncated" in str(error).lower():
        return TruncatedPicture(f"the picture's bytes end early ({error}); send the whole file again")
    return DamagedPicture(f"the picture does not decode ({error}); open it elsewhere and save it anew")


def picture_format(content: bytes) -> Format:
    """The format of the bytes among those accepted, by their first bytes.

    Raises:
        NotAPicture: the bytes are no picture.
        UnsupportedPicture: a picture, but not JPEG, PNG, WebP or DICOM.
    """
    if content.startswith(b"\xff\xd8\xff"):
        return "JPEG"
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return "PNG"
    if content.startswith(b"RIFF") and content[8:12] == b"WEBP":
        return "WebP"
    if content.startswith(_DICOM):
        return "DICOM"
    for error, kinds in ((UnsupportedPicture, _OTHER_PICTURES), (NotAPicture, _NO_PICTURES)):
        for offset, starts, name, what_to_do in kinds:
            if content.startswith(starts, offset):
                raise error(
                    f"the picture is {name}, which is not read; JPEG, PNG and WebP are accepted: {what_to_do}"
                )
    if content[128:132] == _DICOM[128:]:
        raise UnsupportedPicture(
            "the file is DICOM, but its preamble is not empty and may be another file's beginning; write it "
            "anew with a preamble of 128 zeros"
        )
    found = f"{len(content):,} bytes that are no picture" if content else "no bytes at all"
    raise NotAPicture(f"{found}: JPEG, PNG and WebP are accepted, told by their content and not their name")


def _refuse_early_end(content: bytes, kind: Format) -> None:
    """Refuse what Pillow lets pass, or reports as any damage: a PNG without its end, a WebP cut short."""
    if kind == "PNG" and _PNG_END not in content:
        raise TruncatedPicture("the PNG's bytes end before its end mark; send the whole file again")
    if kind == "WebP" and (promised := 8 + int.from_bytes(content[4:8], "little")) > len(content):
        raise TruncatedPicture(
            f"the WebP has {len(content):,} of the {promised:,} bytes that its header promises; send the "
            "whole file again"
        )
