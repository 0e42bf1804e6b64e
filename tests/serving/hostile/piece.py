"""One hostile picture, and the pieces that such files are made of."""

import io
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

REFUSED = frozenset({400})
LARGE = frozenset({413})
UNSUPPORTED = frozenset({415})
READABLE = frozenset({200})
EITHER = frozenset({200, 400, 413, 415})
"""A spoilt byte may leave a picture whole, or make it any of the others; never a failure."""


@dataclass(frozen=True)
class Hostile:
    """What is sent, and what may be answered.

    Attributes:
        name: what is wrong with it; unique.
        content: the body.
        kind: the media type that it is declared as.
        statuses: what may be answered; 200 where it really is a picture that can be read.
    """

    name: str
    content: bytes
    kind: str
    statuses: frozenset[int]


def answered(kind: str, statuses: frozenset[int], pictures: Mapping[str, bytes]) -> Iterator[Hostile]:
    """Pictures of one media type, by name, of which each may be answered with these statuses."""
    for name, content in pictures.items():
        yield Hostile(name, content, kind, statuses)


def pixels(width: int = 24, height: int = 20, seed: int = 0) -> Image.Image:
    """A picture of noise, the same for each seed."""
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8))


def encoded(image: Image.Image, form: str, **options: Any) -> bytes:
    """The bytes of a picture."""
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def chunk(kind: bytes, data: bytes = b"", checksum: int | None = None) -> bytes:
    """A chunk of a PNG, with its own checksum or a wrong one."""
    total = zlib.crc32(kind + data) if checksum is None else checksum
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", total)


def png(
    width: int, height: int, *chunks: bytes, depth: int = 8, colour: int = 2, interlace: int = 0
) -> bytes:
    """A PNG of this header and these chunks, with its end."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlace)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + b"".join(chunks) + chunk(b"IEND")


def segment(marker: int, data: bytes = b"", length: int | None = None) -> bytes:
    """A segment of a JPEG, with its own length or a wrong one."""
    return bytes([0xFF, marker]) + struct.pack(">H", len(data) + 2 if length is None else length) + data


def riff(*chunks: bytes, size: int | None = None) -> bytes:
    """A WebP of these chunks, with its own size or a wrong one."""
    body = b"WEBP" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body) if size is None else size) + body


def webp_chunk(kind: bytes, data: bytes = b"", length: int | None = None) -> bytes:
    """A chunk of a WebP, with its own length or a wrong one."""
    return kind + struct.pack("<I", len(data) if length is None else length) + data + b"\0" * (len(data) % 2)


def png_places(content: bytes) -> Iterator[tuple[str, int]]:
    """Where each chunk of a PNG begins, and its parts."""
    at, number = 8, 0
    while at < len(content):
        length = struct.unpack(">I", content[at : at + 4])[0]
        name = f"{content[at + 4 : at + 8].decode()} {number}"
        yield f"before {name}", at
        yield f"in the length of {name}", at + 2
        yield f"after the name of {name}", at + 8
        yield f"in the checksum of {name}", at + 10 + length
        at, number = at + 12 + length, number + 1


def jpeg_places(content: bytes) -> Iterator[tuple[str, int]]:
    """Where each segment of a JPEG in front of its pixels begins, and its parts."""
    at, number = 2, 0
    while content[at + 1] != 0xDA:
        length = struct.unpack(">H", content[at + 2 : at + 4])[0]
        name = f"{content[at + 1]:02X} {number}"
        yield f"before {name}", at
        yield f"after the marker of {name}", at + 2
        yield f"in {name}", at + 2 + length // 2
        at, number = at + 2 + length, number + 1
    yield "before the scan", at
    yield "in the scan's header", at + 5
    yield "in the scan", (at + len(content)) // 2
    yield "before the last byte but two", len(content) - 3


def webp_places(content: bytes) -> Iterator[tuple[str, int]]:
    """Where each chunk of a WebP begins, and its parts."""
    at, number = 12, 0
    while at < len(content):
        length = struct.unpack("<I", content[at + 4 : at + 8])[0]
        name = f"{content[at : at + 4].decode().strip()} {number}"
        yield f"before {name}", at
        yield f"in the length of {name}", at + 6
        yield f"after the length of {name}", at + 8
        yield f"in {name}", at + 8 + length // 2
        at, number = at + 8 + length + length % 2, number + 1
