"""A mutator: pictures with bits flipped, parts cut, doubled, swapped and spliced, and headers that lie."""

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from clients.api.requests import media_type
from tests.serving.hostile.piece import EITHER, Hostile, chunk, segment

JPEG_END, PNG_END = b"\xff\xd9", chunk(b"IEND")
MARKERS = (
    *(b"\xff\xd8", b"\xff\xd9", b"\xff\xda", b"\xff\xc0", b"\xff\xc4", b"\xff\xdb"),
    *(b"IDAT", b"ANMF", b"VP8L", b"mdat", b"ipco", b"iloc", b"\xfe\xff\0\xe0", b"\xe0\x7f\x10\0"),
)


@dataclass(frozen=True)
class Chance:
    """What a change is drawn from.

    Attributes:
        draw: the source of chance.
        others: pictures of the same format, to take parts of.
    """

    draw: np.random.Generator
    others: Sequence[bytes]

    def below(self, end: int) -> int:
        """A number from 0 to `end` - 1."""
        return int(self.draw.integers(max(end, 1)))

    def span(self, content: bytes, longest: int = 2000) -> tuple[int, int]:
        """Where a part of the bytes begins and ends, the first twelve left out."""
        start = 12 + self.below(len(content) - 12)
        return start, min(len(content), start + 1 + self.below(longest))


def flipped(content: bytes, chance: Chance) -> bytes:
    changed = bytearray(content)
    for _ in range(1 + chance.below(16)):
        changed[chance.below(len(changed))] ^= 1 << chance.below(8)
    return bytes(changed)


def cut_out(content: bytes, chance: Chance) -> bytes:
    start, end = chance.span(content)
    return content[:start] + content[end:]


def ended_early(content: bytes, chance: Chance) -> bytes:
    """The end is missing, and an end mark says otherwise."""
    mark = JPEG_END if content.startswith(b"\xff\xd8") else PNG_END
    return content[: 12 + chance.below(len(content) - 12)] + mark


def doubled(content: bytes, chance: Chance) -> bytes:
    start, end = chance.span(content)
    return content[:end] + content[start:end] * (1 + chance.below(50)) + content[end:]


def swapped(content: bytes, chance: Chance) -> bytes:
    start, middle = chance.span(content)
    end = min(len(content), middle + 1 + chance.below(2000))
    return content[:start] + content[middle:end] + content[start:middle] + content[end:]


def spliced(content: bytes, chance: Chance) -> bytes:
    other = chance.others[chance.below(len(chance.others))]
    return content[: 12 + chance.below(len(content) - 12)] + other[chance.below(len(other)) :]


def filled(content: bytes, chance: Chance) -> bytes:
    """A part is all of one byte, or of chance."""
    start, end = chance.span(content)
    what = (bytes(end - start), b"\xff" * (end - start), chance.draw.bytes(end - start))[chance.below(3)]
    return content[:start] + what + content[end:]


def marked(content: bytes, chance: Chance) -> bytes:
    at = 2 + chance.below(len(content) - 2)
    return content[:at] + MARKERS[chance.below(len(MARKERS))] + content[at:]


def commented(content: bytes, chance: Chance) -> bytes:
    """A comment has marks of ends and scans in it."""
    inside = b"".join(MARKERS[chance.below(len(MARKERS))] for _ in range(50))
    if content.startswith(b"\xff\xd8"):
        return content[:2] + segment(0xFE, inside) + content[2:]
    if content.startswith(b"\x89PNG"):
        return content[:33] + chunk(b"tEXt", b"a\0" + inside) + content[33:]
    return content + b"abcd" + struct.pack("<I", len(inside)) + inside


def scanned(content: bytes, chance: Chance) -> bytes:
    """A JPEG's last scan is there up to ninety times; of others the last thousand bytes."""
    at = content.rfind(b"\xff\xda") if content.startswith(b"\xff\xd8") else max(12, len(content) - 1000)
    end = len(content) - 2
    return content[:end] + content[at:end] * (1 + chance.below(90)) + content[end:]


def resized(content: bytes, chance: Chance) -> bytes:
    """The header says another size, up to seven thousand pixels a side; a PNG's checksum is right."""
    width, height = (1 + chance.below(7000) for _ in range(2))
    if content.startswith(b"\x89PNG"):
        body = b"IHDR" + struct.pack(">II", width, height) + content[24:29]
        return content[:12] + body + struct.pack(">I", zlib.crc32(body)) + content[33:]
    found = [content.find(mark) for mark in (b"\xff\xc0", b"\xff\xc2")]
    at = next((place + 5 for place in found if place > 0), 26)
    return content[:at] + struct.pack(">HH", height, width) + content[at + 4 :]


CHANGES: tuple[Callable[[bytes, Chance], bytes], ...] = (
    *(flipped, cut_out, ended_early, doubled, swapped, spliced),
    *(filled, marked, commented, scanned, resized),
)


def mutated(pictures: Sequence[bytes], count: int, seed: int = 0) -> Iterator[Hostile]:
    """So many pictures, each changed once to three times; the same for each seed.

    Args:
        pictures: sound pictures.
        count: how many are made of them, each change as often as any other.
        seed: of all that is drawn.
    """
    for number in range(count):
        draw = np.random.default_rng([seed, number])
        content = pictures[int(draw.integers(len(pictures)))]
        kind = media_type(content)
        alike = [one for one in pictures if media_type(one) == kind]
        chance, names = Chance(draw, alike), []
        for turn in range(1 + chance.below(3)):
            change = CHANGES[(number if turn == 0 else chance.below(len(CHANGES))) % len(CHANGES)]
            content = change(content, chance)
            names.append(change.__name__)
        yield Hostile(f"{kind} {number}: {', '.join(names)}", content, kind, EITHER)
