"""Photographs in DICOM files, read by pydicom: one frame of a file as a Pillow image.

Accepted are visible-light photographs, dermoscopic and microscopic ones, and secondary captures; as they are
(explicit or implicit VR, little endian), deflated, or compressed by JPEG, JPEG-LS, JPEG 2000 or run lengths.
pydicom walks the data elements; their lengths are compared with the bytes there are, and they rise in tag, as
the standard asks. Of their values those that describe the pixels are read, each strictly in its own
representation, and no other: nothing about the patient is. A hostile file can make pydicom and its decoders
take gigabytes: the service reads it in a worker that has limits on memory and time, and `is_dermoscopic`
stops at the first sequence.

A JPEG goes the way of every JPEG, a baseline one with draft mode. All other pixels are unpacked by pydicom's
decoders, once the picture rule's ceiling has been compared with Rows and Columns. The lowest `BitsStored`
bits are the sample; of more than eight the upper eight are kept, as of a deep PNG. YCbCr becomes RGB by the
equations of JPEG, a palette the colours that it names; MONOCHROME1 is white where it is 0. Windows are not
applied. The file's colour profile goes where Pillow keeps that of other files, and before that of a JPEG.

pydicom and its decoders come with the extra `dicom`, and are imported when the first such file is opened.
"""

import io
import logging
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image, JpegImagePlugin

from registry.bundle.errors import (
    DamagedPicture,
    PictureError,
    PictureTooLarge,
    TruncatedPicture,
    UnsupportedPicture,
)
from registry.bundle.pictures.jpeg import load_jpeg

IMPLICIT, EXPLICIT, DEFLATED, JPEG = (
    *("1.2.840.10008.1.2", "1.2.840.10008.1.2.1", "1.2.840.10008.1.2.1.99", "1.2.840.10008.1.2.4.50"),
)
RUN_LENGTHS: Final = "1.2.840.10008.1.2.5"
JPEGS: Final = (JPEG, *(f"1.2.840.10008.1.2.4.{last}" for last in (51, 57, 70)))
JPEG_2000: Final = tuple(f"1.2.840.10008.1.2.4.{last}" for last in (90, 91, 201, 202, 203))

TRANSFER_SYNTAXES: Final = {
    IMPLICIT: "Implicit VR Little Endian",
    EXPLICIT: "Explicit VR Little Endian",
    DEFLATED: "Deflated Explicit VR Little Endian",
    JPEG: "JPEG Baseline (Process 1)",
    "1.2.840.10008.1.2.4.51": "JPEG Extended (Process 2 and 4)",
    "1.2.840.10008.1.2.4.57": "JPEG Lossless (Process 14)",
    "1.2.840.10008.1.2.4.70": "JPEG Lossless (Process 14, Selection Value 1)",
    "1.2.840.10008.1.2.4.80": "JPEG-LS Lossless",
    "1.2.840.10008.1.2.4.81": "JPEG-LS Near-Lossless",
    **dict(
        zip(JPEG_2000, ("JPEG 2000 Lossless", "JPEG 2000", *("High-Throughput JPEG 2000",) * 3), strict=True)
    ),
    RUN_LENGTHS: "RLE Lossless",
}
"""The transfer syntaxes that are accepted."""

_UNPACKED_BY: Final = {
    **dict.fromkeys((IMPLICIT, EXPLICIT, DEFLATED), ""),
    **dict.fromkeys(JPEG_2000, "pylibjpeg"),
    **{"1.2.840.10008.1.2.4.80": "pyjpegls", "1.2.840.10008.1.2.4.81": "pyjpegls", RUN_LENGTHS: "pydicom"},
}
"""pydicom's plugin for each; a JPEG of any kind is libjpeg's, which tells what is missing of it."""

UNDEFINED: Final = 0xFFFFFFFF
"""The length of an element that ends with a mark, and a tag behind all others."""

WAY_OUT: Final = "Export it as JPEG or PNG"

