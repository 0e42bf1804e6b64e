"""Reads the few values of a DICOM file that describe its pixels, each strictly in its own representation."""

import re
from collections.abc import Iterable
from typing import Final

from registry.bundle.errors import DamagedPicture
from registry.bundle.pictures.dicom.elements import Element, tag_text

_WANTED: Final = {
    0x00020010: ("TransferSyntaxUID", b"UI"),
    0x00080016: ("SOPClassUID", b"UI"),
    0x00280002: ("SamplesPerPixel", b"US"),
    0x00280004: ("PhotometricInterpretation", b"CS"),
    0x00280006: ("PlanarConfiguration", b"US"),
    0x00280008: ("NumberOfFrames", b"IS"),
    0x00280010: ("Rows", b"US"),
    0x00280011: ("Columns", b"US"),
    0x00280100: ("BitsAllocated", b"US"),
    0x00280101: ("BitsStored", b"US"),
    0x00280102: ("HighBit", b"US"),
    0x00280103: ("PixelRepresentation", b"US"),
}
_TAGS = {name: tag for tag, (name, _) in _WANTED.items()}
_UID = re.compile(r"(0|[1-9]\d*)(\.(0|[1-9]\d*))*", re.ASCII)
_LONGEST_UID = 64


class Values:
    """The values by keyword; no other is read, so that nothing about the patient is."""

    def __init__(self, content: bytes, elements: Iterable[Element]) -> None:
        """Picks the wanted values out of a data set.

        Raises:
            DamagedPicture: one is of another kind than it has to be.
        """
        self._found: dict[str, bytes] = {}
        for element in elements:
            if element.tag not in _WANTED:
                continue
            name, vr = _WANTED[element.tag]
            if element.in_items or element.vr not in (vr, b""):
                raise DamagedPicture(
                    f"the DICOM file's {named(name)} is not of the value representation {vr.decode()}; write "
                    "it anew"
                )
            self._found[name] = content[element.start : element.end]

    def text(self, name: str, otherwise: str | None = None) -> str:
        """A text, without what pads it.

        Raises:
            DamagedPicture: it is not there, and there is nothing to take instead.
        """
        if value := self._found.get(name):
            return value.decode("latin-1").strip(" \0")
        if otherwise is None:
            raise _missing(name)
        return otherwise

    def uid(self, name: str) -> str:
        """A UID.

        Raises:
            DamagedPicture: it is none, or not there.
        """
        uid = self.text(name)
        if len(uid) > _LONGEST_UID or not _UID.fullmatch(uid):
            raise DamagedPicture(f"the DICOM file's {named(name)} is no UID; write it anew")
        return uid

    def number(self, name: str) -> int:
        """One unsigned number of sixteen bits.

        Raises:
            DamagedPicture: it is none, or not there.
        """
        if not (value := self._found.get(name)):
            raise _missing(name)
        if len(value) != 2:
            raise DamagedPicture(f"the DICOM file's {named(name)} is not one number; write it anew")
        return int.from_bytes(value, "little")

    def expect(self, name: str, wanted: int) -> None:
        """Checks that a number is the expected one.

        Raises:
            DamagedPicture: it is another, or not there.
        """
        if (found := self.number(name)) != wanted:
            raise DamagedPicture(
                f"the DICOM file's {named(name)} is {found}; with the rest of what it says it is {wanted}. "
                "Write it anew"
            )


def named(name: str) -> str:
    """An attribute with its tag, for messages."""
    return f"{name} {tag_text(_TAGS[name])}"


def _missing(name: str) -> DamagedPicture:
    return DamagedPicture(f"the DICOM file has no {named(name)}; write it anew with all that it must have")
