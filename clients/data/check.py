"""`dermfed-data check`: all problems of a manifest and its pictures at once.

Pictures that lines name and that are not there, and those that are there and that no line names.
"""

import hashlib
import os
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from clients.data.case_groups import case_problems
from clients.data.cell_values import UnreadCells
from clients.data.manifest import Manifest, Row, components, linkage_keys
from clients.data.manifest_file import scan_manifests
from clients.data.near_duplicate_links import (
    SamePictures,
    contradictions,
    lesions_of_two_patients,
    same_pictures,
    unlinked,
)
from clients.data.near_duplicates import DECODED, Fingerprints, can_fingerprint, fingerprint
from clients.data.output import progress
from clients.data.partition_rules import name_of, straddling
from clients.data.picture_files import ZIP_MARK, PictureReader, UnreadablePictureError, in_threads, locate
from clients.data.picture_names import FolderFiles, UnusablePicture, files_beside, files_of, find_causes
from clients.data.taxonomy import describe
from registry.bundle.cases import CaseInput
from registry.bundle.errors import PictureError
from registry.bundle.pictures.open_file import open_picture
from registry.bundle.pictures.rule import PictureRule, decode_opened
from registry.bundle.text import on_one_line

EXAMPLES = 20  # how many files are named
NAMED = 5  # how many diagnoses


@dataclass(frozen=True)
class UnlistedPictures:
    """Pictures on disk that no line names: how many, and the first of them."""

    count: int
    examples: tuple[str, ...]

    def __str__(self) -> str:
        shown = ", ".join(map(on_one_line, self.examples[:3])) + (", ..." if self.count > 3 else "")
        return f"{self.count} pictures on disk are named by no line: {shown}"


NONE_UNLISTED = UnlistedPictures(0, ())


NO_BYTES = "no bytes at all"


def absent_pictures(manifest: Manifest) -> dict[int, UnusablePicture]:
    """By place among the rows, the pictures that are not on disk, or have no bytes. No picture is read."""
    absent = {}
    with PictureReader() as reader, progress("looking for pictures", len(manifest.rows)) as advance:
        for place, row in enumerate(manifest.rows):
            file = locate(row.image, manifest.folder)
            try:
                size, _ = reader.stamp(file)
                reason = "" if size else NO_BYTES
            except UnreadablePictureError as error:
                reason = str(error)
            if reason:
                absent[place] = UnusablePicture(row.image, file, reason)
            advance(1)
    return absent


def unlisted_in(manifest: Manifest, folder: Path) -> UnlistedPictures:
    """The pictures in `folder`, its sub-folders and its zip files that no line of `manifest` names."""
    try:
        files = files_of(folder)
    except (OSError, UnreadablePictureError):
        return NONE_UNLISTED
    return _unlisted(manifest, files.pictures, folder)


def unlisted_beside(manifest: Manifest) -> UnlistedPictures:
    """The pictures that lie in the folders and zip files of those of `manifest`, and that no line names."""
    containers = {
        (image.partition(ZIP_MARK)[0], True)
        if ZIP_MARK in image
        else (str(PurePosixPath(image).parent), False)
        for image in (row.image for row in manifest.rows)
    }
    shown: list[str] = []
    for container, archive in containers:
        path, files = manifest.folder / container, FolderFiles()
        try:
            if archive and zipfile.is_zipfile(path):
                files.add_members(path, container)
            elif not archive:
                files.places += [str(PurePosixPath(container) / name) for name in files_beside(path)]
        except (OSError, UnreadablePictureError):
            continue  # what is not there is a problem of the lines that name it
        shown += files.pictures
    return _unlisted(manifest, shown, manifest.folder)


def _unlisted(manifest: Manifest, shown: Sequence[str], folder: Path) -> UnlistedPictures:
    real: dict[str, str] = {}

    def key(image: str, start: Path) -> str:
        """One name for a file, under whatever links it is reached."""
        name, mark, member = image.partition(ZIP_MARK)
        path = start / name
        parent = real.setdefault(str(path.parent), os.path.realpath(path.parent))
        return f"{parent}/{path.name}{mark}{member}"

    listed = {key(row.image, manifest.folder) for row in manifest.rows}
    folded = {name.casefold(): name for name in listed}

    def named(place: str) -> bool:
        name = key(place, folder)
        other = folded.get(name.casefold())
        return name in listed or (other is not None and _same(name, other))

    unlisted = [place for place in shown if not named(place)]
    return UnlistedPictures(len(unlisted), tuple(unlisted[:EXAMPLES]))