_PALETTE: Final = tuple(
    f"{colour}PaletteColorLookupTable{part}"
    for part in ("Descriptor", "Data")
    for colour in ("Red", "Green", "Blue")
)
_WANTED: Final = (
    *(
        "SOPClassUID",
        "BurnedInAnnotation",
        "ColorSpace",
        *_PALETTE,
        "SamplesPerPixel",
        "PhotometricInterpretation",
        "PlanarConfiguration",
        "NumberOfFrames",
    ),
    *("Rows", "Columns", "BitsAllocated", "BitsStored", "HighBit", "PixelRepresentation"),
    *("ICCProfile", "PixelData"),
)
_PREAMBLE: Final = 132  # bytes before the first element: 128 of the preamble and `DICM`
_UID: Final = re.compile(r"(0|[1-9]\d*)(\.(0|[1-9]\d*))*", re.ASCII)


class Elements:
    """Data elements by keyword; pydicom leaves their values as they lie in the file."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}

    def walk(self, file: io.BytesIO, *, explicit: bool, until: int, sequences: bool = True) -> None:
        """Adds the wanted ones of a data set.

        Args:
            file: at the first of them, and afterwards behind the last.
            explicit: whether elements say their value representation.
            until: the last tag that is walked.
            sequences: whether to go on behind a sequence that does not say how long it is.

        Raises:
            DamagedPicture: it is no data set.
            TruncatedPicture: it ends early.
            UnsupportedPicture: sequences are nested deeper than Python calls functions.
        """
        from pydicom.datadict import keyword_for_tag, tag_for_keyword
        from pydicom.filereader import data_element_generator

        size, last, end = len(file.getbuffer()), -1, -1

        def stop(tag: int, _: str | None, length: int) -> bool:
            nonlocal last, end
            if tag > until or (length == UNDEFINED and not sequences):
                return True
            if tag <= last:
                raise DamagedPicture(
                    f"the DICOM file's element {_text(tag)} stands where it must not; write the file anew"
                )
            last, end = tag, size if length == UNDEFINED else file.tell() + length
            if end > size:
                raise TruncatedPicture(
                    f"the DICOM file's element {_text(tag)} promises {length:,} bytes, and "
                    f"{size - file.tell():,} follow; send the whole file again"
                )
            return False

        tags = [tag_for_keyword(name) for name in ("TransferSyntaxUID", *_WANTED)]
        try:
            for one in data_element_generator(file, not explicit, True, stop, specific_tags=tags):
                self.found[keyword_for_tag(one.tag)] = one
        except (PictureError, MemoryError):
            raise
        except EOFError as error:
            raise TruncatedPicture("the DICOM file ends early; send the whole file again") from error
        except RecursionError as error:
            raise UnsupportedPicture(
                "the DICOM file nests sequences deeper than any photograph does; write it anew without them"
            ) from error
        except Exception as error:  # of whatever kind; its text may hold a value
            raise DamagedPicture(
                f"the DICOM file cannot be read ({type(error).__name__}); write the file anew"
            ) from error
        if until == UNDEFINED and (file.tell(), end) != (size, size):
            raise TruncatedPicture("the DICOM file ends within an element; send the whole file again")

    def value(self, name: str) -> bytes:
        """The bytes of a value, of the representation that the standard gives it; b"" where it is missing.

        Raises:
            DamagedPicture: it is of another.
        """
        from pydicom.datadict import dictionary_VR

        if (element := self.found.get(name)) is None:
            return b""
        if element.VR not in (*dictionary_VR(name).split(" or "), None) or not isinstance(
            element.value or b"", bytes
        ):
            raise DamagedPicture(
                f"the DICOM file's {named(name)} is not of the value representation {dictionary_VR(name)}; "
                "write it anew"
            )
        return element.value or b""

    def text(self, name: str) -> str:
        """A text, without what pads it; refused where it is missing, as DamagedPicture."""
        if not (value := self.value(name)):
            raise DamagedPicture(
                f"the DICOM file has no {named(name)}; write it anew with all that it must have"
            )
        return value.decode("latin-1").strip(" \0")

    def uid(self, name: str, allowed: Mapping[str, str], how: str) -> str:
        """A UID that is one of these.

        Raises:
            DamagedPicture: it is none, or missing.
            UnsupportedPicture: another.
        """
        from pydicom.uid import UID

        uid = self.text(name)
        if len(uid) > 64 or not _UID.fullmatch(uid):
            raise DamagedPicture(f"the DICOM file's {named(name)} is no UID; write it anew")
        if uid not in allowed:
            title = "something that the standard has no name for" if UID(uid).name == uid else UID(uid).name
            raise UnsupportedPicture(
                f"the DICOM file is {how} {title}; accepted are {', '.join(allowed.values())}. {WAY_OUT}"
            )
        return uid

    def number(self, name: str, expected: int | None = None) -> int:
        """One unsigned number of sixteen bits.

        Raises:
            DamagedPicture: it is none, missing, or not the expected one.
        """
        self.text(name)
        if len(value := self.value(name)) != 2:
            raise DamagedPicture(f"the DICOM file's {named(name)} is not one number; write it anew")
        found = int.from_bytes(value, "little")
        if expected not in (None, found):
            raise DamagedPicture(
                f"the DICOM file's {named(name)} is {found}; with the rest of what it says it is "
                f"{expected}. Write it anew"
            )
        return found

    def pixels(self, frame: int, frames: int, *, packed: bool) -> bytes:
        """The pixels of a frame as they lie in the file, or what they are packed as."""
        from pydicom.encaps import get_frame

        element = self.found.get("PixelData")
        if element is None or element.VR not in ("OB", "OW", None) or not isinstance(element.value, bytes):
            raise DamagedPicture(f"the DICOM file has no {named('PixelData')}. {WAY_OUT}")
        if (element.length == UNDEFINED) != packed:
            raise DamagedPicture(
                "the DICOM file's pixels are not written as its transfer syntax says; write it anew"
            )
        if packed:
            try:
                found: bytes = get_frame(element.value, frame - 1, number_of_frames=frames)
                return found
            except (ValueError, EOFError, IndexError) as error:
                raise DamagedPicture(
                    f"the DICOM file's compressed pixels are not those of {frames} frames; write it anew"
                ) from error
        return bytes(element.value)


_BEGINNINGS: Final = tuple(
    bytes((8, 0, number, 0)) for number in (0, 1, 5, 8, 0x12, 0x16)
)  # of data sets without a head: length of the group, its character set, type, date, class


def is_dicom(content: bytes) -> bool:
    """Whether bytes begin as a DICOM file does: behind a preamble of any kind, or without one."""
    meta = content.startswith((b"\2\0\0\0UL\4\0", b"\2\0\1\0OB", b"\2\0\x10\0UI"))
    return content[128:132] == b"DICM" or meta or (len(content) > 8 and content.startswith(_BEGINNINGS))


def open_data_set(content: bytes, most: int) -> tuple[io.BytesIO, str]:
    """A file at its data set, inflated up to so many bytes; and its transfer syntax."""
    file, meta = io.BytesIO(content), Elements()
    file.seek(_PREAMBLE if content[128:132] == b"DICM" else 0)
    if content.startswith(_BEGINNINGS) and not file.tell():
        return file, EXPLICIT if content[4:6].isalpha() and content[4:6].isupper() else IMPLICIT
    meta.walk(file, explicit=True, until=0x0002FFFF)
    syntax = meta.uid("TransferSyntaxUID", TRANSFER_SYNTAXES, "written as")
    if syntax != DEFLATED:
        return file, syntax
    inflate = zlib.decompressobj(-zlib.MAX_WBITS)
    whole = inflate.decompress(content[file.tell() :], most)
    if not inflate.eof and len(whole) < most:
        raise TruncatedPicture(
            f"the DICOM file ends after {len(whole):,} bytes were inflated; send the whole file again"
        )
    return io.BytesIO(whole), syntax


def named(name: str) -> str:
    """An attribute with its tag, for messages."""
    from pydicom.datadict import tag_for_keyword

    return f"{name} {_text(tag_for_keyword(name) or 0)}"


def _text(tag: int) -> str:
    """A tag as the standard writes it: `(0028,0010)`."""
    return f"({tag >> 16:04X},{tag & 0xFFFF:04X})"


_DERMOSCOPIC: Final = "1.2.840.10008.5.1.4.1.1.77.1.7"
SOP_CLASSES: Final = {
    "1.2.840.10008.5.1.4.1.1.77.1.4": "VL Photographic Image Storage",
    _DERMOSCOPIC: "Dermoscopic Photography Image Storage",
    "1.2.840.10008.5.1.4.1.1.77.1.2": "VL Microscopic Image Storage",
    "1.2.840.10008.5.1.4.1.1.7": "Secondary Capture Image Storage",
    "1.2.840.10008.5.1.4.1.1.7.2": "Multi-frame Grayscale Byte Secondary Capture Image Storage",
    "1.2.840.10008.5.1.4.1.1.7.3": "Multi-frame Grayscale Word Secondary Capture Image Storage",
    "1.2.840.10008.5.1.4.1.1.7.4": "Multi-frame True Color Secondary Capture Image Storage",
}
"""The SOP classes that are accepted. Of which kind pictures of other classes than dermoscopic are, is not "
"said."""

