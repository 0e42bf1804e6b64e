"""Two tables of a hospital: which diagnosis was of which picture, and what became of the patients.

The service keeps no picture, so the hospital alone knows the first: the columns `picture` and `id`, a line
for each picture of each diagnosis. The second is what `dermfed-outcomes export` writes.
"""

import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TypeVar

from clients.data.errors import ManifestError
from clients.data.manifests.delimited import read_delimited
from clients.data.manifests.text_file import UnreadableTableError
from clients.data.wording import listing
from registry.bundle.nearest import nearest

ANSWERS = ("picture", "id")
OUTCOMES = ("id", "label", "confirmed_by", "date")

HISTOPATHOLOGY, DERMATOLOGIST, FOLLOW_UP = "histopathology", "dermatologist", "follow-up"

STRENGTH: Mapping[str, int] = {HISTOPATHOLOGY: 2, DERMATOLOGIST: 1, FOLLOW_UP: 1}
"""How a label is known, and how much that weighs: a microscope settles what others have said.

Between a dermatologist and a follow-up no rule decides: the one saw the lesion once, the other was long and
looked for change alone.
"""

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
One = TypeVar("One")


@dataclass(frozen=True)
class KnownOutcome:
    """What became of one patient.

    Attributes:
        answer: the id of the diagnosis.
        label: a code of the version that answered; empty where the outcome was taken back.
        source: how it is known, one of `STRENGTH`.
        date: when that was, YEAR-MONTH-DAY.
        usable: whether the label is one of the manifest's; of one that is none no picture gets it.
    """

    answer: str
    label: str
    source: str
    date: str
    usable: bool = True


def read_answers(path: Path) -> list[tuple[str, str]]:
    """Pairs of a picture, as the table has it, and the id of a diagnosis of it; each once.

    Raises:
        ManifestError: the table cannot be read, or lines say what cannot be; the first twenty are listed.
    """

    def pair(cells: Mapping[str, str]) -> tuple[str, str]:
        if not cells["picture"]:
            raise ValueError("picture is empty")
        return cells["picture"], _id(cells["id"])

    return list(dict.fromkeys(_read(path, ANSWERS, pair)))


def read_outcomes(path: Path) -> dict[str, KnownOutcome]:
    """The outcomes of a file of `dermfed-outcomes export`, by id.

    Raises:
        ManifestError: as `read_answers`, or an id is there twice.
    """

    def outcome(cells: Mapping[str, str]) -> KnownOutcome:
        source, day = cells["confirmed_by"], cells["date"]
        if source not in STRENGTH:
            raise ValueError(f"confirmed_by is {source!r}; {nearest(source, list(STRENGTH))}")
        if not _DAY.fullmatch(day):
            raise ValueError(
                f"the date is {day!r}; it is YEAR-MONTH-DAY, as `dermfed-outcomes export` writes"
            )
        date.fromisoformat(day)
        return KnownOutcome(_id(cells["id"]), cells["label"], source, day)

    found = _read(path, OUTCOMES, outcome)
    by_id = {one.answer: one for one in found}
    if len(by_id) < len(found):
        raise ManifestError(
            f"{path} has {len(found) - len(by_id)} ids more than once, so it is not known which line holds; "
            "`dermfed-outcomes export` writes each once"
        )
    return by_id


def _read(path: Path, columns: tuple[str, ...], read: Callable[[Mapping[str, str]], One]) -> list[One]:
    if not path.is_file():
        raise ManifestError(f"{path} does not exist; it is a table with the columns {', '.join(columns)}")
    try:
        table = read_delimited(path, columns)
        places = {name: table.column(name) for name in columns}
    except UnreadableTableError as error:
        raise ManifestError(f"{path} {error}") from error
    missing = [name for name, found in places.items() if found is None]
    if missing:
        raise ManifestError(
            f"{path} has no column {', '.join(missing)}; its columns: {', '.join(table.header) or 'none'}"
        )
    rows, problems = [], []
    for line in table.lines:
        fault = table.fault(line)
        cells = {} if fault else dict(zip(table.header, map(str.strip, line.cells), strict=True))
        try:
            if fault:
                raise ValueError(fault)  # noqa: TRY301 - told like all others
            rows.append(read({name: cells[found] for name, found in places.items() if found is not None}))
        except ValueError as error:
            problems.append(f"line {line.number}: {error}")
    if problems:
        raise ManifestError(f"{path} has {len(problems)} problems:\n{listing(problems)}")
    return rows


def _id(text: str) -> str:
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise ValueError(
            f"the id {text!r} is none of a diagnosis; it is a UUID, as the answer has it"
        ) from None
