"""What a file declares without a colour profile: how its colours are meant, and how it is to be turned.

Colours: in PNG the chunks cICP, sRGB, gAMA and cHRM, in this order and around an ICC profile as the PNG
specification (third edition, 4.3) has it; in JPEG and WebP the colour space of EXIF; in HEIC and AVIF the
code points of `nclx` (ITU-T H.273). Primaries, white point and transfer function become an ICC profile of
curves and a matrix, which LittleCMS applies as any other. HDR is not converted,
and why is said.

Turns: where browsers look for them. In JPEG (also in a DICOM file) the first EXIF segment, in PNG the first
eXIf chunk before the pixels, in AVIF and HEIC the boxes irot and imir. XMP and the EXIF of WebP turn nothing.
"""

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image

from registry.bundle.pictures.colours import ProfileNotUsed

Points = tuple[tuple[float, float], tuple[float, float], tuple[float, float], tuple[float, float]]
"""The chromaticities x, y of red, green, blue and white."""

_D65: Final = (0.3127, 0.3290)
SRGB: Final[Points] = ((0.64, 0.33), (0.30, 0.60), (0.15, 0.06), _D65)
ADOBE: Final[Points] = ((0.64, 0.33), (0.21, 0.71), (0.15, 0.06), _D65)
_PRIMARIES: Final[Mapping[int, Points]] = {
    1: SRGB,
    2: SRGB,  # unspecified
    4: ((0.67, 0.33), (0.21, 0.71), (0.14, 0.08), (0.310, 0.316)),
    5: ((0.64, 0.33), (0.29, 0.60), (0.15, 0.06), _D65),
    6: ((0.630, 0.340), (0.310, 0.595), (0.155, 0.070), _D65),
    7: ((0.630, 0.340), (0.310, 0.595), (0.155, 0.070), _D65),
    9: ((0.708, 0.292), (0.170, 0.797), (0.131, 0.046), _D65),
    11: ((0.680, 0.320), (0.265, 0.690), (0.150, 0.060), (0.314, 0.351)),
    12: ((0.680, 0.320), (0.265, 0.690), (0.150, 0.060), _D65),
}
SRGB_CURVE: Final = 0.0
"""In place of an exponent: the curve of sRGB (IEC 61966-2-1)."""

# Television's are those of its screens (ITU-R BT.1886), as browsers show them, and no inverse of its
# cameras'.
_TRANSFERS: Final[Mapping[int, float]] = {
    **dict.fromkeys((1, 6, 14, 15), 2.4),
    **{2: SRGB_CURVE, 13: SRGB_CURVE, 4: 2.2, 5: 2.8, 8: 1.0},
}
_HDR: Final = {16: "PQ", 18: "HLG"}
_GAMMA: Final = (0.45, 0.46)  # without cHRM what encoders write for the curve of sRGB: 1/2.2
ADOBE_GAMMA: Final = 2.19921875

# From the cone responses of a white to those of another (Bradford), and the white of profiles, D50.
_BRADFORD: Final = np.array([[0.8951, 0.2664, -0.1614], [-0.7502, 1.7135, 0.0367], [0.0389, -0.0685, 1.0296]])
_D50: Final = np.array([0.9642, 1.0, 0.8249])
_TURNS: Final = range(2, 9)


DECODER_ERRORS: Final = (
    *(OSError, SyntaxError, ValueError, TypeError, IndexError, KeyError, EOFError, OverflowError),
    *(ZeroDivisionError, AttributeError, RuntimeError, struct.error, zlib.error),
    Image.DecompressionBombError,
)
"""What Pillow's decoders raise on bytes that are not what they seem."""


class _Cicp(NamedTuple):
    primaries: int
    transfer: int
    full_range: bool = True


@dataclass(frozen=True)
class Declared:
    """What an opened picture declares.

    Attributes:
        profile: the colour profile that its colours are converted by, its own or one made of what it
            declares; None for sRGB, or where nothing says otherwise.
        unused: why what it declares is not converted: "it …"; None where it is.
        turn: how it is turned for looking at it, as EXIF counts turns: 1 for not at all, up to 8.
    """

    profile: bytes | None = None
    unused: str | None = None
    turn: int = 1


