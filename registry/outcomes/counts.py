"""What figures of the field are made of: answers by day and cell, and answers whose outcome is known.

What is known of one answer: what was answered, and every outcome that was given, for a page to show.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, select

from registry.database.connection import reading
from registry.outcomes.records import (
    CELLS,
    AnswerCountRow,
    Answering,
    AnsweringRow,
    AnswerRow,
    Cell,
    Decided,
    OutcomeRow,
    settled,
)
from registry.outcomes.store import ANYBODY, OutcomeStore


@dataclass(frozen=True)
class FieldCounts:
    """The answers of one version to one subgroup, and what became of the patients.

    Attributes:
        answering: the version.
        first: the day from which days are counted.
        answered: by day and cell, `(days, CELLS)`.
        answered_on: the day of each answer whose outcome is known, `(outcomes,)`.
        known_on: the day on which that became known, rising.
        cell: of each.
        label: the place of its answer among the labels.
        truth: that of the outcome.
        in_set: whether the prediction set held the truth.
    """

    answering: Answering
    first: date
    answered: NDArray[np.int64]
    answered_on: NDArray[np.int64]
    known_on: NDArray[np.int64]
    cell: NDArray[np.int64]
    label: NDArray[np.int64]
    truth: NDArray[np.int64]
    in_set: NDArray[np.bool_]


def field_counts(store: OutcomeStore, model: str, *, only_settled: bool = False) -> list[FieldCounts]:
    """The counts of every version of a model that has answered, by version, subgroup and pattern.

    Args:
        store: where answers and outcomes are.
        model: its name.
        only_settled: whether outcomes count as they stood when the last group of patients of their version
            and subgroup was whole (`settled`), for figures that leave the database.

    Raises:
        DatabaseError: they cannot be read.
    """
    with reading(store.engine) as connection:
        answering = connection.execute(
            select(AnsweringRow)
            .where(AnsweringRow.model == model)
            .order_by(AnsweringRow.version, AnsweringRow.subgroup, AnsweringRow.pattern)
        ).all()
        counted = {
            row.id: connection.execute(
                select(AnswerCountRow.day, AnswerCountRow.cell, AnswerCountRow.n).where(
                    AnswerCountRow.answering == row.id
                )
            ).all()
            for row in answering
        }
        outcomes = _outcomes(connection, [row.id for row in answering], only_settled=only_settled)
    if only_settled:
        outcomes = _settled({row.id: (row.version, row.subgroup) for row in answering}, outcomes)
    by_answering: dict[int, list[Any]] = {}
    for row in outcomes:
        by_answering.setdefault(row.answering, []).append(row)
    found = []
    for row in answering:
        if counted[row.id]:
            labels = tuple((str(code), bool(malignant)) for code, malignant in row.labels)
            version = Answering(row.model, row.version, row.made_for, row.subgroup, row.pattern, labels)
            found.append(_counts(version, counted[row.id], by_answering.get(row.id, [])))
    return found


def _outcomes(connection: Connection, answering: list[int], *, only_settled: bool) -> Sequence[Any]:
    """Outcomes of some versions, all at once: for each version anew, each would be looked up again."""
    asked = (
        select(
            AnswerRow.answering,
            AnswerRow.id,
            AnswerRow.day,
            OutcomeRow.known_on,
            AnswerRow.cell,
            AnswerRow.label,
            OutcomeRow.label.label("truth"),
            AnswerRow.in_set,
            OutcomeRow.withdrawn,
        )
        .join(AnswerRow, AnswerRow.id == OutcomeRow.answer)
        .where(AnswerRow.answering.in_(answering))
    )
    if only_settled:
        return connection.execute(asked.order_by(OutcomeRow.number)).all()
    current = asked.where(OutcomeRow.current, ~OutcomeRow.withdrawn)
    return connection.execute(current.order_by(OutcomeRow.known_on, OutcomeRow.number)).all()


def _settled(subgroup_of: Mapping[int, tuple[int, str]], outcomes: Sequence[Any]) -> Sequence[Any]:
    """Those that are settled in their version and subgroup, of all patterns together, by `known_on`."""
    by_subgroup: dict[tuple[int, str], list[Any]] = {}
    for row in outcomes:
        by_subgroup.setdefault(subgroup_of[row.answering], []).append(row)
    found = [row for rows in by_subgroup.values() for row in settled(rows)]
    return sorted(found, key=lambda row: row.known_on)


def _counts(
    answering: Answering,
    counted: Sequence[Any],
    outcomes: Sequence[Any],
) -> FieldCounts:
    first = min(day for day, _, _ in counted)
    last = max([*(day for day, _, _ in counted), *(one.known_on for one in outcomes)])
    answered = np.zeros(((last - first).days + 1, CELLS), dtype=np.int64)
    for day, cell, n in counted:
        answered[(day - first).days, cell] += n

    def each(values: list[int]) -> NDArray[np.int64]:
        return np.array(values, dtype=np.int64)

    return FieldCounts(
        answering,
        first,
        answered,
        each([(one.day - first).days for one in outcomes]),
        each([(max(one.known_on, one.day) - first).days for one in outcomes]),
        each([one.cell for one in outcomes]),
        each([one.label for one in outcomes]),
        each([one.truth for one in outcomes]),
        np.array([one.in_set[one.truth] == "1" for one in outcomes], dtype=np.bool_),
    )


@dataclass(frozen=True)
class SaidOutcome:
    """An outcome that was given.

    Attributes:
        number: rising as they were given.
        label: the code of what it was; None took back what was said before.
        confirmed_by: how that is known.
        confirmed_on: when it was confirmed.
        known_on: the day on which it was given.
        current: whether it stands; one that was corrected or taken back does not.
    """

    number: int
    label: str | None
    confirmed_by: str
    confirmed_on: date
    known_on: date
    current: bool


@dataclass(frozen=True)
class SeenAnswer:
    """An answer that is kept, without the subgroup of the person that it was for.

    Attributes:
        id: of the diagnosis.
        day: on which it was answered.
        model: that answered.
        version: its number.
        decision: what was decided.
        label: the code that was answered.
        in_set: the codes of the prediction set.
        labels: the codes of the version in its own order, each with whether it is malignant.
        said: every outcome, the oldest first.
    """

    id: str
    day: date
    model: str
    version: int
    decision: Decided
    label: str
    in_set: tuple[str, ...]
    labels: tuple[tuple[str, bool], ...]
    said: tuple[SaidOutcome, ...]

    @property
    def current(self) -> SaidOutcome | None:
        """The outcome that stands; one that takes back stands too, and has no label."""
        return next((one for one in self.said if one.current), None)


def look(store: OutcomeStore, answer: str, key: str | None) -> SeenAnswer | None:
    """What is known of an answer; None where none of this id is kept for whoever has this key.

    Args:
        store: where answers are.
        answer: the id of the diagnosis.
        key: the id of the API key that looks, which must have asked; `giving.ANYBODY` may see all.

    Raises:
        DatabaseError: it cannot be read.
    """
    asked = (
        select(
            *(AnswerRow.id, AnswerRow.day, AnswerRow.key, AnswerRow.cell, AnswerRow.label, AnswerRow.in_set),
            *(AnsweringRow.model, AnsweringRow.version, AnsweringRow.labels),
        )
        .join(AnsweringRow, AnsweringRow.id == AnswerRow.answering)
        .where(AnswerRow.id == answer)
    )
    with reading(store.engine) as connection:
        row = connection.execute(asked).one_or_none()
        if row is None or key not in (ANYBODY, row.key):
            return None
        labels = tuple((str(code), bool(malignant)) for code, malignant in row.labels)
        codes = [code for code, _ in labels]
        said = tuple(_said(connection, answer, codes))
    return SeenAnswer(
        row.id,
        row.day,
        row.model,
        row.version,
        Cell.of(row.cell).decision,
        codes[row.label],
        tuple(code for code, held in zip(codes, row.in_set, strict=True) if held == "1"),
        labels,
        said,
    )


def _said(connection: Connection, answer: str, codes: list[str]) -> Iterator[SaidOutcome]:
    asked = select(OutcomeRow).where(OutcomeRow.answer == answer).order_by(OutcomeRow.number)
    for one in connection.execute(asked):
        label = None if one.label is None else codes[one.label]
        yield SaidOutcome(
            one.number, label, one.confirmed_by, one.confirmed_on, one.known_on, bool(one.current)
        )