MAX_INFLATED: Final = 2**28
"""Bytes that a deflated file may inflate to; 50 million pixels of RGB have 150,000,000."""

EXTRA: Final = 'pip install "dermfed[dicom]"'
"""The command that installs pydicom."""

_YBR: Final = ("YBR_FULL", "YBR_FULL_422", "YBR_PARTIAL_422", "YBR_PARTIAL_420", "YBR_ICT", "YBR_RCT")
_SAMPLES: Final[Mapping[str, int]] = {
    **{"RGB": 3, "MONOCHROME1": 1, "MONOCHROME2": 1, "PALETTE COLOR": 1},
    **dict.fromkeys(_YBR, 3),
}
_PAIRED: Final = ("YBR_FULL_422", "YBR_PARTIAL_422")
_JPEG_2000_ALONE: Final = ("YBR_ICT", "YBR_RCT", "YBR_PARTIAL_420")  # none of them lies as it is


@dataclass(frozen=True)
class _Frame:
    """One frame of a file, as its header describes it.

    Its `pixels` lie there with those of all frames, `place` being the number of this one and of all; or they
    are what this one is packed as.
    """

    rows: int
    columns: int
    photometric: str
    planar: int
    bits_allocated: int
    bits_stored: int
    pixels: bytes
    place: tuple[int, int]
    syntax: str
    palette: tuple[NDArray[np.uint8], int] | None = None

    @property
    def samples(self) -> int:
        """Of each pixel."""
        return _SAMPLES[self.photometric]


