"""Measuring the skin's typology angle in each picture of a manifest whose tone is declared."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from clients.data.manifests.manifest import Manifest, Row
from clients.data.pictures.files import PictureReader, UnreadablePictureError, locate
from clients.data.progress import progress
from registry.bundle.errors import PictureError
from registry.bundle.pictures.rule import PictureRule, decode_picture
from registry.bundle.skin_tone import skin_tone_angle

RULE = PictureRule(size=128)
"""How pictures are decoded: pixels enough for a median, and quick."""


@dataclass(frozen=True)
class MeasuredTone:
    """The typology angle of one picture beside its declared tone.

    Attributes:
        row: the picture.
        angle: of its skin, degrees; None where too little skin shows.
    """

    row: Row
    angle: float | None


@dataclass(frozen=True)
class MeasuredTones:
    """The measured pictures of a manifest.

    Attributes:
        pictures: those with a declared tone that could be decoded.
        undeclared: how many have no tone; they were not looked at, and have none now.
        broken: what is wrong with each picture that cannot be decoded, one line each.
    """

    pictures: tuple[MeasuredTone, ...]
    undeclared: int
    broken: tuple[str, ...]


def measure_tones(manifest: Manifest) -> MeasuredTones:
    """Decode every picture whose tone is declared and measure the angle of its skin."""
    declared = [row for row in manifest.rows if row.skin_tone]
    seen, broken = _measure(manifest, declared)
    return MeasuredTones(tuple(seen), len(manifest.rows) - len(declared), tuple(broken))


def _measure(manifest: Manifest, rows: Sequence[Row]) -> tuple[list[MeasuredTone], list[str]]:
    threads = min(8, os.cpu_count() or 1)
    with PictureReader() as reader:

        def measure(row: Row) -> MeasuredTone | str:
            try:
                pixels = decode_picture(reader.read(locate(row.image, manifest.folder)), RULE)
            except (UnreadablePictureError, PictureError) as error:
                return f"{row.image}: {error}"
            return MeasuredTone(row, skin_tone_angle(pixels))

        seen, broken = [], []
        with progress("looking at skin", len(rows)) as advance, ThreadPoolExecutor(threads) as pool:
            for answer in pool.map(measure, rows):
                if isinstance(answer, MeasuredTone):
                    seen.append(answer)
                else:
                    broken.append(answer)
                advance(1)
    return seen, broken
