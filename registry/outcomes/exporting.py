"""Outcomes as a CSV file for whoever knows which picture an answer was of: no fact about a person is in it.

A line for each answer of which an outcome was ever given, as it stands now. One that was taken back has an
empty label: without that line, nobody could take back what was made of it elsewhere.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Final, TextIO

from sqlalchemy import select

from registry.database.connection import reading
from registry.outcomes.store import OutcomeStore
from registry.outcomes.tables import AnsweringRow, AnswerRow, OutcomeRow

COLUMNS: Final = ("id", "label", "confirmed_by", "date", "model", "version")
TOGETHER: Final = 1000
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
        rows = connection.execution_options(yield_per=TOGETHER).execute(asked)
        for answer, label, confirmed_by, confirmed_on, labels, of, version in rows:
            code = None if label is None else str(labels[label][0])
            yield ExportedOutcome(answer, code, confirmed_by, confirmed_on, of, version)


def write_outcomes(outcomes: Iterator[ExportedOutcome], file: TextIO) -> int:
    """Writes them as CSV; returns how many there were."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    count = 0
    for one in outcomes:
        writer.writerow(
            [one.answer, one.label or "", one.confirmed_by, one.confirmed_on, one.model, one.version]
        )
        count += 1
    return count