def open_dicom(content: bytes, frame: int | None = None) -> Image.Image:
    """Opens the picture in a DICOM file: its header is read, and nothing decoded.

    Its `info` has the number of `frames`, and `burned_in`: whether the file says that texts are in the
    pixels.

    Args:
        content: the bytes of the file.
        frame: which of several, counted from 1.

    Raises:
        UnsupportedPicture: pydicom is not installed, or a file that holds no photograph, or several frames
            of which none is named.
        DamagedPicture: it lacks what it must have, or contradicts itself.
        TruncatedPicture: it ends early.
        PictureTooLarge: it would inflate to too much.
    """
    _require_pydicom()
    elements = Elements()
    file, syntax = open_data_set(content, MAX_INFLATED)
    if len(file.getbuffer()) == MAX_INFLATED:
        raise PictureTooLarge(f"the deflated DICOM file has more than {MAX_INFLATED:,} bytes. {WAY_OUT}")
    elements.walk(file, explicit=syntax != IMPLICIT, until=UNDEFINED)
    elements.uid("SOPClassUID", SOP_CLASSES, "a")
    frames = _frames(elements)
    found = _described(elements, syntax, _chosen(frame, frames), frames)
    plain = syntax == JPEG and found.photometric not in ("MONOCHROME1", "PALETTE COLOR")
    image = _open_jpeg(found) if plain else _Unpacked(found)
    # Of whatever representation: Pillow finds out whether it is a profile.
    if isinstance(profile := getattr(elements.found.get("ICCProfile"), "value", None), bytes):
        image.info["icc_profile"] = profile
    image.info["color_space"] = elements.value("ColorSpace").strip(b" \0").decode("latin-1")
    image.info["frames"] = frames
    image.info["burned_in"] = elements.value("BurnedInAnnotation").strip(b" \0") == b"YES"
    return image


