"""Reads the one frame of a DICOM file: its description and where its pixels lie, and nothing else.

Accepted are VL Photographic and Dermoscopic Photography images of one frame, as they are (explicit or
implicit VR, little endian), deflated, or with a baseline JPEG inside.
"""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

from registry.bundle.errors import DamagedPicture, PictureTooLarge, TruncatedPicture, UnsupportedPicture
from registry.bundle.pictures.dicom.elements import Element, Walk, tag_text
from registry.bundle.pictures.dicom.values import Values, named

SOP_CLASSES: Final = {
    "1.2.840.10008.5.1.4.1.1.77.1.4": "VL Photographic Image Storage",
    "1.2.840.10008.5.1.4.1.1.77.1.7": "Dermoscopic Photography Image Storage",
}
"""The SOP classes that are accepted."""

DERMOSCOPIC: Final = "1.2.840.10008.5.1.4.1.1.77.1.7"
"""The one whose pictures are dermoscopic; of which kind those of the other are, it does not say."""

TRANSFER_SYNTAXES: Final = {
    "1.2.840.10008.1.2": "Implicit VR Little Endian",
    "1.2.840.10008.1.2.1": "Explicit VR Little Endian",
    "1.2.840.10008.1.2.1.99": "Deflated Explicit VR Little Endian",
    "1.2.840.10008.1.2.4.50": "JPEG Baseline (Process 1)",
}
"""The transfer syntaxes that are accepted."""

IMPLICIT, EXPLICIT, DEFLATED, JPEG = TRANSFER_SYNTAXES

MAX_HEADER: Final = 4 * 2**20
"""Bytes that a deflated file may have before its pixels."""

Photometric = Literal["RGB", "YBR_FULL", "YBR_FULL_422", "MONOCHROME2"]
_COLOURS: Final[dict[str, tuple[Photometric, int]]] = {
    "RGB": ("RGB", 3),
    "YBR_FULL": ("YBR_FULL", 3),
    "YBR_FULL_422": ("YBR_FULL_422", 3),
    "MONOCHROME2": ("MONOCHROME2", 1),
}

_PREAMBLE = 132  # bytes before the first element: 128 of the preamble and `DICM`
_META_LENGTH, _PROFILE, _PIXELS = 0x00020000, 0x00282000, 0x7FE00010
_WAY_OUT = "Export it as JPEG or PNG"


@dataclass(frozen=True)
class RawPixels:
    """Pixels that lie in a file as they are, or deflated.

    Attributes:
        content: the file, or what of it was inflated so far.
        start: where they begin in it.
        length: how many bytes they have.
        rest: what inflates the rest, and of which bytes; None in a file that is not deflated.
    """

    content: bytes
    start: int
    length: int
    rest: tuple[Any, bytes] | None = None

    def read(self) -> bytes | memoryview:
        """The bytes; once.

        Raises:
            TruncatedPicture: they end early.
        """
        found = memoryview(self.content)[self.start : self.start + self.length]
        if self.rest is None or len(found) == self.length:
            return found
        inflate, tail = self.rest
        whole: bytes = bytes(found) + inflate.decompress(tail, self.length - len(found))
        if len(whole) < self.length:
            raise TruncatedPicture(
                f"the DICOM file's pixels inflate to {len(whole):,} of {self.length:,} bytes; send the whole "
                "file again"
            )
        return whole


@dataclass(frozen=True)
class Frame:
    """The one frame of a file, as its header describes it.

    Attributes:
        rows: pixels from top to bottom.
        columns: pixels from left to right.
        photometric: what the samples of a pixel are.
        samples: how many numbers a pixel is.
        planar: whether the file holds one plane of samples after the other.
        bits_allocated: of a sample, 8 or 16.
        bits_stored: of those, the ones that say something: the lowest.
        pixels: where they lie, or the JPEG that they are.
        dermoscopic: whether the file says that it is a dermoscopic picture.
        profile: the colour profile of the pixels, as it lies in the file; None where there is none.
    """

    rows: int
    columns: int
    photometric: Photometric
    samples: int
    planar: bool
    bits_allocated: int
    bits_stored: int
    pixels: RawPixels | bytes
    dermoscopic: bool = False
    profile: bytes | None = None

    @property
    def length(self) -> int:
        """The bytes that raw pixels have, without the one that makes them even."""
        samples = 2 if self.photometric == "YBR_FULL_422" else self.samples
        return self.rows * self.columns * samples * self.bits_allocated // 8


def read_frame(content: bytes) -> Frame:
    """Reads the frame of a file; nothing is decoded, and of a deflated one only the header is inflated.

    pydicom has to be there: it knows what the kinds that are refused are called.

    Raises:
        UnsupportedPicture: a file of another kind, written another way, or of several frames.
        DamagedPicture: it is no DICOM file after all, lacks what it must have, or contradicts itself.
        TruncatedPicture: it ends early.
        PictureTooLarge: its header inflates to more than `MAX_HEADER` bytes.
    """
    walk = Walk(content)
    start = _end_of_meta(walk, content)
    meta = Values(content, walk.elements(_PREAMBLE, start, explicit=True))
    syntax = _one_of(TRANSFER_SYNTAXES, meta.uid("TransferSyntaxUID"), "written as")
    if syntax == DEFLATED:
        return _read_deflated(content[start:])
    elements = list(walk.elements(start, len(content), explicit=syntax != IMPLICIT))
    values = Values(content, elements)
    pixels = next((element for element in elements if element.tag == _PIXELS), None)
    _refuse_other_kinds(values)
    if pixels is None or pixels.vr not in (b"OB", b"OW", b""):
        raise _without_pixels()
    if pixels.in_items != (syntax == JPEG):
        raise DamagedPicture(
            f"the DICOM file is written as {TRANSFER_SYNTAXES[syntax]}, but its pixels are not; write it anew"
        )
    profile = _profile(content, elements)
    if pixels.in_items:
        return _described(values, _joined(walk.items(pixels)), profile)
    return _described(values, RawPixels(content, pixels.start, pixels.end - pixels.start), profile)


