"""What `dermfed-diagnose` asks about: pictures by themselves, or the lesions of a table, with facts."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from clients.api import InvalidInput

NAME: Final = "case"
PICTURES: Final = ("image", "close_up", "dermoscopic", "overview")
FACTS: Final = ("age", "sex", "site")
TONE: Final = ("skin_tone", "skin_tone_scale")
OTHER_FACT: Final = "fact:"
"""What the name of a column begins with that is any other fact of the model."""


@dataclass(frozen=True)
class Lesion:
    """One lesion to request a diagnosis for.

    Attributes:
        name: identifies its answer.
        arguments: of `DermFed.diagnose`.
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


def read_lesions(path: Path) -> list[Lesion]:
    """The lesions of a CSV file, a row each; paths of pictures are relative to the file's folder.

    Raises:
        InvalidInput: the file cannot be read, has a column that is not sent, a row without a name of its own
            or without a picture, or names a picture that is not there.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            columns, rows = reader.fieldnames or (), list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidInput(f"{path} cannot be read as a CSV file ({error}); name another") from error
    allowed = (NAME, *PICTURES, *FACTS, *TONE)
    if wrong := [one for one in columns if one not in allowed and not one.startswith(OTHER_FACT)]:
        raise InvalidInput(
            f"{path} has the column {', '.join(wrong)}, which is not sent; columns are {', '.join(allowed)}, "
            f"and {OTHER_FACT}NAME for another fact of the model"
        )
    if NAME not in columns or not rows:
        raise InvalidInput(f"{path} has no column `{NAME}`, or no rows; give a name to each lesion")
    return list(_lesions(path, rows))


def _lesions(path: Path, rows: Sequence[Mapping[str | None, Any]]) -> Iterator[Lesion]:
    names: set[str] = set()
    for number, row in enumerate(rows, start=2):
        if None in row or None in row.values():
            raise InvalidInput(f"{path}, line {number}: more or fewer cells than columns; mend it")
        cells = {str(column): cell.strip() for column, cell in row.items() if cell.strip()}
        name = cells.pop(NAME, "")
        if not name or name in names:
            raise InvalidInput(
                f"{path}, line {number}: {name or 'no name'}; each lesion has a name of its own"
            )
        names.add(name)
        pictures: dict[str, Path] = {
            column: path.parent / cells[column] for column in PICTURES if column in cells
        }
        if not pictures:
            raise InvalidInput(f"{path}, line {number}: no picture; name one in {', '.join(PICTURES)}")
        for picture in pictures.values():
            if not picture.is_file():
                raise InvalidInput(f"{path}, line {number}: there is no picture {picture}; mend its path")
        facts = {
            column.removeprefix(OTHER_FACT): cell
            for column, cell in cells.items()
            if column in FACTS or column.startswith(OTHER_FACT)
        }
        tone: dict[str, str] = {column: cells[column] for column in TONE if column in cells}
        yield Lesion(name, {**pictures, **tone, "facts": facts})
