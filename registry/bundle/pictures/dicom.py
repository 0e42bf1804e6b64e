"""Photographs in DICOM files, read by pydicom: the one frame of a file as a Pillow image.

Accepted are VL Photographic and Dermoscopic Photography images of one frame, as they are (explicit or
implicit VR, little endian), deflated, or with a baseline JPEG inside. pydicom walks the data elements; their
lengths are compared with the bytes there are, and they rise in tag, as the standard asks. Of their values
the dozen that describe the pixels are read, each strictly in its own representation, and no other: nothing
about the patient is. A hostile file can make pydicom take gigabytes: the service reads it in a worker that
has limits on memory and time, and `is_dermoscopic` stops at the first sequence.

A JPEG inside goes the way of every JPEG, draft mode and all. Pixels that lie as they are are unpacked by
pydicom's decoders, once the picture rule's ceiling has been compared with Rows and Columns. The lowest
`BitsStored` bits are the sample; of more than eight the upper eight are kept, as of a deep PNG. YCbCr
becomes RGB by the equations of JPEG. Look-up tables and windows are not applied. The file's colour profile
goes where Pillow keeps that of other files, and before that of a JPEG inside.

pydicom comes with the extra `dicom`, and is imported when the first such file is opened.
"""

import io
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

TRANSFER_SYNTAXES: Final = {
    "1.2.840.10008.1.2": "Implicit VR Little Endian",
    "1.2.840.10008.1.2.1": "Explicit VR Little Endian",
    "1.2.840.10008.1.2.1.99": "Deflated Explicit VR Little Endian",
    "1.2.840.10008.1.2.4.50": "JPEG Baseline (Process 1)",
}
"""The transfer syntaxes that are accepted."""

IMPLICIT, EXPLICIT, DEFLATED, JPEG = TRANSFER_SYNTAXES

UNDEFINED: Final = 0xFFFFFFFF
"""The length of an element that ends with a mark, and a tag behind all others."""

WAY_OUT: Final = "Export it as JPEG or PNG"