def _frames(elements: Elements) -> int:
    said = elements.value("NumberOfFrames").strip(b" \0") or b"1"
    if not said.isdigit() or not 0 < int(said) < 2**31:
        raise DamagedPicture(f"the DICOM file's {named('NumberOfFrames')} is no number; write it anew")
    return int(said)


def _chosen(frame: int | None, frames: int) -> int:
    if frame is None and frames > 1:
        raise UnsupportedPicture(
            f"the DICOM file holds {frames} frames; name the one that is meant (`frame`, from 1 to "
            f"{frames}), or ask for all as pictures of one lesion (`frame=all`)"
        )
    if frame is not None and frame > frames:
        raise UnsupportedPicture(
            f"frame {frame} of the DICOM file is asked for, and it holds {frames}; name one from 1 to "
            f"{frames}"
        )
    return frame or 1


def is_dermoscopic(content: bytes) -> bool:
    """Whether this is a DICOM file that says of itself that it is a dermoscopic picture.

    What stands behind its SOP class is not read; of a deflated file 64 KiB are inflated.
    """
    if not is_dicom(content):
        return False
    try:
        _require_pydicom()
        from pydicom.datadict import tag_for_keyword

        elements = Elements()
        file, syntax = open_data_set(content, 2**16)
        until = tag_for_keyword("SOPClassUID") or 0
        elements.walk(file, explicit=syntax != IMPLICIT, until=until, sequences=False)
        return elements.uid("SOPClassUID", SOP_CLASSES, "a") == _DERMOSCOPIC
    except PictureError:
        return False  # whoever decodes it says what is wrong


def _described(elements: Elements, syntax: str, number: int, frames: int) -> _Frame:
    packed = syntax not in (IMPLICIT, EXPLICIT, DEFLATED)
    photometric = elements.text("PhotometricInterpretation")
    if photometric not in _SAMPLES or (photometric in _JPEG_2000_ALONE and not packed):
        raise UnsupportedPicture(
            f"the DICOM file's {named('PhotometricInterpretation')} is not one of {', '.join(_SAMPLES)}, or "
            f"not one that such pixels have. {WAY_OUT}"
        )
    samples = _SAMPLES[photometric]
    allocated, stored = elements.number("BitsAllocated"), elements.number("BitsStored")
    deep = allocated == 16 and 8 <= stored <= 16 and samples == 1 and syntax not in JPEGS
    if not deep and (allocated, stored) != (8, 8):
        raise UnsupportedPicture(
            f"the DICOM file's samples have {stored} of {allocated} bits; accepted are 8 of 8, and 8 to 16 "
            f"of 16 where each pixel has one. {WAY_OUT}"
        )
    elements.number("SamplesPerPixel", samples)
    elements.number("HighBit", stored - 1)
    elements.number("PixelRepresentation", 0)
    planar = elements.number("PlanarConfiguration") if samples > 1 else 0
    rows, columns = elements.number("Rows"), elements.number("Columns")
    paired = photometric in _PAIRED and not packed
    if planar not in (0, 1) or (paired and (planar or columns % 2)) or not rows or not columns:
        raise DamagedPicture(
            f"the DICOM file's Rows ({rows}), Columns ({columns}) and PlanarConfiguration ({planar}) are "
            f"none that {photometric} can have; write it anew"
        )
    pixels = elements.pixels(number, frames, packed=packed)
    palette = _palette(elements) if photometric == "PALETTE COLOR" else None
    place = (number, frames)
    return _Frame(rows, columns, photometric, planar, allocated, stored, pixels, place, syntax, palette)


