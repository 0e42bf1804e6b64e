"""Outcomes as a CSV file, as a pathology system exports them, read line by line: of any length, never whole.

The first line names the columns: `id`, `label`, `confirmed_by`, `date`, and perhaps `corrects`, in any order,
with commas or semicolons between. A file with other columns is refused whole: what else a hospital exports is
nothing for this database. An empty label withdraws what was said.

Imports a file of outcomes: some lines in each transaction, so that a kill loses and doubles nothing.

Outcomes as a CSV file for whoever knows which picture an answer was of: no fact about a person is in it.

A line for each answer of which an outcome was ever given, as it stands now. One that was taken back has an
empty label: without that line, nobody could take back what was made of it elsewhere.
"""

import csv
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from itertools import islice
from typing import BinaryIO, Final, TextIO

from sqlalchemy import select

from registry.database.connection import reading
from registry.errors import RegistryError
from registry.outcomes.records import (
    AnsweringRow,
    AnswerRow,
    Outcome,
    OutcomeRefused,
    OutcomeRow,
    read_confirmed_by,
    read_date,
)
from registry.outcomes.store import ANYBODY, OutcomeStore, Refusal, Taken

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


IMPORT_BATCH = 1000
"""Lines of one transaction."""


@dataclass
class Imported:
    """What became of the lines of a file.

    Attributes:
        taken: how many of each kind.
        refused: how many were not taken.
    """

    taken: Counter[Taken] = field(default_factory=Counter)
    refused: int = 0

    @property
    def lines(self) -> int:
        """How many lines there were, the first one left out."""
        return self.taken.total() + self.refused


def import_outcomes(
    store: OutcomeStore,
    lines: Iterable[Line],
    refused: Callable[[Line, OutcomeRefused], None],
    together: Callable[[Imported], None] = lambda so_far: None,
) -> Imported:
    """Takes the outcomes of lines; to import the same ones again changes nothing.

    Args:
        store: where to.
        lines: of the file.
        refused: called for each line that is not taken, in their order.
        together: called after each transaction.

    Raises:
        DatabaseError: the database cannot be written; what was imported before stays.
        OutcomesFileError: the file cannot be read further; likewise.
    """
    found = Imported()
    for part in _parts(iter(lines)):
        given = [(line, line.read) for line in part if isinstance(line.read, Outcome)]
        told = iter(store.give([outcome for _, outcome in given], ANYBODY))
        for line in part:
            became = next(told) if isinstance(line.read, Outcome) else line.read
            if isinstance(became, Refusal):
                became = became.why
            if isinstance(became, OutcomeRefused):
                found.refused += 1
                refused(line, became)
            else:
                found.taken[became] += 1
        together(found)
    return found


def _parts(lines: Iterator[Line]) -> Iterator[list[Line]]:
    """Lists of lines; those before one that cannot be read are a list of their own, which comes first."""
    while True:
        part: list[Line] = []
        try:
            for line in islice(lines, IMPORT_BATCH):
                part.append(line)  # noqa: PERF402 - what came before one that cannot be read is kept
        except OutcomesFileError:
            yield part
            raise
        if not part:
            return
        yield part


EXPORTED: Final = ("id", "label", "confirmed_by", "date", "model", "version")
EXPORT_BATCH: Final = 1000
"""Rows that are fetched at a time."""


@dataclass(frozen=True)
class ExportedOutcome:
    """What is known to have become of one answer.

    Attributes:
        answer: the id of the diagnosis.
        label: a code of the version that answered; None where the outcome was taken back.
        confirmed_by: how it is known.
        confirmed_on: when that was.
        model: whose version answered.
        version: its number.
    """

    answer: str
    label: str | None
    confirmed_by: str
    confirmed_on: date
    model: str
    version: int


def current_outcomes(store: OutcomeStore, model: str | None = None) -> Iterator[ExportedOutcome]:
    """The outcomes as they stand, in the order in which they became known.

    Args:
        store: where they are.
        model: those of its versions alone; by default all.

    Raises:
        DatabaseError: they cannot be read.
    """
    asked = (
        select(
            OutcomeRow.answer,
            OutcomeRow.label,
            OutcomeRow.confirmed_by,
            OutcomeRow.confirmed_on,
            AnsweringRow.labels,
            AnsweringRow.model,
            AnsweringRow.version,
        )
        .join(AnswerRow, AnswerRow.id == OutcomeRow.answer)
        .join(AnsweringRow, AnsweringRow.id == AnswerRow.answering)
        .where(OutcomeRow.current)
        .order_by(OutcomeRow.number)
    )
    if model is not None:
        asked = asked.where(AnsweringRow.model == model)
    with reading(store.engine) as connection:
        rows = connection.execution_options(yield_per=EXPORT_BATCH).execute(asked)
        for answer, label, confirmed_by, confirmed_on, labels, of, version in rows:
            code = None if label is None else str(labels[label][0])
            yield ExportedOutcome(answer, code, confirmed_by, confirmed_on, of, version)


def write_outcomes(outcomes: Iterator[ExportedOutcome], file: TextIO) -> int:
    """Writes them as CSV; returns how many there were."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(EXPORTED)
    count = 0
    for one in outcomes:
        writer.writerow(
            [one.answer, one.label or "", one.confirmed_by, one.confirmed_on, one.model, one.version]
        )
        count += 1
    return count
