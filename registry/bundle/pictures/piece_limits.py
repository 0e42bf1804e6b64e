"""Limits on the pieces of a JPEG or PNG (chunks, segments, scans), against files that keep a decoder busy.

Pillow walks over the pieces of a JPEG or PNG in Python, and joins pieces of EXIF by copying what it has. A
progressive JPEG is decoded once for each of its scans, however few bytes a scan has. What cameras, phones and
editors write stays far below these bounds; a walk up to them takes milliseconds.
"""

import re
import struct
from typing import Final

from registry.bundle.errors import DamagedPicture

MAX_PARTS: Final = 20_000
"""Chunks of a PNG (2,600 in one of 20 MB); segments of a JPEG, and bytes between them, before its pixels."""

MAX_EXIF: Final = 100
"""Pieces that a JPEG's EXIF comes in; most have one."""

MAX_SCANS: Final = 100
"""Scans of a JPEG; progressive ones have about ten."""

_EXIF, _SCAN, _END = b"Exif\0\0", 0xDA, 0xD9
_CHUNK: Final = struct.Struct(">I4s")
# The next marker within a JPEG's compressed data: neither a stuffed byte nor a restart.
_MARKER: Final = re.compile(rb"\xff[\x01-\xcf\xd8-\xfe]")


def refuse_many_parts(content: bytes) -> None:
    """Refuses a JPEG or PNG that is made of more pieces than any writer makes; others pass.

    Raises:
        DamagedPicture: so many pieces.
    """
    if content.startswith(b"\xff\xd8"):
        pixels = _jpeg_pixels(content)
        if content.count(_EXIF, 0, pixels) > MAX_EXIF:
            raise _too_many("JPEG", f"pieces of EXIF than {MAX_EXIF}")
        _count_scans(content, pixels)
    elif content.startswith(b"\x89PNG"):
        _count_chunks(content)


def _count_chunks(content: bytes) -> None:
    at, parts, kind = 8, 0, b""
    while at + _CHUNK.size <= len(content) and kind != b"IEND":
        length, kind = _CHUNK.unpack_from(content, at)
        at += 12 + length
        parts += 1
        if parts > MAX_PARTS:
            raise _too_many("PNG", f"chunks than {MAX_PARTS:,}")


def _jpeg_pixels(content: bytes) -> int:
    """Where a JPEG's first scan begins, or its end."""
    at, parts = 2, 0
    while True:
        start = content.find(b"\xff", at)
        parts += 1 + (start if start >= 0 else len(content)) - at
        if parts > MAX_PARTS:
            raise _too_many("JPEG", f"segments, or bytes between them, than {MAX_PARTS:,}")
        if start < 0 or start + 4 > len(content):
            return len(content)
        marker = content[start + 1]
        if marker == _SCAN:
            return start
        if marker == 0xFF:  # a byte of padding
            at = start + 1
        elif marker <= 0x01 or 0xD0 <= marker <= _END:  # stands alone
            at = start + 2
        else:
            at = start + 2 + max(2, int.from_bytes(content[start + 2 : start + 4], "big"))


def _count_scans(content: bytes, at: int) -> None:
    """Counts scans as a decoder meets them: from marker to marker, and over each segment by its length.

    Phones append films, whose bytes look like anything; and a comment may hold what looks like the end.
    """
    scans = 0
    while found := _MARKER.search(content, at):
        at, marker = found.end(), content[found.end() - 1]
        if marker == _END:
            return
        scans += marker == _SCAN
        if scans > MAX_SCANS:
            raise _too_many("JPEG", f"scans than {MAX_SCANS}")
        if marker not in (0x01, 0xD8):  # which stand alone
            at += max(2, int.from_bytes(content[at : at + 2], "big"))


def _too_many(kind: str, what: str) -> DamagedPicture:
    return DamagedPicture(
        f"the {kind} has more {what}, which no camera writes; open it elsewhere and save it anew"
    )
