"""Reading and writing manifests as CSV: read with every problem listed, written atomically.

From a manifest's images that are not there to the files that they mean.

A manifest goes from Windows to Linux, from a Mac to a share, through a spreadsheet. Where its `image` is not
there and exactly one file in the same place fits, that one is taken and said. Other folders are not searched:
only what has a Windows drive or a share in front is looked for by its name, where the other pictures are.
"""

import csv
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from clients.data.delimited import (
    AS_TEXT,
    CONTROLS,
    NOTHING,
    DelimitedTable,
    TableLine,
    UnreadableTableError,
    fold,
    read_delimited,
    rounded,
)
from clients.data.errors import ManifestError
from clients.data.manifest import COLUMNS, Manifest, Row
from clients.data.output import Note, listing, write_atomically
from clients.data.picture_files import SUFFIX as ARRAYS
from clients.data.picture_files import ZIP_MARK, UnreadablePictureError, relocate
from clients.data.picture_names import (
    FolderFiles,
    NameMatch,
    files_beside,
    is_foreign,
    is_url,
    matches_said,
    slashed,
)
from registry.bundle.skin_tone import read_scale, read_tone
from registry.bundle.text import nearest
from training.data.dataset import SPLITS


def match_images(images: Sequence[str], folder: Path) -> tuple[list[str], list[str]]:
    """The images with those replaced that are not there and mean one file that is.

    Args:
        images: as a manifest has them.
        folder: what relative paths start from.

    Returns:
        The images in the same order, and what to say of those that were matched.
    """
    looked = _Places(folder)
    absent = [place for place, image in enumerate(images) if image and not looked.holds(image)]
    if not absent:
        return list(images), []
    missing = set(absent)
    others = (image for place, image in enumerate(images) if place not in missing)
    index = looked.around([images[place] for place in absent], others).names
    matched, found = list(images), []
    for place in absent:
        match = index.find(images[place], anywhere=False)
        found.append(match if match.place else NameMatch())
        matched[place] = match.place or images[place]
    return matched, matches_said([images[place] for place in absent], found)


class _Places:
    """Files by where they lie, each folder and zip file looked into once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._members: dict[str, frozenset[str]] = {}

    def holds(self, image: str) -> bool:
        """Whether `image` is there; arrays of a `.npz` file are not looked at, and pass."""
        name, mark, member = image.partition(ZIP_MARK)
        if not mark:
            try:
                return (self._folder / name).is_file()
            except OSError:  # too long for a name
                return False
        if name.lower().endswith(ARRAYS):
            return True
        if name not in self._members:
            files = FolderFiles()
            try:
                files.add_members(self._folder / name, name)
            except UnreadablePictureError:
                files.places.clear()
            self._members[name] = frozenset(files.places)
        return f"{name}{ZIP_MARK}{member}" in self._members[name]

    def around(self, absent: Iterable[str], present: Iterable[str]) -> FolderFiles:
        """The files that images which are not there may mean."""
        folders: set[str] = set()
        files = FolderFiles()
        foreign = False
        for image in absent:
            name, mark, _ = image.partition(ZIP_MARK)
            if is_url(image) or name.lower().endswith(ARRAYS):
                continue
            if mark and name in self._members:
                files.places += sorted(self._members[name])
            elif is_foreign(image):
                foreign = True
            elif (real := self._resolved(slashed(name))) is not None:
                folders.add(real)
        if foreign:
            folders |= {str(PurePosixPath(image).parent) for image in present if ZIP_MARK not in image} | {
                "."
            }
        for shown in sorted(folders):
            try:
                names = files_beside(self._folder / shown)
            except OSError:
                continue
            files.places += [str(PurePosixPath(shown) / name) for name in names]
        return files

    def _resolved(self, path: str) -> str | None:
        """The folder of `path` as it is spelt on disk; None where there is none, or several."""
        shown = PurePosixPath()
        try:
            for part in PurePosixPath(path).parent.parts:
                if not (self._folder / shown / part).is_dir():
                    with os.scandir(self._folder / shown) as entries:
                        folders = [entry.name for entry in entries if entry.is_dir()]
                    alike = [name for name in folders if fold(name) == fold(part)]
                    if len(alike) != 1:
                        return None
                    part = alike[0]
                shown /= part
        except OSError:  # a folder that is closed, or too long for a name
            return None
        return str(shown)


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

    Images that are not there and mean exactly one file that is are read as that file, and noted.

    Raises:
        ManifestError: the file is missing, is no table that can be read, has no rows, or its header lacks
            `image` or has a column twice.
    """
    if not path.is_file():
        raise ManifestError(f"manifest {path} does not exist; make one with `dermfed-data import`")
    try:
        table = read_delimited(path, ("image",))
        return _scan(table, path)
    except UnreadableTableError as error:
        raise ManifestError(f"{path} {error}") from error


