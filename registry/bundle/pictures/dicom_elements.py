"""The data elements of a DICOM file, walked by pydicom, and the few values that are read.

Lengths are compared with the bytes there are, and elements rise in tag, as the standard asks. Values are
left as they lie in the file, and each is read strictly in its own representation: nothing about the patient
is read.
"""

import io
import re
import zlib
from collections.abc import Mapping
from typing import Any, Final

from registry.bundle.errors import DamagedPicture, PictureError, TruncatedPicture, UnsupportedPicture

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
        self._found: dict[str, Any] = {}

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
                self._found[keyword_for_tag(one.tag)] = one
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

        if (element := self._found.get(name)) is None:
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

        element = self._found.get("PixelData")
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

    def profile(self) -> bytes | None:
        """The colour profile, of whatever representation: Pillow finds out whether it is one."""
        element = self._found.get("ICCProfile")
        return element.value if element is not None and isinstance(element.value, bytes) else None


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
