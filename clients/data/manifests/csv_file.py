"""Reading and writing manifests as CSV: read with every problem listed, written atomically."""

import csv
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from clients.data.atomic_files import write_atomically
from clients.data.errors import ManifestError
from clients.data.manifests.manifest import COLUMNS, Manifest, Row
from clients.data.pictures.files import relocate
from clients.data.wording import listing
from registry.bundle.nearest import nearest
from registry.bundle.skin_tone.scales import read_scale, read_tone
from training.data.dataset import SPLITS

# How spreadsheets and data frames spell "nothing".
_EMPTY = frozenset({"", "nan", "none", "null", "na", "n/a"})


@dataclass(frozen=True)
class Scan:
    """A manifest as read, with its problems.

    Attributes:
        manifest: all rows that have the right number of cells, with what is wrong in them left as it is.
        problems: what is wrong, with line numbers.
    """

    manifest: Manifest
    problems: tuple[str, ...]


def read_manifest(path: Path) -> Manifest:
    """Read and check a manifest.

    Raises:
        ManifestError: as `scan_manifest`, or rows say something impossible; the first twenty problems are
            listed.
    """
    scan = scan_manifest(path)
    if scan.problems:
        raise ManifestError(f"{path} has {len(scan.problems)} problems:\n{listing(scan.problems)}")
    return scan.manifest


def scan_manifest(path: Path) -> Scan:
    """Read a manifest and collect all that is wrong with its rows.

    Raises:
        ManifestError: the file is missing, is no CSV in UTF-8, has no rows, or its header lacks `image` or
            has a column twice.
    """
    if not path.is_file():
        raise ManifestError(f"manifest {path} does not exist; make one with `dermfed-data import`")
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            return _scan(csv.reader(file, strict=True), path)
    except (csv.Error, UnicodeDecodeError) as error:
        raise ManifestError(f"{path} is not a CSV file in UTF-8: {error}") from error


def write_manifest(manifest: Manifest, path: Path) -> None:
    """Write `manifest`, its relative image paths rewritten to start from the folder of `path`."""

    def lines() -> Iterator[list[str]]:
        yield list(manifest.columns)
        for row in manifest.rows:
            image = relocate(row.image, manifest.folder, path.parent)
            yield [image, *(row.value(column) for column in manifest.columns[1:])]

    with write_atomically(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(lines())
        file.flush()
        os.fsync(file.fileno())


def _scan(lines: Iterator[list[str]], path: Path) -> Scan:
    header = [name.strip() for name in next(lines, [])]
    if "image" not in header:
        raise ManifestError(f"{path} has no column 'image'; its columns: {', '.join(header) or 'none'}")
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise ManifestError(f"{path} has the column {', '.join(twice)} more than once; keep one of each")
    extra_columns = tuple(name for name in header if name and name not in COLUMNS)
    rows: list[Row] = []
    problems: list[str] = []
    seen: dict[str, int] = {}
    for number, cells in enumerate(lines, start=2):
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(header):
            problems.append(f"line {number}: {len(cells)} cells where the header has {len(header)}")
            continue
        row, wrong = _row(dict(zip(header, map(_clean, cells), strict=True)), extra_columns)
        if row.image and row.image in seen:
            wrong.append(f"image {row.image!r} is on line {seen[row.image]} already")
        seen.setdefault(row.image, number)
        rows.append(row)
        problems += [f"line {number}: {problem}" for problem in wrong]
    if not rows and not problems:
        raise ManifestError(f"{path} lists no pictures; it needs a line below the header for each")
    return Scan(Manifest(tuple(rows), path.parent, extra_columns), tuple(problems))


def _clean(cell: str) -> str:
    text = cell.strip()
    return "" if text.lower() in _EMPTY else text


def _row(cells: dict[str, str], extra_columns: tuple[str, ...]) -> tuple[Row, list[str]]:
    """The row that `cells` say, and what is wrong with it."""
    wrong = []
    if not cells["image"]:
        wrong.append("image is empty")
    tone, scale, split = (cells.get(name, "") for name in ("skin_tone", "skin_tone_scale", "split"))
    try:
        if scale:
            scale = read_scale(scale)
        if tone and not scale:
            wrong.append(f"skin tone {tone!r} has no skin_tone_scale; a tone means nothing without its scale")
        elif tone:
            tone = read_tone(tone, scale)
    except ValueError as error:
        wrong.append(str(error))
    if split and split not in SPLITS:
        wrong.append(f"split {split!r} does not exist; {nearest(split, list(SPLITS))}, or empty")
    known = {name: cells.get(name, "") for name in COLUMNS}
    known |= {"skin_tone": tone, "skin_tone_scale": scale, "split": split}
    return Row(**known, extra={name: cells[name] for name in extra_columns}), wrong
