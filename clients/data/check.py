"""What is wrong with a manifest and its pictures, all of it at once."""

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from clients.data.dealing import name_of
from clients.data.groups import components, kinship
from clients.data.manifest import Manifest, Row
from clients.data.manifest_csv import scan_manifest
from clients.data.pictures import PictureReader, UnreadablePictureError, locate
from clients.data.progress import progress
from clients.data.splits import straddling
from registry.bundle.errors import PictureError
from registry.bundle.picture import PictureRule, decode_picture

_RULE = PictureRule(size=32)  # whether a picture decodes does not depend on the size


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        kind: `value` (a row says something impossible), `picture` (missing or broken), `straddling` (one
            lesion, patient or duplicate group on both sides of a split), `duplicate` (the same file under
            different lesions).
        text: where and what.
    """

    kind: Literal["value", "picture", "straddling", "duplicate"]
    text: str


@dataclass(frozen=True)
class CheckReport:
    """What a check found: how many pictures the manifest lists, and all problems."""

    pictures: int
    problems: tuple[Problem, ...]


def check_manifest(path: Path, *, threads: int | None = None) -> CheckReport:
    """Check every row and decode every picture of a manifest.

    Args:
        path: the manifest.
        threads: how many pictures are decoded at once; by default one per processor, at most eight.

    Raises:
        ManifestError: the file is no manifest at all.
    """
    scan = scan_manifest(path)
    rows = scan.manifest.rows
    numbers = components([kinship(row) for row in rows])
    digests, broken = _read_all(scan.manifest, threads or min(8, os.cpu_count() or 1))
    problems = [Problem("value", text) for text in scan.problems]
    problems += [Problem("picture", text) for text in broken]
    problems += [Problem("straddling", text) for text in straddling(rows, numbers)]
    problems += [Problem("duplicate", text) for text in _duplicates(rows, numbers, digests)]
    return CheckReport(len(rows), tuple(problems))


def _read_all(manifest: Manifest, threads: int) -> tuple[list[str], list[str]]:
    """SHA-256 of each picture's bytes, empty where there are none, and what is wrong with pictures."""
    with PictureReader() as reader:

        def read(row: Row) -> tuple[str, str]:
            digest = ""
            try:
                content = reader.read(locate(row.image, manifest.folder))
                digest = hashlib.sha256(content).hexdigest()
                decode_picture(content, _RULE)
            except (UnreadablePictureError, PictureError) as error:
                return digest, f"{row.image}: {error}"
            return digest, ""

        digests, wrong = [], []
        with (
            progress("checking pictures", len(manifest.rows)) as advance,
            ThreadPoolExecutor(threads) as pool,
        ):
            for digest, problem in pool.map(read, manifest.rows):
                digests.append(digest)
                wrong += [problem] if problem else []
                advance(1)
    return digests, wrong


def _duplicates(rows: Sequence[Row], numbers: NDArray[np.int64], digests: Sequence[str]) -> list[str]:
    """Files with the same bytes whose rows nothing ties together."""
    holders: dict[str, dict[int, Row]] = {}
    for row, number, digest in zip(rows, numbers.tolist(), digests, strict=True):
        if digest:
            holders.setdefault(digest, {}).setdefault(number, row)
    return [
        "the same picture: " + ", ".join(f"{row.image} ({name_of(row)})" for row in same.values())
        for same in holders.values()
        if len(same) > 1
    ]