def scan_manifests(paths: Sequence[Path]) -> Scan:
    """Several manifests as one, as a job that names all of them reads them; one by itself is as it is.

    Raises:
        ManifestError: as `scan_manifest`, or one is named twice.
    """
    if len({path.absolute() for path in paths}) < len(paths):
        raise ManifestError("a manifest is named twice; name each once")
    scans = [scan_manifest(path) for path in paths]
    if len(scans) == 1:
        return scans[0]
    problems = [f"{path}: {text}" for path, scan in zip(paths, scans, strict=True) for text in scan.problems]
    return Scan(joined([scan.manifest for scan in scans]), tuple(problems))


def joined(manifests: Sequence[Manifest]) -> Manifest:
    """The rows of several manifests in one, from the folder of the first."""
    folder = manifests[0].folder
    rows = [
        replace(row, image=relocate(row.image, one.folder, folder)) for one in manifests for row in one.rows
    ]
    return Manifest.of(rows, folder, [note for one in manifests for note in one.notes])


def write_manifest(manifest: Manifest, path: Path) -> None:
    """Write `manifest`, its relative image paths rewritten to start from the folder of `path`.

    Raises:
        ManifestError: names or cells hold control characters, with which no table is read.
    """

    def lines() -> Iterator[list[str]]:
        yield list(manifest.columns)
        for row in manifest.rows:
            image = relocate(row.image, manifest.folder, path.parent)
            yield [image, *(row.value(column) for column in manifest.columns[1:])]

    written = list(lines())
    problems = [cell for line in written for cell in line if CONTROLS.search(cell)]
    if problems:
        raise ManifestError(
            f"{path} is not written: {len(problems)} cells have control characters, which no table has:\n"
            f"{listing(problems)}\nrename these files, or take the characters out of the cells"
        )
    with write_atomically(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(written)
        file.flush()
        os.fsync(file.fileno())


def _scan(table: DelimitedTable, path: Path) -> Scan:
    image = table.column("image")
    header = ["image" if name == image else name for name in table.header]
    notes = list(table.notes)
    if image is None:
        raise ManifestError(f"{path} has no column 'image'; its columns: {', '.join(header) or 'none'}")
    if image != "image":
        notes.append(
            Note(
                f"{path.name}: column 'image' is read from {image!r}",
                "a table: column 'image' is spelt in another way",
            )
        )
    twice = sorted({name for name in header if name and header.count(name) > 1})
    if twice:
        raise ManifestError(f"{path} has the column {', '.join(twice)} more than once; keep one of each")
    extra_columns = tuple(name for name in header if name and name not in COLUMNS)
    notes += [
        Note(
            f"{path.name}: {name!r} is kept as a column of its own; to be read as {fold(name)!r} it is "
            "spelt so",
            f"a table: a column like {fold(name)!r} is kept as one of its own; to be read it is spelt so",
        )
        for name in extra_columns
        if fold(name) in COLUMNS and fold(name) not in header
    ]
    whole = [line for line in table.lines if not table.fault(line)]
    cells = [dict(zip(header, map(_clean, line.cells), strict=True)) for line in whole]
    images, matched = match_images([cell["image"] for cell in cells], path.parent)
    rows: list[Row] = []
    problems = [(line.number, fault) for line in table.lines if (fault := table.fault(line))]
    seen: dict[str, tuple[int, Row]] = {}
    repeated = 0
    for line, cell, found in zip(whole, cells, images, strict=True):
        row, wrong = _row({**cell, "image": found}, extra_columns)
        number, before = seen.setdefault(row.image, (line.number, row))
        if row.image and number != line.number:
            if row == before:
                repeated += 1
                continue
            wrong.append(f"image {row.image!r} is on line {number} already, with {_differing(before, row)}")
        rows.append(row)
        problems += [(line.number, problem) for problem in wrong]
    if repeated:
        text = f"{repeated} lines repeat an earlier one and count once"
        notes.append(Note(f"{path.name}: {text}", f"a table: {text}"))
    if not rows and not problems:
        raise ManifestError(f"{path} lists no pictures; it needs a line below the header for each")
    told = [f"line {number}: {problem}" for number, problem in sorted(problems, key=lambda found: found[0])]
    manifest = Manifest(tuple(rows), path.parent, extra_columns, (*notes, *matched, *_notes_on(whole, cells)))
    return Scan(manifest, tuple(told))


def _differing(before: Row, row: Row) -> str:
    """What two rows of one picture say differently."""
    columns = [column for column in (*COLUMNS, *row.extra) if before.value(column) != row.value(column)]
    return ", ".join(
        f"{column} {before.value(column)!r} there and {row.value(column)!r} here" for column in columns
    )


def _notes_on(lines: Sequence[TableLine], cells: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """What a spreadsheet may have done to the ids."""
    for column in ("lesion_id", "patient_id"):
        spoilt = [
            line.number for line, cell in zip(lines, cells, strict=True) if rounded(cell.get(column, ""))
        ]
        if spoilt:
            text = (
                f"{column}: {len(spoilt)} cells are numbers that a spreadsheet rounded, so that ids "
                f"become one, the first on line {spoilt[0]}; {AS_TEXT}"
            )
            yield Note(text, text)


def _clean(cell: str) -> str:
    text = cell.strip()
    return "" if text.lower() in NOTHING else text


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