def _palette(elements: Elements) -> tuple[NDArray[np.uint8], int]:
    """The colours of a palette, `(entries, 3)`, eight bits each, and the number of the first.

    Raises:
        DamagedPicture: it is missing, or contradicts itself.
    """
    columns, first = [], 0
    for descriptor, data in zip(_PALETTE[:3], _PALETTE[3:], strict=True):
        said = np.frombuffer(elements.value(descriptor).ljust(6, b"\0")[:6], "<u2")
        entries, first, bits = int(said[0]) or 65536, int(said[1]), int(said[2])
        values = elements.value(data)
        wide = len(values) >= 2 * entries
        if bits not in (8, 16) or len(values) < entries:
            raise DamagedPicture(
                f"the DICOM file has no whole palette ({named(data)}). Write it anew, or e{WAY_OUT[1:]}"
            )
        column = np.frombuffer(values, "<u2" if wide else np.uint8)[:entries]
        columns.append((column >> 8 if bits == 16 and wide else column).astype(np.uint8))
    if len({len(column) for column in columns}) > 1:
        raise DamagedPicture("the DICOM file's palette has not as many reds, greens and blues; write it anew")
    return np.stack(columns, axis=1), first


def _require_pydicom() -> None:
    try:
        import pydicom.pixels  # noqa: F401 - it may be there in parts
    except ImportError as error:
        raise UnsupportedPicture(
            f"the picture is DICOM, which is read where the extra `dicom` is installed ({EXTRA}); export it "
            "as JPEG or PNG otherwise"
        ) from error
    logging.getLogger("pydicom").setLevel(logging.CRITICAL)  # of files that do not decode it logs traces


class _Unpacked(Image.Image):
    """A picture whose pixels are unpacked when they are first asked for, as Pillow's own files are."""

    format = "DICOM"

    def __init__(self, frame: _Frame) -> None:
        super().__init__()
        self._size = (frame.columns, frame.rows)
        self._mode = "L" if frame.photometric.startswith("MONOCHROME") else "RGB"
        self._packed: _Frame | None = frame

    def load(self) -> Any:
        """Unpacks the pixels, the first time.

        Raises:
            DamagedPicture: they are not as many as there are said to be.
        """
        if self._packed is not None:
            self.im = _picture(self._packed).im
            self._packed = None
        return super().load()


def _picture(frame: _Frame) -> Image.Image:
    """The picture of a frame, L or RGB."""
    found, photometric = _samples(frame)
    if frame.palette is not None:
        colours, first = frame.palette
        places = np.clip(found.astype(np.int64) - first, 0, len(colours) - 1)
        return Image.fromarray(colours[places])
    if frame.bits_allocated == 16 and found.dtype != np.uint8:
        found = found >> (frame.bits_stored - 8) & 0xFF
    pixels = np.ascontiguousarray(found, dtype=np.uint8)
    if photometric == "MONOCHROME1":
        pixels = 255 - pixels
    if photometric.startswith("YBR_PARTIAL"):  # of television: 16 to 235, and colours 16 to 240
        wide = (pixels.astype(np.float32) - (16, 128, 128)) * (255 / 219, 255 / 224, 255 / 224) + (
            0,
            128,
            128,
        )
        pixels = wide.round().clip(0, 255).astype(np.uint8)
    if photometric.startswith("YBR"):
        return Image.fromarray(pixels, "YCbCr").convert("RGB")
    return Image.fromarray(pixels)


