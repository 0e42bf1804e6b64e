"""Outcomes as text: validated fields, and CSV files that are read and written line by line.

The first line of a file names the columns: `id`, `label`, `confirmed_by`, `date`, and perhaps `corrects`, in
any order, separated by commas or semicolons. A file with other columns is refused as a whole: what else a
hospital exports is nothing for this database. An empty label withdraws the outcome that is known. A file is
taken in transactions of some lines each, so that an import that is killed and started again loses and doubles
nothing.

An exported file has a line for each answer of which an outcome was ever given, as it is known now. The label
of a withdrawn one is empty, so that a copy elsewhere can be withdrawn too.
"""

import csv
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import BinaryIO, Final, NamedTuple, TextIO, get_args

from sqlalchemy import func, select

from registry.bundle.text import nearest
from registry.database.connection import reading
from registry.errors import RegistryError
from registry.outcomes.store import (
    ANY_KEY,
    AnsweringRow,
    AnswerRow,
    ConfirmedBy,
    Outcome,
    OutcomeRefused,
    OutcomeRow,
    OutcomeStore,
    Taken,
)

CONFIRMED_BY: Final[tuple[ConfirmedBy, ...]] = get_args(ConfirmedBy)
EARLIEST: Final = date(1990, 1, 1)  # an earlier day is a mistyped one
COLUMNS: Final = ("id", "label", "confirmed_by", "date")
LONGEST_LINE: Final = 4096  # bytes; an outcome takes some eighty
BATCH = 1000  # lines of one transaction, and rows that are read together
_CORRECTS: Final = {"": False, "no": False, "yes": True}


class OutcomesFileError(RegistryError):
    """A file of outcomes that cannot be read any further; the text says from which line on."""


def read_confirmed_by(text: str) -> ConfirmedBy:
    """Parse how an outcome was confirmed.

    Raises:
        OutcomeRefused: it is none of the known ways.
    """
    if text in CONFIRMED_BY:
        return text
    raise OutcomeRefused(f"confirmed_by is {{wrote}}; {nearest(text[:100], CONFIRMED_BY)}", text)


def read_date(text: str, today: date | None = None) -> date:
    """Parse the day of an outcome.

    Raises:
        OutcomeRefused: it is no day, or one that cannot be.
    """
    try:
        day = datetime.strptime(text, "%Y-%m-%d").date()
    except ValueError:
        raise OutcomeRefused(
            "the date is {wrote}; write a day as YEAR-MONTH-DAY, such as 2026-03-31", text
        ) from None
    now = today or datetime.now(UTC).date()
    if day > now + timedelta(days=1):  # somewhere it is tomorrow
        raise OutcomeRefused(f"the date {day} is in the future; an outcome is given once it is known")
    if day < EARLIEST:
        raise OutcomeRefused(f"the date {day} is before {EARLIEST}; check the year")
    return day


class Line(NamedTuple):
    """A line of a file.

    Attributes:
        number: from 1, which is the header.
        text: the line without its end.
        read: the outcome, or why it is none.
    """

    number: int
    text: str
    read: Outcome | OutcomeRefused


def read_outcomes(file: BinaryIO) -> Iterator[Line]:
    """Read the outcomes of a file, one for each line that is not empty.

    Raises:
        OutcomesFileError: the columns are not those of outcomes, or a line is not text or too long.
    """
    lines = _lines(file)
    _, header = next(lines, (1, ""))
    separator = ";" if header.count(";") > header.count(",") else ","
    names = [name.strip().lower() for name in next(csv.reader([header], delimiter=separator), [])]
    _check_columns(names)
    for number, text in lines:
        if text.strip():
            try:
                yield Line(number, text, _outcome(_values(text, names, separator)))
            except OutcomeRefused as refused:
                yield Line(number, text, refused)


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
    # Wrong columns are named by their places: a file without a header begins with a patient.
    known = [*COLUMNS, "corrects"]
    missing = ", ".join(name for name in COLUMNS if name not in names)
    wrong = [str(n) for n, name in enumerate(names, 1) if name not in known or name in names[: n - 1]]
    if missing or wrong:
        raise OutcomesFileError(
            f"line 1 must name the columns `{','.join(COLUMNS)}`, and perhaps `corrects`, each once; "
            f"missing: {missing or 'none'}; to be removed, by their places: {', '.join(wrong[:5]) or 'none'}"
        )


