"""The data elements of a DICOM file, walked one after the other (PS3.5, chapter 7) and never built.

A file may ask for sequences nested thousands deep, for millions of empty items, or for lengths that reach
past its end; a parser that makes objects of them is led by the sender. Here every length is held against
the bytes there are, what lies in a sequence is stepped over without recursion, depth and number have a
ceiling, and the elements of a data set rise in tag, as the standard asks, so that none is there twice.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from registry.bundle.errors import DamagedPicture, TruncatedPicture, UnsupportedPicture

MAX_ELEMENTS: Final = 50_000
"""Elements and items in one file; a photograph has a few hundred."""

MAX_DEPTH: Final = 32
"""Sequences and items within each other; a photograph has a handful."""

_UNDEFINED = 0xFFFFFFFF
_ITEM, _ITEM_END, _SEQUENCE_END = 0xFFFEE000, 0xFFFEE00D, 0xFFFEE0DD

_SHORT = frozenset(b"AE AS AT CS DA DS DT FL FD IS LO LT PN SH SL SS ST TM UI UL US".split())
_LONG = frozenset(b"OB OD OF OL OV OW SQ SV UC UN UR UT UV".split())


@dataclass(frozen=True)
class Element:
    """Where one element of the outermost data set lies.

    Attributes:
        tag: group and element as one number, `0x00280010`.
        vr: its value representation; empty in a data set that leaves it out.
        start: where its value begins, in bytes.
        end: where its value ends.
        in_items: whether the value is a row of items, with an end mark instead of a length.
    """

    tag: int
    vr: bytes
    start: int
    end: int
    in_items: bool = False


class Walk:
    """One walk over the elements of one file."""

    def __init__(self, content: bytes) -> None:
        """Reads nothing yet."""
        self._content = content
        self._seen = 0

    def elements(self, at: int, end: int, *, explicit: bool, unread: int | None = None) -> Iterator[Element]:
        """The elements of a data set, from byte `at` up to `end`.

        Args:
            at: where the data set begins.
            end: where it ends.
            explicit: whether elements say their value representation.
            unread: the tag of an element whose length is not held against `end`, and which is the last that
                is walked: the rest of the file has yet to be inflated.

        Raises:
            DamagedPicture: it is no data set, or TruncatedPicture where it reaches past `end`.
            UnsupportedPicture: more elements, or deeper ones, than a photograph has.
        """
        last = -1
        while at < end:
            tag, vr, length, start = self._head(at, end, explicit)
            if tag <= last or tag >> 16 == 0xFFFE:
                raise DamagedPicture(
                    f"the DICOM file's element {tag_text(tag)} stands where it must not; write the file anew"
                )
            last = tag
            if length == _UNDEFINED:
                at = self._end_of_items(start, end, explicit and vr != b"UN")
            else:
                at = start + length if tag == unread else self._end_of_value(tag, start, length, end)
            yield Element(tag, vr, start, at, in_items=length == _UNDEFINED)
            if tag == unread:
                return

    def items(self, element: Element) -> list[bytes]:
        """The items of a value that was walked, each with a length: the fragments of compressed pixels.

        Raises:
            DamagedPicture: an item holds elements instead.
        """
        found: list[bytes] = []
        at = element.start
        while True:
            tag, length = self._item_head(at, element.end)
            if tag == _SEQUENCE_END:
                return found
            if length == _UNDEFINED:
                raise DamagedPicture("the DICOM file's pixels are no row of fragments; write the file anew")
            found.append(self._content[at + 8 : at + 8 + length])
            at += 8 + length

    def _end_of_items(self, at: int, end: int, explicit: bool) -> int:
        """Where a value without a length ends: after the end mark that belongs to it."""
        # What is open, outermost first: whether it is an item, and whether elements in it are explicit.
        within = [(False, explicit)]
        while within:
            if len(within) > MAX_DEPTH:
                raise UnsupportedPicture(
                    f"the DICOM file nests sequences more than {MAX_DEPTH} deep; no photograph does. Write "
                    "it anew without them"
                )
            in_item, explicit = within[-1]
            if not in_item:
                tag, length = self._item_head(at, end)
                at += 8
                if tag == _SEQUENCE_END:
                    within.pop()
                elif length == _UNDEFINED:
                    within.append((True, explicit))
                else:
                    at = self._end_of_value(tag, at, length, end)
            elif self._content[at : at + 4] == b"\xfe\xff\x0d\xe0":
                within.pop()
                at = self._end_of_value(_ITEM_END, at, 8, end)
            else:
                tag, vr, length, at = self._head(at, end, explicit)
                if length == _UNDEFINED:
                    within.append((False, explicit and vr != b"UN"))
                else:
                    at = self._end_of_value(tag, at, length, end)
        return at

    def _head(self, at: int, end: int, explicit: bool) -> tuple[int, bytes, int, int]:
        """Tag, value representation, length and where the value begins."""
        self._count()
        group, element, vr, short = struct.unpack("<HH2sH", self._take(at, 8, end))
        tag = group << 16 | element
        if not explicit:
            return tag, b"", int.from_bytes(self._content[at + 4 : at + 8], "little"), at + 8
        if vr in _SHORT:
            return tag, vr, short, at + 8
        if vr not in _LONG:
            raise DamagedPicture(
                f"the DICOM file's element {tag_text(tag)} is of no value representation that there is; "
                "write the file anew"
            )
        return tag, vr, int.from_bytes(self._take(at + 8, 4, end), "little"), at + 12

    def _item_head(self, at: int, end: int) -> tuple[int, int]:
        self._count()
        group, element, length = struct.unpack("<HHL", self._take(at, 8, end))
        tag = group << 16 | element
        if tag not in (_ITEM, _SEQUENCE_END):
            raise DamagedPicture("the DICOM file has a sequence of what are no items; write the file anew")
        return tag, length

    def _take(self, at: int, length: int, end: int) -> bytes:
        if at + length > end:
            raise TruncatedPicture("the DICOM file ends within an element; send the whole file again")
        return self._content[at : at + length]

    def _end_of_value(self, tag: int, start: int, length: int, end: int) -> int:
        if start + length > end:
            raise TruncatedPicture(
                f"the DICOM file's element {tag_text(tag)} promises {length:,} bytes, and {end - start:,} "
                "follow; send the whole file again"
            )
        return start + length

    def _count(self) -> None:
        self._seen += 1
        if self._seen > MAX_ELEMENTS:
            raise UnsupportedPicture(
                f"the DICOM file has more than {MAX_ELEMENTS:,} elements; no photograph has. Write it anew "
                "without them"
            )


def tag_text(tag: int) -> str:
    """A tag as the standard writes it: `(0028,0010)`."""
    return f"({tag >> 16:04X},{tag & 0xFFFF:04X})"
