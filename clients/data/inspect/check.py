"""`dermfed-data check`: all problems of a manifest and its pictures at once."""

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from clients.data.case_groups import case_problems
from clients.data.manifests.csv_file import scan_manifest
from clients.data.manifests.groups import components, linkage_keys
from clients.data.manifests.manifest import Manifest, Row
from clients.data.partition.assign import name_of
from clients.data.partition.splits import straddling
from clients.data.pictures.files import PictureReader, UnreadablePictureError, locate
from clients.data.progress import progress
from registry.bundle.cases.case_input import CaseInput
from registry.bundle.errors import PictureError
from registry.bundle.pictures.rule import PictureRule, decode_picture

_RULE = PictureRule(size=32)  # whether a picture decodes does not depend on the size


@dataclass(frozen=True)
class ManifestProblem:
    """One problem of a row or a picture.

    Attributes:
        kind: `value` (a row says something impossible), `picture` (missing or broken), `straddling` (one
            lesion, patient or duplicate group on both sides of a split), `duplicate` (the same file under
            different lesions), `case` (what cannot be a kind or a fact, or pictures of a lesion that
            contradict each other).
        text: where and what.
    """

    kind: Literal["value", "picture", "straddling", "duplicate", "case"]
    text: str


@dataclass(frozen=True)
class CheckReport:
    """The number of pictures that a manifest lists, and all problems."""

    pictures: int
    problems: tuple[ManifestProblem, ...]


def check_manifest(path: Path, *, threads: int | None = None, case: CaseInput | None = None) -> CheckReport:
    """Check every row and decode every picture of a manifest.

    Args:
        path: the manifest.
        threads: how many pictures are decoded at once; by default one per processor, at most eight.
        case: what its lesions have, where they are to be cases.

    Raises:
        ManifestError: the file is no manifest at all.
    """
    scan = scan_manifest(path)
    rows = scan.manifest.rows
    component_ids = components([linkage_keys(row) for row in rows])
    digests, broken = _read_all(scan.manifest, threads or min(8, os.cpu_count() or 1))
    problems = [ManifestProblem("value", text) for text in scan.problems]
    problems += [ManifestProblem("picture", text) for text in broken]
    problems += [ManifestProblem("straddling", text) for text in straddling(rows, component_ids)]
    problems += [ManifestProblem("duplicate", text) for text in _duplicates(rows, component_ids, digests)]
    if case is not None:
        problems += [ManifestProblem("case", text) for text in case_problems(rows, case)]
    return CheckReport(len(rows), tuple(problems))


def _read_all(manifest: Manifest, threads: int) -> tuple[list[str], list[str]]:
    """SHA-256 of each picture's bytes, empty where there are none, and the problems of pictures."""
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


def _duplicates(rows: Sequence[Row], component_ids: NDArray[np.int64], digests: Sequence[str]) -> list[str]:
    """Files with the same bytes whose rows are not linked."""
    holders: dict[str, dict[int, Row]] = {}
    for row, number, digest in zip(rows, component_ids.tolist(), digests, strict=True):
        if digest:
            holders.setdefault(digest, {}).setdefault(number, row)
    return [
        "the same picture: " + ", ".join(f"{row.image} ({name_of(row)})" for row in same.values())
        for same in holders.values()
        if len(same) > 1
    ]