def _values(text: str, names: list[str], separator: str) -> dict[str, str]:
    try:
        values = next(csv.reader([text], delimiter=separator, strict=True))
    except csv.Error as error:
        raise OutcomeRefused(f"it is no line of a CSV file ({error})") from error
    if len(values) != len(names):
        raise OutcomeRefused(f"it has {len(values)} values for {len(names)} columns")
    return dict(zip(names, map(str.strip, values), strict=True))


def _outcome(values: Mapping[str, str]) -> Outcome:
    corrects = values.get("corrects", "").lower()
    if corrects not in _CORRECTS:
        raise OutcomeRefused("corrects is {wrote}; write yes, or nothing", corrects)
    try:
        answer = str(uuid.UUID(values["id"]))
    except ValueError:
        raise OutcomeRefused(
            "the id {wrote} is none of a diagnosis; it is a UUID, as the answer has it", values["id"]
        ) from None
    confirmed_by = read_confirmed_by(values["confirmed_by"])
    day, label = read_date(values["date"]), values["label"] or None
    return Outcome(answer, label, confirmed_by, day, _CORRECTS[corrects], of_file=True)


def import_outcomes(
    store: OutcomeStore, lines: Iterable[Line], refuse: Callable[[Line, OutcomeRefused], None]
) -> Counter[Taken]:
    """Store the outcomes of lines; importing the same ones again changes nothing.

    Args:
        store: where to.
        lines: of the file.
        refuse: called for each line that is refused, in their order.

    Returns:
        How many were accepted, by what became of them.

    Raises:
        DatabaseError: the database cannot be written; what was imported before stays.
        OutcomesFileError: the file cannot be read further; likewise.
    """
    accepted, batch = Counter[Taken](), list[Line]()

    def store_batch() -> None:
        given = [line.read for line in batch if isinstance(line.read, Outcome)]
        results = iter(store.give(given, ANY_KEY))
        for line in batch:
            result = next(results) if isinstance(line.read, Outcome) else line.read
            if isinstance(result, OutcomeRefused):
                refuse(line, result)
            else:
                accepted[result] += 1
        batch.clear()

    try:
        for line in lines:
            batch.append(line)
            if len(batch) == BATCH:
                store_batch()
    except OutcomesFileError:
        store_batch()  # the lines before the one that cannot be read
        raise
    if batch:
        store_batch()
    return accepted


def export_outcomes(store: OutcomeStore, file: TextIO, model: str | None = None) -> int:
    """Write the outcomes of one model, or of all, as they are known now; returns how many there were.

    Raises:
        DatabaseError: they cannot be read.
    """
    query = (
        select(
            *(OutcomeRow.answer, OutcomeRow.label, OutcomeRow.confirmed_by, OutcomeRow.confirmed_on),
            *(AnsweringRow.labels, AnsweringRow.model, AnsweringRow.version),
        )
        .join(AnswerRow, AnswerRow.id == OutcomeRow.answer)
        .join(AnsweringRow, AnsweringRow.id == AnswerRow.answering)
        .where(OutcomeRow.number.in_(select(func.max(OutcomeRow.number)).group_by(OutcomeRow.answer)))
        .order_by(OutcomeRow.number)
    )
    if model is not None:
        query = query.where(AnsweringRow.model == model)
    writer, count = csv.writer(file, lineterminator="\n"), 0
    writer.writerow([*COLUMNS, "model", "version"])
    with reading(store.engine) as connection:
        rows = connection.execution_options(yield_per=BATCH).execute(query)
        for answer, label, by, on, labels, of, version in rows:
            writer.writerow([answer, "" if label is None else labels[label][0], by, on, of, version])
            count += 1
    return count
