"""Reading what publishers give out: tables, and pictures in a folder or a zip file."""

import csv
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from clients.data.errors import AdapterError
from clients.data.pictures import ZIP_MARK
from clients.data.wording import listing

PICTURE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp"})


def read_table(path: Path, required: Sequence[str]) -> list[dict[str, str]]:
    """The lines of a CSV file with at least the columns `required`, cells stripped.

    Raises:
        AdapterError: the file is not there, is no CSV in UTF-8, or lacks a column.
    """
    if not path.is_file():
        raise AdapterError(f"{path} does not exist; put the published table there")
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = csv.DictReader(file)
            columns = [name.strip() for name in lines.fieldnames or ()]
            missing = [name for name in required if name not in columns]
            if missing:
                raise AdapterError(f"{path} has no column {', '.join(missing)}; it has {', '.join(columns)}")
            lines.fieldnames = columns
            # A short line leaves None where its cells are missing; a long one keeps the rest under None.
            return [{key: (value or "").strip() for key, value in line.items() if key} for line in lines]
    except (csv.Error, UnicodeDecodeError) as error:
        raise AdapterError(f"{path} is not a CSV file in UTF-8: {error}") from error


def find_pictures(folder: Path) -> dict[str, str]:
    """Every picture in `folder`, its sub-folders and the zip files beside its tables.

    Returns:
        By the file's name without suffix: the image's place, as a manifest in `folder` writes it.

    Raises:
        AdapterError: the folder does not exist or two pictures share a name.
    """
    if not folder.is_dir():
        raise AdapterError(f"the folder {folder} does not exist; name the one that holds the pictures")
    places: dict[str, str] = {}
    twice: list[str] = []

    def add(name: PurePosixPath, place: str) -> None:
        if name.suffix.lower() not in PICTURE_SUFFIXES or name.name.startswith("."):
            return
        if name.stem in places:
            twice.append(f"{places[name.stem]} and {place}")
        places.setdefault(name.stem, place)

    for path in sorted(folder.rglob("*")):
        name = PurePosixPath(path.relative_to(folder).as_posix())
        add(name, str(name))
    for archive in sorted(folder.glob("*.zip")):
        for member in _members(archive):
            add(PurePosixPath(member), f"{archive.name}{ZIP_MARK}{member}")
    if twice:
        raise AdapterError(
            f"{len(twice)} pictures in {folder} share a name, so tables cannot tell them apart:\n"
            f"{listing(twice)}\nkeep one of each"
        )
    return places


def image_of(name: str, places: Mapping[str, str], folder: Path) -> str:
    """The place of the picture that a table calls `name`, with or without its suffix.

    A picture that is not there keeps the name that its publisher gives it, so that `dermfed-data check`
    lists all that are missing at once.

    Raises:
        AdapterError: there is no picture at all.
    """
    if not places:
        raise AdapterError(f"{folder} and the zip files in it hold no pictures; unpack or copy them there")
    suffixed = PurePosixPath(name).suffix.lower() in PICTURE_SUFFIXES
    stem = PurePosixPath(name).stem if suffixed else name
    return places.get(stem, name if suffixed else f"{name}.jpg")


def _members(archive: Path) -> list[str]:
    try:
        with zipfile.ZipFile(archive) as file:
            return file.namelist()
    except (zipfile.BadZipFile, OSError) as error:
        raise AdapterError(f"{archive} is no zip file that can be read ({error}); fetch it again") from error
