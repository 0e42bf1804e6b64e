"""Reading published data sets: CSV tables, and pictures in a folder or a zip file."""

import csv
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from clients.data.errors import AdapterError
from clients.data.pictures.files import ZIP_MARK
from clients.data.wording import listing

PICTURE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp"})


def read_table(path: Path, required: Sequence[str], *, key: str | None = None) -> list[dict[str, str]]:
    """The lines of a CSV file with at least the columns `required`, cells stripped.

    Args:
        path: the file.
        required: the columns that must be there.
        key: of those, the column that names each line: it is filled, and no value is there twice.

    Raises:
        AdapterError: the file is not there, is no CSV in UTF-8, lacks a column, has no lines, or `key` does
            not hold.
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
            table = [{name: (cell or "").strip() for name, cell in line.items() if name} for line in lines]
    except (csv.Error, UnicodeDecodeError) as error:
        raise AdapterError(f"{path} is not a CSV file in UTF-8: {error}") from error
    if not table:
        raise AdapterError(f"{path} has no line below its header; put the whole published table there")
    if key is not None:
        refuse_unnamed(path, table, key)
    return table


def refuse_unnamed(path: Path, lines: Sequence[Mapping[str, str]], key: str) -> None:
    """Refuse a table with lines whose `key` is empty or is another line's.

    Raises:
        AdapterError: lists them.
    """
    first: dict[str, int] = {}
    problems = []
    for number, value in enumerate((line[key] for line in lines), start=2):
        if not value:
            problems.append(f"line {number}: {key} is empty")
        elif value in first:
            problems.append(f"line {number}: {key} {value} is on line {first[value]} already")
        first.setdefault(value, number)
    if problems:
        raise AdapterError(f"{path} has {len(problems)} problems:\n{listing(problems)}")


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


def images_of(names: Sequence[str], folder: Path, *, ending: str = "") -> list[str]:
    """The `image` of each picture that a table calls `names`, with or without their suffix.

    A picture that is not there keeps the name that its publisher gives it, so that `dermfed-data check`
    lists all that are missing at once.

    Args:
        names: what the table calls them.
        folder: where they are.
        ending: what the table's names end with and some copies' files do not (`_downsampled`).

    Raises:
        AdapterError: none of them is there.
    """
    places = find_pictures(folder)
    found = [places.get(_stem(name)) or places.get(_stem(name).removesuffix(ending)) for name in names]
    if not any(found) and not any((folder / name).is_file() for name in names):
        raise AdapterError(
            f"all {len(names)} pictures that the table names are missing: none is in {folder}, its "
            f"sub-folders or the zip files in it, which hold {len(places)} other pictures; unpack or copy "
            f"them there"
        )
    return [
        place or (name if _suffixed(name) else f"{name}.jpg")
        for name, place in zip(names, found, strict=True)
    ]


def _suffixed(name: str) -> bool:
    return PurePosixPath(name).suffix.lower() in PICTURE_SUFFIXES


def _stem(name: str) -> str:
    return PurePosixPath(name).stem if _suffixed(name) else name


def _members(archive: Path) -> list[str]:
    try:
        with zipfile.ZipFile(archive) as file:
            return file.namelist()
    except (zipfile.BadZipFile, OSError) as error:
        raise AdapterError(f"{archive} is no zip file that can be read ({error}); fetch it again") from error
