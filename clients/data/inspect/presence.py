"""Pictures that lines name and that are not there, and those that are there and that no line names."""

import os
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from clients.data.manifests.manifest import Manifest
from clients.data.output import progress
from clients.data.pictures.causes import EMPTY, UnusablePicture, find_causes
from clients.data.pictures.files import ZIP_MARK, PictureReader, UnreadablePictureError, locate
from clients.data.pictures.names import FolderFiles, files_beside, files_of
from registry.bundle.text import on_one_line

EXAMPLES = 20  # how many files are named


@dataclass(frozen=True)
class UnlistedPictures:
    """Pictures on disk that no line names: how many, and the first of them."""

    count: int
    examples: tuple[str, ...]

    def __str__(self) -> str:
        shown = ", ".join(map(on_one_line, self.examples[:3])) + (", ..." if self.count > 3 else "")
        return f"{self.count} pictures on disk are named by no line: {shown}"


NONE_UNLISTED = UnlistedPictures(0, ())


@dataclass(frozen=True)
class AbsentPicture:
    """A line whose picture is not there or is empty.

    Attributes:
        row: its place among the manifest's rows.
        image: the picture, as the line has it.
        cause: why.
        detail: what is of this picture alone; empty where nothing is.
        empty: whether there is a file, of no bytes.
    """

    row: int
    image: str
    cause: str
    detail: str
    empty: bool

    @property
    def shown(self) -> str:
        """The picture, with what is of it alone."""
        return f"{self.image}: {self.detail}" if self.detail else self.image


def absent_pictures(manifest: Manifest) -> list[AbsentPicture]:
    """The lines of `manifest` whose picture is not on disk, or has no bytes. No picture is read."""
    absent: list[tuple[int, UnusablePicture]] = []
    with PictureReader() as reader, progress("looking for pictures", len(manifest.rows)) as advance:
        for place, row in enumerate(manifest.rows):
            file = locate(row.image, manifest.folder)
            try:
                size, _ = reader.stamp(file)
                reason = "" if size else "no bytes at all"
            except UnreadablePictureError as error:
                reason = str(error)
            if reason:
                absent.append((place, UnusablePicture(row.image, file, reason)))
            advance(1)
    causes = find_causes(picture for _, picture in absent)
    return [
        AbsentPicture(place, picture.shown, cause.common, cause.detail, cause.common == EMPTY)
        for (place, picture), cause in zip(absent, causes, strict=True)
    ]


def group_absent(absent: Iterable[AbsentPicture]) -> dict[str, list[str]]:
    """By cause, the most frequent first, the pictures."""
    groups: dict[str, list[str]] = {}
    for picture in absent:
        groups.setdefault(picture.cause, []).append(picture.shown)
    return dict(sorted(groups.items(), key=lambda group: -len(group[1])))


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


COLUMNS: Final = (
    "clinic",
    "hospital",
    "centre",
    "center",
    "institution",
    "institute",
    "department",
    "practice",
    "dataset",
)
