"""Colour profiles from untrusted bytes: which are looked at further, by their size, header and list of tags.

A profile is a small program for LittleCMS, and whoever sends the picture writes it. Accepted is what cameras,
phones, scanners and editors embed: of one device, for RGB, grey or CMYK, made of curves, a matrix and tables,
each of which LittleCMS bounds. Refused are links, abstract spaces and named colours, and what may ask for any
amount of work: `multiProcessElements`, which hold as many steps as fit.
"""

import struct
from typing import Final, Literal

MAX_PROFILE: Final = 4 * 2**20
"""Bytes of a profile: a phone's has 500, a printer's up to 3 million."""

MAX_TAGS: Final = 100
"""Tags of a profile; most have ten to twenty."""

Space = Literal["RGB", "GRAY", "CMYK"]

_SPACES: Final[dict[bytes, Space]] = {b"RGB ": "RGB", b"GRAY": "GRAY", b"CMYK": "CMYK"}
_DEVICES: Final = (b"mntr", b"scnr", b"prtr", b"spac")
_CONNECTIONS: Final = (b"XYZ ", b"Lab ")
_HEADER: Final = struct.Struct(">I8x4s4s4s12x4s")
_AT_TAGS: Final = 132
_TAG: Final = struct.Struct(">4sII")
DAMAGED: Final = "it is damaged or incomplete"
"""Why most that are not used are not."""

_ANY_WORK: Final = b"mpet"


class ProfileNotUsed(ValueError):  # noqa: N818 - reads as what it says where it is caught
    """A colour profile is not applied; the text says what it is: "it …"."""


def profile_space(profile: bytes) -> Space:
    """The colours that a profile is for.

    Raises:
        ProfileNotUsed: it is none, too large, or of a kind that no camera embeds.
    """
    if len(profile) > MAX_PROFILE:
        raise ProfileNotUsed(f"it has {len(profile):,} bytes, and {MAX_PROFILE:,} are looked at")
    if len(profile) < _AT_TAGS:
        raise ProfileNotUsed(f"it has {len(profile)} bytes, and its header alone has {_AT_TAGS}")
    size, device, space, connection, mark = _HEADER.unpack_from(profile)
    if mark != b"acsp" or size > len(profile):
        raise ProfileNotUsed(DAMAGED)
    if space not in _SPACES or device not in _DEVICES or connection not in _CONNECTIONS:
        raise ProfileNotUsed("it is not of a camera, scanner, screen or printer with RGB, grey or CMYK")
    _look_at_tags(profile)
    return _SPACES[space]


def _look_at_tags(profile: bytes) -> None:
    number = int.from_bytes(profile[_AT_TAGS - 4 : _AT_TAGS], "big")
    if number > MAX_TAGS:
        raise ProfileNotUsed(f"it has {number:,} tags, and {MAX_TAGS} are looked at")
    if _AT_TAGS + number * _TAG.size > len(profile):
        raise ProfileNotUsed(DAMAGED)
    for _, start, length in _TAG.iter_unpack(profile[_AT_TAGS : _AT_TAGS + number * _TAG.size]):
        if start + length > len(profile):
            raise ProfileNotUsed(DAMAGED)
        if profile[start : start + 4] == _ANY_WORK:
            raise ProfileNotUsed("it has tags of a kind that may ask for any amount of work")