def _read_deflated(deflated: bytes) -> Frame:
    """The frame of a deflated data set; as much of it is inflated as its header may have."""
    inflate = zlib.decompressobj(-zlib.MAX_WBITS)
    content = inflate.decompress(deflated, MAX_HEADER)
    try:
        elements = list(Walk(content).elements(0, len(content), explicit=True, unread=_PIXELS))
    except TruncatedPicture:
        if len(content) < MAX_HEADER:
            raise
        raise PictureTooLarge(
            f"the deflated DICOM file has more than {MAX_HEADER:,} bytes before its pixels. {_WAY_OUT}"
        ) from None
    values = Values(content, elements)
    _refuse_other_kinds(values)
    pixels = elements[-1] if elements else None
    if pixels is None or pixels.tag != _PIXELS or pixels.vr not in (b"OB", b"OW") or pixels.in_items:
        raise _without_pixels()
    rest = (inflate, inflate.unconsumed_tail)
    raw = RawPixels(content, pixels.start, pixels.end - pixels.start, rest)
    return _described(values, raw, _profile(content, elements))


def _profile(content: bytes, elements: Iterable[Element]) -> bytes | None:
    """The value of ICCProfile, of whatever representation; whoever uses it finds out whether it is one."""
    return next((content[one.start : one.end] for one in elements if one.tag == _PROFILE), None)


def _end_of_meta(walk: Walk, content: bytes) -> int:
    """Where the data set begins: the first element says how long the group of the file itself is."""
    first = next(walk.elements(_PREAMBLE, len(content), explicit=True), None)
    if first is None or first.tag != _META_LENGTH or first.end - first.start != 4:
        raise DamagedPicture(
            "the DICOM file does not say how long its file meta information is; write it anew"
        )
    length = int.from_bytes(content[first.start : first.end], "little")
    if first.end + length > len(content):
        raise TruncatedPicture(
            f"the DICOM file promises {length:,} bytes of file meta information, and "
            f"{len(content) - first.end:,} follow; send the whole file again"
        )
    return first.end + length


def _refuse_other_kinds(values: Values) -> None:
    _one_of(SOP_CLASSES, values.uid("SOPClassUID"), "a")
    frames = values.text("NumberOfFrames", otherwise="1")
    if frames != "1":
        raise UnsupportedPicture(
            "the DICOM file holds several frames, or does not say that it is one; send the one that is meant"
        )


def _described(values: Values, pixels: RawPixels | bytes, profile: bytes | None) -> Frame:
    colours = values.text("PhotometricInterpretation")
    if colours not in _COLOURS:
        raise UnsupportedPicture(
            f"the DICOM file's {named('PhotometricInterpretation')} is not one of {', '.join(_COLOURS)}. "
            f"{_WAY_OUT}"
        )
    photometric, samples = _COLOURS[colours]
    raw = isinstance(pixels, RawPixels)
    allocated, stored = values.number("BitsAllocated"), values.number("BitsStored")
    deep = allocated == 16 and 8 <= stored <= 16 and samples == 1 and raw
    if not deep and (allocated, stored) != (8, 8):
        raise UnsupportedPicture(
            f"the DICOM file's samples have {stored} of {allocated} bits; accepted are 8 of 8, and 8 to 16 "
            f"of 16 where there is no compression and only grey (MONOCHROME2). {_WAY_OUT}"
        )
    values.expect("SamplesPerPixel", samples)
    values.expect("HighBit", stored - 1)
    values.expect("PixelRepresentation", 0)
    planar = values.number("PlanarConfiguration") if samples > 1 else 0
    rows, columns = values.number("Rows"), values.number("Columns")
    paired = raw and photometric == "YBR_FULL_422"
    if planar not in (0, 1) or (paired and (planar or columns % 2)) or not rows or not columns:
        raise DamagedPicture(
            f"the DICOM file's Rows ({rows}), Columns ({columns}) and PlanarConfiguration ({planar}) are "
            f"none that {photometric} can have; write it anew"
        )
    dermoscopic = values.uid("SOPClassUID") == DERMOSCOPIC
    bits = (allocated, stored)
    return Frame(rows, columns, photometric, samples, planar == 1, *bits, pixels, dermoscopic, profile)


def _joined(items: list[bytes]) -> bytes:
    """The one JPEG of encapsulated pixels: an offset table, then its fragments (PS3.5, A.4)."""
    if len(items) < 2 or len(items[0]) > 4:
        raise UnsupportedPicture(
            "the DICOM file's compressed pixels are not those of one frame; send the one that is meant"
        )
    return b"".join(items[1:])


def _one_of(allowed: dict[str, str], uid: str, how: str) -> str:
    if uid not in allowed:
        raise UnsupportedPicture(
            f"the DICOM file is {how} {_name_of(uid)}; accepted are {', '.join(allowed.values())}. {_WAY_OUT}"
        )
    return uid


def _name_of(uid: str) -> str:
    """What the standard calls a UID."""
    from pydicom.uid import UID

    name = UID(uid).name
    return "something that the standard has no name for" if name == uid else name


def _without_pixels() -> DamagedPicture:
    return DamagedPicture(f"the DICOM file has no PixelData {tag_text(_PIXELS)}. {_WAY_OUT}")