def _same(one: str, other: str) -> bool:
    """Whether two spellings are one file, as on a disk that does not tell case apart."""
    try:
        return Path(one).samefile(other)
    except (OSError, ValueError):
        return False


_RULE = PictureRule(size=32)  # whether a picture decodes does not depend on the size
_LARGER = PictureRule(size=DECODED)  # for fingerprints


@dataclass(frozen=True)
class ProblemKind:
    """A kind of problem: what it is, what to do about it, and whether a job runs with it."""

    title: str
    next: str
    may_stay: bool = False


KINDS: Mapping[str, ProblemKind] = {
    "value": ProblemKind("Rows that say something impossible", "Mend the cell, or leave it empty."),
    "picture": ProblemKind(
        "Pictures that are missing or broken",
        "Fetch them again, mend the column image, or leave the rows out, as “on_broken: skip” in a job does.",
    ),
    "straddling": ProblemKind(
        "Lesions, patients or duplicates on both sides of a split",
        "Give them one split, or leave the column empty: a job then deals them whole.",
    ),
    "case": ProblemKind(
        "Pictures of a lesion that contradict each other, or facts that cannot be read",
        "Mend the table; an empty cell contradicts nothing.",
    ),
    "duplicate": ProblemKind(
        "The same picture under different lesions",
        "A job keeps them on one side of a split; remove all but one, or give them one lesion_id.",
        may_stay=True,
    ),
    "near-duplicate": ProblemKind(
        "Pictures that are alike but for how they were saved, under different lesions",
        "A job may split them, and its figures be too good: look, and keep them together by "
        "“dermfed-data link”.",
        may_stay=True,
    ),
    "contradiction": ProblemKind(
        "One picture with two diagnoses",
        "A job learns both; find out which is right, and mend or remove the other row.",
        may_stay=True,
    ),
    "burned-in": ProblemKind(
        "Pictures of which the DICOM file says that texts are burned in",
        "A job learns from them as they are; look whether they name the patient, and export them without.",
        may_stay=True,
    ),
    "lesion": ProblemKind(
        "One lesion at two patients",
        "A job takes them for one patient; mend patient_id, or give the lesions ids of their own.",
        may_stay=True,
    ),
}
"""The kinds of problems. Published data have some that cannot be mended from outside: those may stay."""


@dataclass(frozen=True)
class ManifestProblem:
    """One problem of a row or a picture.

    Attributes:
        kind: one of `KINDS`.
        text: where and what.
        cause: of a picture that cannot be used, what it shares with others; empty for all other problems.
    """

    kind: str
    text: str
    cause: str = ""


@dataclass(frozen=True)
class CheckReport:
    """The number of pictures that a manifest lists, all problems, and what is none.

    Attributes:
        pictures: how many it lists.
        problems: what is wrong.
        notes: what reading the manifest took for granted, and how names were matched to files.
        unlisted: pictures that lie where those of the manifest do, and that no line names.
        near_duplicates: whether near-duplicates were sought.
        codes: by column the values that cannot be read, and a proposal of what each may mean.
    """

    pictures: int
    problems: tuple[ManifestProblem, ...]
    notes: tuple[str, ...] = ()
    unlisted: UnlistedPictures = NONE_UNLISTED
    near_duplicates: bool = False
    codes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def stopping(self) -> int:
        """How many of the problems stop a job."""
        return sum(not KINDS[problem.kind].may_stay for problem in self.problems)

    @property
    def summary(self) -> str:
        """How many problems there are, and of those that may stay what a job makes of them."""
        if not self.problems:
            return "no problems"
        stopping = f"{self.stopping or 'no'} problems that stop a job"
        staying = Counter(problem.kind for problem in self.problems if KINDS[problem.kind].may_stay)
        lines = [f"  {count} {kind}: {KINDS[kind].next}" for kind, count in staying.items()]
        return "\n".join([f"{stopping}; {staying.total()} that may stay:", *lines] if lines else [stopping])


