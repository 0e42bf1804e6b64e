"""The angle of the skin in each picture of a manifest, for those whose tone is declared."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from clients.data.manifest import Manifest, Row
from clients.data.pictures import PictureReader, UnreadablePictureError, locate
from clients.data.progress import progress
from registry.bundle.errors import PictureError
from registry.bundle.picture import PictureRule, decode_picture
from registry.bundle.skin_tone import skin_tone_angle

RULE = PictureRule(size=128)
"""How pictures are decoded: pixels enough for a median, and quick."""


@dataclass(frozen=True)
class SeenTone:
    """What one picture looks like beside what was declared.

    Attributes:
        row: the picture.
        angle: of its skin, degrees; None where too little skin shows.
    """

    row: Row
    angle: float | None


@dataclass(frozen=True)
class SeenTones:
    """The pictures of a manifest.

    Attributes:
        pictures: those with a declared tone that could be decoded.
        undeclared: how many have no tone; they were not looked at, and have none now.
        broken: what is wrong with each picture that cannot be decoded, one line each.
    """

    pictures: tuple[SeenTone, ...]
    undeclared: int
    broken: tuple[str, ...]


def look_at_tones(manifest: Manifest, *, threads: int | None = None) -> SeenTones:
    """Decode every picture whose tone is declared and take the angle of its skin.

    Args:
        manifest: the pictures.
        threads: how many are decoded at once; by default one per processor, at most eight.
    """
    declared = [row for row in manifest.rows if row.skin_tone]
    seen, broken = _look(manifest, declared, threads or min(8, os.cpu_count() or 1))
    return SeenTones(tuple(seen), len(manifest.rows) - len(declared), tuple(broken))


def _look(manifest: Manifest, rows: Sequence[Row], threads: int) -> tuple[list[SeenTone], list[str]]:
    with PictureReader() as reader:

        def look(row: Row) -> SeenTone | str:
            try:
                pixels = decode_picture(reader.read(locate(row.image, manifest.folder)), RULE)
            except (UnreadablePictureError, PictureError) as error:
                return f"{row.image}: {error}"
            return SeenTone(row, skin_tone_angle(pixels))

        seen, broken = [], []
        with progress("looking at skin", len(rows)) as advance, ThreadPoolExecutor(threads) as pool:
            for answer in pool.map(look, rows):
                if isinstance(answer, SeenTone):
                    seen.append(answer)
                else:
                    broken.append(answer)
                advance(1)
    return seen, broken
