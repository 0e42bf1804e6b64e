"""Outcomes as a CSV file, as a pathology system exports them, read line by line: of any length, never whole.

The first line names the columns: `id`, `label`, `confirmed_by`, `date`, and perhaps `corrects`, in any order,
with commas or semicolons between. A file with other columns is refused whole: what else a hospital exports is
nothing for this database. An empty label withdraws what was said.
"""

import csv
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import BinaryIO, Final

from registry.errors import RegistryError
from registry.outcomes.outcome import Outcome, OutcomeRefused, read_confirmed_by, read_date

COLUMNS: Final = ("id", "label", "confirmed_by", "date")
CORRECTS: Final = "corrects"
LONGEST_LINE: Final = 4096
"""Bytes of a line; an outcome takes some eighty."""

_YES: Final = {"": False, "no": False, "yes": True}


class OutcomesFileError(RegistryError):
    """A file of outcomes that cannot be read any further; the text says from which line on."""


@dataclass(frozen=True)
class Line:
    """A line of the file.

    Attributes:
        number: from 1, which is the header.
        text: as it stands there, without its end.
        read: the outcome, or why it is none.
    """

    number: int
    text: str
    read: Outcome | OutcomeRefused


def read_outcomes(file: BinaryIO, today: date | None = None) -> Iterator[Line]:
    """The outcomes of a file, one for each line that is not empty.

    Args:
        file: where to read from.
        today: no outcome is later; by default today, in UTC.

    Raises:
        OutcomesFileError: the columns are not those of outcomes, or a line is no text or endless.
    """
    lines = _lines(file)
    first = next(lines, (1, ""))[1]
    split = ";" if first.count(";") > first.count(",") else ","
    names = [name.strip().lower() for name in next(csv.reader([first], delimiter=split), [])]
    _check_columns(names)
    for number, text in lines:
        if text.strip():
            yield Line(number, text, _read(text, names, split, today))


def _lines(file: BinaryIO) -> Iterator[tuple[int, str]]:
    number = 0
    while raw := file.readline(LONGEST_LINE + 1):
        number += 1
        if len(raw) > LONGEST_LINE:
            raise OutcomesFileError(
                f"line {number} is longer than {LONGEST_LINE:,} bytes; an outcome takes eighty, on one line"
            )
        try:
            text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise OutcomesFileError(
                f"line {number} is not UTF-8 (byte {error.start + 1}); save the file as UTF-8"
            ) from error
        yield number, text.rstrip("\r\n")


def _check_columns(names: list[str]) -> None:
    allowed = (*COLUMNS, CORRECTS)
    # By their places alone: a file without a first line of names begins with a patient.
    wrong = [str(place) for place, name in enumerate(names, 1) if name not in allowed]
    missing = [name for name in COLUMNS if name not in names]
    if wrong or missing or len(set(names)) < len(names):
        what = []
        if wrong:
            of = "column" if len(wrong) == 1 else "columns"
            what.append(f"{of} {', '.join(wrong[:5])} may not be there")
        if missing:
            what.append(
                f"{', '.join(missing)} is missing"
                if len(missing) == 1
                else f"{', '.join(missing)} are missing"
            )
        if not what:
            what.append("a column is there twice")
        raise OutcomesFileError(
            f"line 1 names the columns, and {' and '.join(what)}; it is `{','.join(COLUMNS)}`, and perhaps "
            f"`{CORRECTS}`: take out whatever else was exported"
        )


def _read(text: str, names: list[str], split: str, today: date | None) -> Outcome | OutcomeRefused:
    try:
        values = next(csv.reader([text], delimiter=split, strict=True))
    except csv.Error as error:
        return OutcomeRefused(f"it is no line of a CSV file ({error})")
    if len(values) != len(names):
        return OutcomeRefused(f"it has {len(values)} values for {len(names)} columns")
    try:
        return _outcome(dict(zip(names, map(str.strip, values), strict=True)), today)
    except OutcomeRefused as refused:
        return refused


def _outcome(values: Mapping[str, str], today: date | None) -> Outcome:
    corrects = values.get(CORRECTS, "").lower()
    if corrects not in _YES:
        raise OutcomeRefused(f"{CORRECTS} is {{wrote}}; write yes, or nothing", corrects)
    try:
        answer = str(uuid.UUID(values["id"]))
    except ValueError:
        raise OutcomeRefused(
            "the id {wrote} is none of a diagnosis; it is a UUID, as the answer has it", values["id"]
        ) from None
    return Outcome(
        answer,
        values["label"] or None,
        read_confirmed_by(values["confirmed_by"]),
        read_date(values["date"], today),
        _YES[corrects],
        of_file=True,
    )