def check_manifest(
    *paths: Path,
    case: CaseInput | None = None,
    near_duplicates: bool | None = None,
) -> CheckReport:
    """Check every row and decode every picture of a manifest, or of several as one.

    Args:
        paths: the manifests of one job; near-duplicates are sought across them, too.
        case: what its lesions have, where they are to be cases.
        near_duplicates: whether to look for them; by default where the library that this needs is installed.

    Raises:
        ManifestError: a file is no manifest at all.
        MissingLibraryError: near-duplicates are asked for, and the library is not installed.
    """
    seek = can_fingerprint() if near_duplicates is None else near_duplicates
    scan = scan_manifests(paths)
    rows = scan.manifest.rows
    component_ids = components([linkage_keys(row) for row in rows])
    same, broken, burned_in = read_all(scan.manifest, near_duplicates=seek)
    contradicting, unread = case_problems(rows, case) if case is not None else ([], UnreadCells())
    problems = [ManifestProblem("value", text) for text in scan.problems]
    for picture, cause in zip(broken, find_causes(broken), strict=True):
        detail = f" ({cause.detail})" if cause.detail and cause.detail not in picture.reason else ""
        text = f"{picture.shown}: {picture.reason}{detail}"
        problems.append(ManifestProblem("picture", text, cause.common))
    found = {
        "burned-in": burned_in,
        "straddling": straddling(rows, component_ids),
        "duplicate": _duplicates(rows, component_ids, same),
        "near-duplicate": unlinked(rows, component_ids, same.near),
        "contradiction": contradictions(rows, same),
        "lesion": lesions_of_two_patients(rows),
        "case": [*unread.lines, *contradicting],
    }
    problems += [ManifestProblem(kind, text) for kind, texts in found.items() for text in texts]
    unlisted, notes = unlisted_beside(scan.manifest), (*scan.manifest.notes, *unknown_diagnoses(rows))
    return CheckReport(len(rows), tuple(problems), notes, unlisted, seek, unread.codes)


def unknown_diagnoses(rows: Sequence[Row]) -> Iterator[str]:
    """A note on diagnoses of which it is not known whether they are malignant, if there are any."""
    labels = dict.fromkeys(row.label for row in rows if row.label)
    unknown = [label for label in labels if describe(label).malignancy == "unknown"]
    if unknown:
        named = ", ".join(map(repr, unknown[:NAMED])) + (", ..." if len(unknown) > NAMED else "")
        yield (
            f"diagnoses whose meaning is not known: {len(unknown)} ({named}). A job with “label_map: "
            "malignancy” refuses them: map them at the import (“codes”), or give it a label_map of its own"
        )


def read_all(
    manifest: Manifest, *, near_duplicates: bool
) -> tuple[SamePictures, list[UnusablePicture], list[str]]:
    """Read and decode every picture.

    Returns:
        Which rows show the same picture, near-duplicates only where they are asked for; the pictures that
        cannot be used; and those of which the DICOM file says that texts are burned in.
    """
    with PictureReader() as reader:

        def read(row: Row) -> tuple[str, UnusablePicture | None, Fingerprints | None, bool]:
            digest, file = "", locate(row.image, manifest.folder)
            try:
                content = reader.read(file)
                digest = hashlib.sha256(content).hexdigest()
                opened = open_picture(content)
                pixels = decode_opened(opened, _LARGER if near_duplicates else _RULE)
            except (UnreadablePictureError, PictureError) as error:
                return digest, UnusablePicture(row.image, file, str(error)), None, False
            made = fingerprint(pixels) if near_duplicates else None
            return digest, None, made, opened.info.get("burned_in", False)

        found = list(in_threads("checking pictures", read, manifest.rows))
    prints = {row: made for row, (_, _, made, _) in enumerate(found) if made is not None}
    same = same_pictures([digest for digest, *_ in found], prints)
    broken = [problem for _, problem, _, _ in found if problem is not None]
    return same, broken, [row.image for row, (*_, texts) in zip(manifest.rows, found, strict=True) if texts]


def _duplicates(rows: Sequence[Row], component_ids: NDArray[np.int64], same: SamePictures) -> list[str]:
    """Files with the same bytes whose rows are not linked."""
    lines = []
    for group in same.identical:
        holders: dict[int, Row] = {}
        for row in group:
            holders.setdefault(int(component_ids[row]), rows[row])
        if len(holders) > 1:
            told = ", ".join(f"{row.image} ({name_of(row)})" for row in holders.values())
            lines.append(f"the same picture: {told}")
    return lines