def _lying(frame: _Frame) -> bytes:
    """The pixels of a frame of a file that is not compressed.

    Raises:
        DamagedPicture: there are not as many in the file as there are said to be.
    """
    number, frames = frame.place
    length = frame.rows * frame.columns * (2 if frame.photometric in _PAIRED else frame.samples)
    length = length * frame.bits_allocated // 8
    length *= frames
    if len(frame.pixels) not in (length, length + length % 2):  # a byte may make them even
        several = f"{frames} times " if frames > 1 else ""
        raise DamagedPicture(
            f"the DICOM file has {len(frame.pixels):,} bytes of pixels; {several}{frame.columns} x "
            f"{frame.rows} {frame.photometric} has {length:,}. Write the file anew"
        )
    return frame.pixels[length // frames * (number - 1) : length // frames * number]


def _samples(frame: _Frame) -> tuple[NDArray[Any], str]:
    """The samples of a frame, `(rows, columns)` or `(rows, columns, 3)`, and what they are.

    Raises:
        UnsupportedPicture: what unpacks them is not installed.
        TruncatedPicture, DamagedPicture: they do not unpack.
    """
    if frame.syntax in JPEGS:
        loaded = np.asarray(load_jpeg(_open_jpeg(frame)))
        return (loaded[..., :3], "RGB") if frame.samples == 3 else (loaded, frame.photometric)
    from pydicom.encaps import encapsulate
    from pydicom.pixels import get_decoder

    packed = frame.syntax not in (IMPLICIT, EXPLICIT, DEFLATED)
    pixels = encapsulate([frame.pixels]) if packed else _lying(frame)
    paired = not packed and frame.photometric in _PAIRED
    if packed and frame.syntax != RUN_LENGTHS and not frame.pixels.rstrip(b"\0").endswith(b"\xff\xd9"):
        raise TruncatedPicture(
            f"the {TRANSFER_SYNTAXES[frame.syntax]} in the DICOM file ends early; send the whole file again"
        )
    decoder = get_decoder(frame.syntax if packed else EXPLICIT)
    plugin = _UNPACKED_BY[frame.syntax]
    if packed and plugin not in decoder.available_plugins:
        raise UnsupportedPicture(
            f"the DICOM file is written as {TRANSFER_SYNTAXES[frame.syntax]}, which is read where the extra "
            f"`dicom` is installed ({EXTRA}) with {plugin}. {WAY_OUT}"
        )
    try:
        found, said = decoder.as_array(
            pixels,
            index=0,
            raw=True,
            decoding_plugin=plugin,
            rows=frame.rows,
            columns=frame.columns,
            samples_per_pixel=frame.samples,
            # It unpacks pairs of pixels under one of their two names.
            photometric_interpretation="YBR_FULL_422" if paired else frame.photometric,
            planar_configuration=frame.planar,
            bits_allocated=frame.bits_allocated,
            # Which bits are said to be unused is seen to by the caller; pydicom would warn of them.
            bits_stored=frame.bits_stored if packed else frame.bits_allocated,
            number_of_frames=1,
            pixel_representation=0,
            pixel_keyword="PixelData",
        )
    except MemoryError:
        raise
    except Exception as error:  # of whatever kind: the decoders are others'
        raise DamagedPicture(
            f"the pixels in the DICOM file do not decode ({type(error).__name__}); write the file anew"
        ) from error
    return found, frame.photometric if paired else str(said["photometric_interpretation"])


def _open_jpeg(frame: _Frame) -> JpegImagePlugin.JpegImageFile:
    """The JPEG of a frame, if it is what the file says of it."""
    content, samples = frame.pixels, frame.samples
    if not content.startswith(b"\xff\xd8\xff"):
        raise DamagedPicture(
            "the DICOM file's pixels are said to be a JPEG and are none; write the file anew"
        )
    image = JpegImagePlugin.JpegImageFile(io.BytesIO(content))
    if image.size != (frame.columns, frame.rows) or image.layers != samples:
        raise DamagedPicture(
            f"the JPEG in the DICOM file has {image.width} x {image.height} pixels of {image.layers} "
            f"samples; the file says {frame.columns} x {frame.rows} of {samples}. Write it anew"
        )
    # A JPEG of three samples that is marked as YCbCr or RGB is that (PS3.5, 8.2.1). Without a mark the
    # decoder goes by the names of the samples, and libraries differ in what they do.
    if samples == 3 and not image.info.keys() & {"jfif", "adobe_transform"}:
        lossless = frame.syntax not in JPEGS[:2]  # libjpeg takes all of these for RGB
        rgb = lossless or [layer[0] for layer in image.layer] == list(b"RGB")
        if rgb != (frame.photometric == "RGB"):
            raise DamagedPicture(
                f"the DICOM file says that its JPEG is {frame.photometric}; the JPEG does not say so, and "
                "would be taken for something else. Write it anew, or send the JPEG alone"
            )
    return image