_WANTED: Final = (
    *("SOPClassUID", "SamplesPerPixel", "PhotometricInterpretation", "PlanarConfiguration", "NumberOfFrames"),
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
        if element.VR not in (dictionary_VR(name), None) or not isinstance(element.value or b"", bytes):
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

    def pixels(self, *, is_jpeg: bool) -> bytes:
        """The pixels as they lie in the file, or the JPEG that they are."""
        from pydicom.encaps import get_frame

        element = self.found.get("PixelData")
        if element is None or element.VR not in ("OB", "OW", None) or not isinstance(element.value, bytes):
            raise DamagedPicture(f"the DICOM file has no {named('PixelData')}. {WAY_OUT}")
        if (element.length == UNDEFINED) != is_jpeg:
            raise DamagedPicture(
                "the DICOM file's pixels are not written as its transfer syntax says; write it anew"
            )
        try:
            return get_frame(element.value, 0, number_of_frames=1) if is_jpeg else element.value
        except (ValueError, EOFError) as error:
            raise DamagedPicture(
                "the DICOM file's compressed pixels are not those of one frame; write it anew"
            ) from error


def open_data_set(content: bytes, most: int) -> tuple[io.BytesIO, str]:
    """A file at its data set, inflated up to so many bytes; and its transfer syntax."""
    file, meta = io.BytesIO(content), Elements()
    file.seek(_PREAMBLE)
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


SOP_CLASSES: Final = {
    "1.2.840.10008.5.1.4.1.1.77.1.4": "VL Photographic Image Storage",
    "1.2.840.10008.5.1.4.1.1.77.1.7": "Dermoscopic Photography Image Storage",
}
"""The SOP classes that are accepted. Of which kind pictures of the first are, it does not say."""

MAX_INFLATED: Final = 2**28
"""Bytes that a deflated file may inflate to; 50 million pixels of RGB have 150,000,000."""

EXTRA: Final = 'pip install "dermfed[dicom]"'
"""The command that installs pydicom."""

_, _DERMOSCOPIC = SOP_CLASSES

_SAMPLES: Final[Mapping[str, int]] = {"RGB": 3, "YBR_FULL": 3, "YBR_FULL_422": 3, "MONOCHROME2": 1}


@dataclass(frozen=True)
class _Frame:
    """The one frame of a file, as its header describes it; `pixels` as they lie there, or a JPEG."""

    rows: int
    columns: int
    photometric: str
    planar: int
    bits_allocated: int
    bits_stored: int
    pixels: bytes


def open_dicom(content: bytes) -> Image.Image:
    """Opens the picture in a DICOM file: its header is read, and nothing decoded.

    Raises:
        UnsupportedPicture: pydicom is not installed, or a file that holds no photograph of one frame.
        DamagedPicture: it lacks what it must have, or contradicts itself.
        TruncatedPicture: it ends early.
        PictureTooLarge: it would inflate to too much.
    """
    decoder = _decoder()
    elements = Elements()
    file, syntax = open_data_set(content, MAX_INFLATED)
    if len(file.getbuffer()) == MAX_INFLATED:
        raise PictureTooLarge(f"the deflated DICOM file has more than {MAX_INFLATED:,} bytes. {WAY_OUT}")
    elements.walk(file, explicit=syntax != IMPLICIT, until=UNDEFINED)
    frame = _described(elements, is_jpeg=syntax == JPEG)
    image = _open_jpeg(frame) if syntax == JPEG else _Unpacked(frame, decoder)
    # Of whatever representation: Pillow finds out whether it is a profile.
    if isinstance(profile := getattr(elements.found.get("ICCProfile"), "value", None), bytes):
        image.info["icc_profile"] = profile
    return image


def is_dermoscopic(content: bytes) -> bool:
    """Whether this is a DICOM file that says of itself that it is a dermoscopic picture.

    What stands behind its SOP class is not read; of a deflated file 64 KiB are inflated.
    """
    from pydicom.datadict import tag_for_keyword

    if content[128:132] != b"DICM":
        return False
    try:
        _decoder()
        elements = Elements()
        file, syntax = open_data_set(content, 2**16)
        until = tag_for_keyword("SOPClassUID") or 0
        elements.walk(file, explicit=syntax != IMPLICIT, until=until, sequences=False)
        return elements.uid("SOPClassUID", SOP_CLASSES, "a") == _DERMOSCOPIC
    except PictureError:
        return False  # whoever decodes it says what is wrong


def _described(elements: Elements, *, is_jpeg: bool) -> _Frame:
    elements.uid("SOPClassUID", SOP_CLASSES, "a")
    if elements.value("NumberOfFrames").strip(b" \0") not in (b"", b"1"):
        raise UnsupportedPicture(
            "the DICOM file holds several frames, or does not say that it is one; send the one that is meant"
        )
    pixels = elements.pixels(is_jpeg=is_jpeg)
    photometric = elements.text("PhotometricInterpretation")
    if photometric not in _SAMPLES:
        raise UnsupportedPicture(
            f"the DICOM file's {named('PhotometricInterpretation')} is not one of {', '.join(_SAMPLES)}. "
            f"{WAY_OUT}"
        )
    samples = _SAMPLES[photometric]
    allocated, stored = elements.number("BitsAllocated"), elements.number("BitsStored")
    deep = allocated == 16 and 8 <= stored <= 16 and samples == 1 and not is_jpeg
    if not deep and (allocated, stored) != (8, 8):
        raise UnsupportedPicture(
            f"the DICOM file's samples have {stored} of {allocated} bits; accepted are 8 of 8, and 8 to 16 "
            f"of 16 where there is no compression and only grey (MONOCHROME2). {WAY_OUT}"
        )
    elements.number("SamplesPerPixel", samples)
    elements.number("HighBit", stored - 1)
    elements.number("PixelRepresentation", 0)
    planar = elements.number("PlanarConfiguration") if samples > 1 else 0
    rows, columns = elements.number("Rows"), elements.number("Columns")
    paired = photometric == "YBR_FULL_422" and not is_jpeg
    if planar not in (0, 1) or (paired and (planar or columns % 2)) or not rows or not columns:
        raise DamagedPicture(
            f"the DICOM file's Rows ({rows}), Columns ({columns}) and PlanarConfiguration ({planar}) are "
            f"none that {photometric} can have; write it anew"
        )
    return _Frame(rows, columns, photometric, planar, allocated, stored, pixels)


def _decoder() -> Any:
    """The decoder that pydicom has for pixels that lie as they are."""
    try:
        import pydicom  # noqa: F401 - it may be there in parts
        from pydicom.pixels import get_decoder
    except ImportError as error:
        raise UnsupportedPicture(
            f"the picture is DICOM, which is read where the extra `dicom` is installed ({EXTRA}); JPEG, PNG "
            "and WebP are accepted without it"
        ) from error
    return get_decoder(EXPLICIT)


class _Unpacked(Image.Image):
    """A picture whose pixels are unpacked when they are first asked for, as Pillow's own files are."""

    format = "DICOM"

    def __init__(self, frame: _Frame, decoder: Any) -> None:
        super().__init__()
        self._size = (frame.columns, frame.rows)
        self._mode = {"RGB": "RGB", "MONOCHROME2": "L"}.get(frame.photometric, "YCbCr")
        self._packed: tuple[_Frame, Any] | None = (frame, decoder)

    def load(self) -> Any:
        """Unpacks the pixels, the first time.

        Raises:
            DamagedPicture: they are not as many as there are said to be.
        """
        if self._packed is not None:
            samples = _samples(*self._packed)
            self.im = Image.frombuffer(self.mode, self.size, samples, "raw", self.mode, 0, 1).im
            self._packed = None
        return super().load()


def _samples(frame: _Frame, decoder: Any) -> NDArray[np.uint8]:
    """The samples of a frame, `(rows, columns)` or `(rows, columns, 3)`, eight bits each."""
    paired, samples = frame.photometric == "YBR_FULL_422", _SAMPLES[frame.photometric]
    length = frame.rows * frame.columns * (2 if paired else samples) * frame.bits_allocated // 8
    if len(frame.pixels) not in (length, length + length % 2):  # a byte may make them even
        raise DamagedPicture(
            f"the DICOM file has {len(frame.pixels):,} bytes of pixels; {frame.columns} x {frame.rows} "
            f"{frame.photometric} has {length:,}. Write the file anew"
        )
    found, _ = decoder.as_array(
        frame.pixels,
        index=0,
        raw=True,
        view_only=not paired,
        rows=frame.rows,
        columns=frame.columns,
        samples_per_pixel=samples,
        photometric_interpretation=frame.photometric,
        planar_configuration=frame.planar,
        bits_allocated=frame.bits_allocated,
        # Which bits are said to be unused is seen to below; pydicom would warn of them.
        bits_stored=frame.bits_allocated,
        number_of_frames=1,
        pixel_representation=0,
        pixel_keyword="PixelData",
    )
    if frame.bits_allocated == 16:
        found = found >> (frame.bits_stored - 8) & 0xFF
    return np.ascontiguousarray(found, dtype=np.uint8)


def _open_jpeg(frame: _Frame) -> Image.Image:
    """The JPEG of a frame, if it is what the file says of it."""
    content, samples = frame.pixels, _SAMPLES[frame.photometric]
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
        rgb = [layer[0] for layer in image.layer] == list(b"RGB")
        if rgb != (frame.photometric == "RGB"):
            raise DamagedPicture(
                f"the DICOM file says that its JPEG is {frame.photometric}; the JPEG does not say so, and "
                "would be taken for something else. Write it anew, or send the JPEG alone"
            )
    return image
