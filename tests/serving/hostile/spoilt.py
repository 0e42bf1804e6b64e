"""Sound pictures with a bit flipped, a length that lies, or an end that comes too early."""

import struct
from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np

from tests.serving.hostile.piece import (
    EITHER,
    REFUSED,
    Hostile,
    answered,
    encoded,
    jpeg_places,
    pixels,
    png_places,
    webp_places,
)

JPEG, PNG, WEBP = "image/jpeg", "image/png", "image/webp"
Places = Callable[[bytes], Iterator[tuple[str, int]]]
PROFILE = b"profile" * 20
EXIF = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"
SOUND: dict[str, tuple[str, bytes, Places]] = {
    "a JPEG": (JPEG, encoded(pixels(), "JPEG", exif=EXIF), jpeg_places),
    "a progressive JPEG": (JPEG, encoded(pixels(), "JPEG", progressive=True), jpeg_places),
    "a grey JPEG": (JPEG, encoded(pixels().convert("L"), "JPEG"), jpeg_places),
    "a PNG": (PNG, encoded(pixels(), "PNG", exif=EXIF[6:]), png_places),
    "a PNG with a palette": (PNG, encoded(pixels().quantize(16), "PNG"), png_places),
    "a WebP": (WEBP, encoded(pixels(), "WEBP"), webp_places),
    "a lossless WebP": (WEBP, encoded(pixels(), "WEBP", lossless=True), webp_places),
    "a WebP with EXIF": (WEBP, encoded(pixels(), "WEBP", exif=EXIF, icc_profile=PROFILE), webp_places),
}


def spoilt() -> Iterator[Hostile]:
    """Each of these made from each sound picture."""
    for name, (kind, whole, find) in SOUND.items():
        places = [*find(whole)]
        yield from answered(kind, REFUSED, {f"{name} cut {where}": whole[:at] for where, at in places})
        yield from answered(kind, EITHER, dict(_flipped(name, whole, places)))
        yield from answered(kind, EITHER, dict(_doubled(name, kind, whole, places)))


def _flipped(name: str, whole: bytes, places: list[tuple[str, int]]) -> Iterator[tuple[str, bytes]]:
    """A bit at every place where the structure changes, and some anywhere."""
    drawn = np.random.default_rng(len(whole))
    anywhere = [("somewhere", int(at)) for at in drawn.integers(12, len(whole), 8)]
    for number, (where, at) in enumerate([*places, *anywhere]):
        changed = bytearray(whole)
        changed[at] ^= 1 << int(drawn.integers(8))
        yield f"{name} with a bit flipped {where} ({number})", bytes(changed)


def _doubled(
    name: str, kind: str, whole: bytes, places: list[tuple[str, int]]
) -> Iterator[tuple[str, bytes]]:
    """A part left out, and one that is there twice; lengths that lie."""
    begins = [at for where, at in places if where.startswith("before ")]
    for number, (first, second) in enumerate(pairwise(begins)):
        yield f"{name} without part {number}", whole[:first] + whole[second:]
        yield f"{name} with part {number} twice", whole[:second] + whole[first:]
    at = begins[:2][-1]
    order, at = ("<I", at + 4) if kind == WEBP else (">I", at)
    for length in (0, 2**31 - 1, 2**32 - 1):
        lies = whole[:at] + struct.pack(order, length) + whole[at + 4 :]
        yield f"{name} whose second part has the length {length}", lies