def declared(image: Image.Image, content: bytes, kind: str) -> Declared:
    """What a picture declares.

    Args:
        image: opened.
        content: its bytes.
        kind: JPEG, PNG, WebP, AVIF, HEIC or DICOM.
    """
    chunks = dict(reversed(list(png_chunks(content)))) if kind == "PNG" else {}  # of equal ones the first
    exif = _read(chunks.get(b"eXIf", b"") if kind == "PNG" else image.info.get("exif", b""))
    turn = exif.get(ExifTags.Base.Orientation, 1) if kind in ("JPEG", "PNG", "AVIF", "DICOM") else 1
    turn = turn if turn in _TURNS else 1
    own = (image.info["icc_profile"] or b"") if "icc_profile" in image.info else None
    try:
        if kind == "PNG":
            return Declared(_of_png(chunks, own), turn=turn)
        if own is not None:
            return Declared(own, turn=turn)
        if kind == "DICOM":
            return Declared(_of_dicom(image.info["color_space"]), turn=turn)
        if image.mode == "CMYK":
            why = "it is of inks (CMYK), and has no colour profile that says which"
            return Declared(unused=why, turn=turn)
        if kind in ("JPEG", "WebP"):
            return Declared(_of_exif(exif), turn=turn)
        if kind == "AVIF":
            return Declared(_of_cicp(_nclx(content)), turn=turn)
        nclx = image.info.get("nclx_profile") if kind == "HEIC" else None
        numbers = ("color_primaries", "transfer_characteristics")
        return Declared(_of_cicp(_Cicp(*(nclx[name] for name in numbers)) if nclx else None), turn=turn)
    except ProfileNotUsed as error:
        return Declared(unused=str(error), turn=turn)


