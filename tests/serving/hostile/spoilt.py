"""Sound pictures with a bit flipped, a length that lies, or an end that comes too early."""

import struct
from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np

from tests.serving.hostile.piece import (
    EITHER,
    REFUSED,
    Hostile,
    encoded,
    jpeg_places,
    pixels,
    png_places,
    webp_places,
)

Places = Callable[[bytes], Iterator[tuple[str, int]]]

PROFILE = b"profile" * 20
EXIF = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"

SOUND: dict[str, tuple[str, bytes, Places]] = {
    "a JPEG": ("image/jpeg", encoded(pixels(), "JPEG", exif=EXIF), jpeg_places),
    "a progressive JPEG": ("image/jpeg", encoded(pixels(), "JPEG", progressive=True), jpeg_places),
    "a grey JPEG": ("image/jpeg", encoded(pixels().convert("L"), "JPEG"), jpeg_places),
    "a PNG": ("image/png", encoded(pixels(), "PNG", exif=EXIF[6:]), png_places),
    "a PNG with a palette": ("image/png", encoded(pixels().quantize(16), "PNG"), png_places),
    "a WebP": ("image/webp", encoded(pixels(), "WEBP"), webp_places),
    "a lossless WebP": ("image/webp", encoded(pixels(), "WEBP", lossless=True), webp_places),
    "a WebP with EXIF": (
        "image/webp",
        encoded(pixels(), "WEBP", exif=EXIF, icc_profile=PROFILE),
        webp_places,
    ),
}


def spoilt() -> Iterator[Hostile]:
    """Each of these made from each sound picture."""
    for name, (kind, whole, places) in SOUND.items():
        yield from _cut(name, kind, whole, places)
        yield from _flipped(name, kind, whole, places)
        yield from _doubled(name, kind, whole, places)


def _cut(name: str, kind: str, whole: bytes, places: Places) -> Iterator[Hostile]:
    for where, at in places(whole):
        yield Hostile(f"{name} cut {where}", whole[:at], kind, REFUSED)


def _flipped(name: str, kind: str, whole: bytes, places: Places) -> Iterator[Hostile]:
    """A bit at every place where the structure changes, and some anywhere."""
    drawn = np.random.default_rng(len(whole))
    anywhere = [("somewhere", int(at)) for at in drawn.integers(12, len(whole), 8)]
    for number, (where, at) in enumerate([*places(whole), *anywhere]):
        changed = bytearray(whole)
        changed[at] ^= 1 << int(drawn.integers(8))
        yield Hostile(f"{name} with a bit flipped {where} ({number})", bytes(changed), kind, EITHER)


def _doubled(name: str, kind: str, whole: bytes, places: Places) -> Iterator[Hostile]:
    """A part left out, and a length of 0 and of 2 to the 32 in its place."""
    begins = [at for where, at in places(whole) if where.startswith("before ")]
    for number, (first, second) in enumerate(pairwise(begins)):
        yield Hostile(f"{name} without part {number}", whole[:first] + whole[second:], kind, EITHER)
        twice = whole[:second] + whole[first:]
        yield Hostile(f"{name} with part {number} twice", twice, kind, EITHER)
    at = begins[min(1, len(begins) - 1)]
    for length in (0, 2**31 - 1, 2**32 - 1):
        order = "<I" if kind == "image/webp" else ">I"
        place = at + 4 if kind == "image/webp" else at
        lies = whole[:place] + struct.pack(order, length) + whole[place + 4 :]
        yield Hostile(f"{name} whose second part has the length {length}", lies, kind, EITHER)
