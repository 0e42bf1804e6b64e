"""Opens untrusted bytes as a picture: detects the format, reads the header, and names what is wrong.

Only the header is read here. Pillow's readers are called by name rather than through `Image.open`,
which would try other formats too and warn about large pictures: a process-wide affair, while the
ceiling belongs to the picture rule.
"""

import io
from collections.abc import Callable, Mapping
from typing import Final, Literal

from PIL import AvifImagePlugin, Image, JpegImagePlugin, PngImagePlugin, WebPImagePlugin

from registry.bundle.errors import (
    DamagedPicture,
    NotAPicture,
    PictureError,
    PictureTooLarge,
    TruncatedPicture,
    UnsupportedPicture,
)
from registry.bundle.pictures.declared import DECODER_ERRORS, declared, heif_boxes, png_chunks
from registry.bundle.pictures.dicom import is_dicom, open_dicom

Format = Literal["JPEG", "PNG", "WebP", "HEIC", "AVIF", "DICOM"]
ACCEPTED: Final = "JPEG, PNG, WebP, HEIC, AVIF and DICOM"
HEIC_EXTRA: Final = 'pip install "dermfed[heic]"'
"""The command that installs the decoder of HEIC."""

AvifImagePlugin.DEFAULT_MAX_THREADS = 1  # as every other format is decoded


def _open_heic(content: bytes) -> Image.Image:
    try:
        import pi_heif
    except ImportError as error:
        raise UnsupportedPicture(
            f"the picture is HEIC, which is read where the extra `heic` is installed ({HEIC_EXTRA}); without "
            f"it, {_PHONE}"
        ) from error
    pi_heif.options.DECODE_THREADS = 1
    image: Image.Image = pi_heif.HeifImageFile(io.BytesIO(content))
    return image


_READERS: Mapping[Format, Callable[[bytes], Image.Image]] = {
    "JPEG": lambda content: JpegImagePlugin.JpegImageFile(io.BytesIO(content)),
    "PNG": lambda content: PngImagePlugin.PngImageFile(io.BytesIO(content)),
    "WebP": lambda content: WebPImagePlugin.WebPImageFile(io.BytesIO(content)),
    "HEIC": _open_heic,
    "AVIF": lambda content: AvifImagePlugin.AvifImageFile(io.BytesIO(content)),
}

_PNG_END = b"IEND\xaeB`\x82"


def _convert(suffix: str) -> str:
    return f"convert it to JPEG or PNG, e.g. with `magick in.{suffix} out.jpg`"


_PHONE = f"{_convert('heic')}, and set the phone to its most compatible format"
_RAW = "develop it to JPEG or PNG, e.g. with `darktable-cli in.raw out.jpg` or the camera's own program"
_TIFF_OR_RAW = "TIFF, or a camera's raw file of its kind"
_HEIC, _AVIF = frozenset((b"heic", b"heix", b"heim", b"heis")), frozenset((b"avif",))
_MOVING = frozenset(b"hevc hevx hevm hevs msf1 avis".split())
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
    (4, (b"ftypmif1", b"ftypmif2"), "HEIF of a kind that is not HEIC", _PHONE),
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


def open_picture(content: bytes, frame: int | None = None) -> Image.Image:
    """Opens a picture: its header is read, and nothing decoded.

    Args:
        content: its bytes.
        frame: which frame of a DICOM file that holds several, counted from 1.

    Raises:
        NotAPicture: the bytes are no picture.
        UnsupportedPicture: a picture, but of none of these formats; or HEIC or DICOM, and the extra `heic`
            or `dicom` is not installed.
        PictureTooLarge: so many pixels that Pillow will not look further.
        TruncatedPicture: the bytes end before the picture does, as far as can be detected without decoding.
        DamagedPicture: the header does not decode.
    """
    kind = picture_format(content)
    _refuse_early_end(content, kind)
    try:
        image = open_dicom(content, frame) if kind == "DICOM" else _READERS[kind](content)
        image.info["declared"] = declared(image, content, kind)
        return image
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
        UnsupportedPicture: a picture, but of none of these formats.
    """
    if content.startswith(b"\xff\xd8\xff"):
        return "JPEG"
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return "PNG"
    if content.startswith(b"RIFF") and content[8:12] == b"WEBP":
        return "WebP"
    if is_dicom(content):  # its preamble may be another file's beginning, such as TIFF's
        return "DICOM"
    if content[4:8] == b"ftyp" and (kind := _of_brands(content)):
        return kind
    for error, kinds in ((UnsupportedPicture, _OTHER_PICTURES), (NotAPicture, _NO_PICTURES)):
        for offset, starts, name, what_to_do in kinds:
            if content.startswith(starts, offset):
                raise error(
                    f"the picture is {name}, which is not read; {ACCEPTED} are accepted: {what_to_do}"
                )
    found = f"{len(content):,} bytes that are no picture" if content else "no bytes at all"
    raise NotAPicture(f"{found}: {ACCEPTED} are accepted, told by their content and not their name")


def _of_brands(content: bytes) -> Format | None:
    """HEIC or AVIF by the brands in the first box of a HEIF file; None for any other file of such boxes.

    Raises:
        UnsupportedPicture: it is made to be shown as a sequence.
    """
    length = min(int.from_bytes(content[:4], "big"), 256)
    brands = [content[at : at + 4] for at in (8, *range(16, length, 4))]
    if brands[0] in _MOVING:
        raise UnsupportedPicture("the picture is a sequence (HEIF); send the one frame that is meant")
    if any(brand in _HEIC for brand in brands):
        return "HEIC"
    return "AVIF" if any(brand in _AVIF for brand in brands) else None


def _refuse_early_end(content: bytes, kind: Format) -> None:
    """Refuse what decoders let pass, or report as any damage: a PNG without its end, others cut short."""
    if kind == "PNG" and content[25:26] == b"\3" and all(name != b"PLTE" for name, _ in png_chunks(content)):
        raise DamagedPicture("the PNG names colours of a palette, and has none; save the picture again")
    promised = max(end for _, _, end in heif_boxes(content)) if kind in ("HEIC", "AVIF") else 0
    if promised > len(content):
        raise TruncatedPicture(
            f"the {kind} has {len(content):,} of the {promised:,} bytes that its boxes promise; send the "
            "whole file again"
        )
    if kind == "PNG" and _PNG_END not in content:
        raise TruncatedPicture("the PNG's bytes end before its end mark; send the whole file again")
    if kind == "WebP" and (promised := 8 + int.from_bytes(content[4:8], "little")) > len(content):
        raise TruncatedPicture(
            f"the WebP has {len(content):,} of the {promised:,} bytes that its header promises; send the "
            "whole file again"
        )