def png_chunks(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The chunks of a PNG before its pixels: name and content."""
    at = 8
    while at + 8 <= len(content):
        length, name = struct.unpack_from(">I4s", content, at)
        if name == b"IDAT":
            return
        yield name, content[at + 8 : at + 8 + length]
        at += 12 + length


def heif_boxes(content: bytes) -> Iterator[tuple[bytes, int, int]]:
    """The outermost boxes of a HEIC or AVIF: name, begin and end, which may be beyond the bytes there are."""
    at = 0
    while at < len(content):
        length, name = int.from_bytes(content[at : at + 4], "big"), content[at + 4 : at + 8]
        if length == 1:
            length = int.from_bytes(content[at + 8 : at + 16], "big")
        end = len(content) if length == 0 else at + max(length, 8)
        yield name, at, end
        at = end


def _of_png(chunks: Mapping[bytes, bytes], own: bytes | None) -> bytes | None:
    if len(cicp := chunks.get(b"cICP", b"")) == 4:
        return _of_cicp(_Cicp(cicp[0], cicp[1], full_range=bool(cicp[3]) and not cicp[2]))
    if own is not None or b"sRGB" in chunks:
        return own
    if len(gamma := chunks.get(b"gAMA", b"")) != 4:
        return None
    written = max(1, int.from_bytes(gamma, "big")) / 100_000
    points, curve = SRGB, SRGB_CURVE if _GAMMA[0] <= written <= _GAMMA[1] else 1 / written
    if len(chroma := chunks.get(b"cHRM", b"")) == 32:
        white, *colours = np.array(struct.unpack(">8I", chroma)).reshape(4, 2) / 100_000
        red, green, blue, last = ((float(x), float(y)) for x, y in (*colours, white))
        points, curve = (red, green, blue, last), 1 / written
    if not 0.1 <= written <= 5:
        raise ProfileNotUsed(f"its exponent (gAMA) is {written:g}, which no screen has")
    return profile_of(points, curve)


def _of_cicp(cicp: _Cicp | None) -> bytes | None:
    if cicp is None:
        return None
    if name := _HDR.get(cicp.transfer):
        raise ProfileNotUsed(f"it is in HDR ({name}), which is not converted")
    if cicp.primaries not in _PRIMARIES or cicp.transfer not in _TRANSFERS or not cicp.full_range:
        raise ProfileNotUsed(
            f"its colours have the code points {cicp.primaries}/{cicp.transfer} of H.273"
            f"{'' if cicp.full_range else ', in a narrow range'}, which are not converted"
        )
    return profile_of(_PRIMARIES[cicp.primaries], _TRANSFERS[cicp.transfer])


def _nclx(content: bytes) -> _Cicp | None:
    """The code points of an AVIF; None where it has none.

    Raises:
        ProfileNotUsed: its pictures (a thumbnail, an alpha channel) have several, and they differ.
    """
    head = b"".join(content[begin:end] for name, begin, end in heif_boxes(content) if name == b"meta")
    found, at = set[_Cicp](), -1
    while (at := head.find(b"colrnclx", at + 1)) >= 0:
        values = head[at + 8 : at + 14]
        # Whether YCbCr has its full range concerns the decoder, which has seen to it.
        found.add(_Cicp(int.from_bytes(values[:2], "big"), int.from_bytes(values[2:4], "big")))
    if len(found) > 1:
        raise ProfileNotUsed("its parts declare several colour spaces")
    return found.pop() if found else None


def _of_exif(exif: Image.Exif) -> bytes | None:
    try:
        space = exif.get_ifd(ExifTags.IFD.Exif).get(ExifTags.Base.ColorSpace)
        adobe = exif.get_ifd(ExifTags.IFD.Interop).get(1) == "R03"
    except DECODER_ERRORS:
        return None
    if space == 2 or (space == 0xFFFF and adobe):
        return profile_of(ADOBE, ADOBE_GAMMA)
    if space == 0xFFFF:
        raise ProfileNotUsed("it says that its colours are not sRGB (EXIF), and not what they are")
    return None


def _read(exif: bytes) -> Image.Exif:
    """What EXIF says; nothing where it cannot be read."""
    found = Image.Exif()
    try:
        if exif:
            found.load(exif)
    except DECODER_ERRORS:
        return Image.Exif()
    return found


def _of_dicom(space: str) -> bytes | None:
    if space == "ADOBERGB":
        return profile_of(ADOBE, ADOBE_GAMMA)
    if space not in ("", "SRGB"):
        raise ProfileNotUsed(f"it says that its colours are {space[:20]}, which is not converted")
    return None


@lru_cache(8)
def profile_of(points: Points, exponent: float) -> bytes:
    """An ICC profile (version 4.3) of a device with these primaries and one curve for all three.

    Args:
        points: chromaticities of the primaries and of white.
        exponent: from numbers to light; `SRGB_CURVE` for the curve of sRGB.

    Raises:
        ProfileNotUsed: the chromaticities span no colours.
    """
    curve = _fixed(2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045) if not exponent else _fixed(exponent)
    tags = {b"wtpt": _xyz(_D50)}
    for name, column in zip(b"rgb", _to_d50(points).T, strict=True):
        tags[bytes([name]) + b"XYZ"] = _xyz(column)
        tags[bytes([name]) + b"TRC"] = b"para" + struct.pack(">IHH", 0, 0 if exponent else 3, 0) + curve
    at, index, values = 132 + 12 * len(tags), struct.pack(">I", len(tags)), b""
    for tag, value in tags.items():
        index += struct.pack(">4sII", tag, at + len(values), len(value))
        values += value
    header = struct.pack(
        ">I4xI4s4s4s12x4s28x", at + len(values), 0x04300000, b"mntr", b"RGB ", b"XYZ ", b"acsp"
    )
    return header + _fixed(*_D50) + bytes(48) + index + values


def _to_d50(points: Points) -> NDArray[np.float64]:
    """From linear RGB to XYZ under D50: the primaries scaled to make white, then adapted by Bradford."""
    if any(y <= 0 or not 0 <= x <= 1 or y > 1 for x, y in points):
        raise ProfileNotUsed("its primaries (cHRM) are none that light can have")
    red, green, blue, white = (np.array([x / y, 1.0, (1 - x - y) / y]) for x, y in points)
    primaries = np.stack([red, green, blue], axis=1)
    try:
        scaled = primaries * np.linalg.solve(primaries, white)
    except np.linalg.LinAlgError as error:
        raise ProfileNotUsed("its primaries (cHRM) are none that light can have") from error
    gain = (_BRADFORD @ _D50) / (_BRADFORD @ white)
    adapted: NDArray[np.float64] = np.linalg.inv(_BRADFORD) @ np.diag(gain) @ _BRADFORD @ scaled
    if not np.abs(adapted).max() < 100:
        raise ProfileNotUsed("its primaries (cHRM) are none that light can have")
    return adapted


def _xyz(values: NDArray[np.float64]) -> bytes:
    return b"XYZ \0\0\0\0" + _fixed(*values.tolist())


def _fixed(*values: float) -> bytes:
    """Numbers as profiles have them: 16 bits before the point, 16 behind it."""
    return b"".join(struct.pack(">i", round(value * 65536)) for value in values)
