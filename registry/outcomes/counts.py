"""What figures of the field are made of: answers by day and cell, and answers whose outcome is known."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select

from registry.database.connection import reading
from registry.outcomes.answer import CELLS, Answering
from registry.outcomes.store import OutcomeStore
from registry.outcomes.tables import AnswerCountRow, AnsweringRow, AnswerRow, OutcomeRow


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


def field_counts(store: OutcomeStore, model: str) -> list[FieldCounts]:
    """The counts of every version of a model that has answered, by version, subgroup and pattern.

    Raises:
        DatabaseError: they cannot be read.
    """
    with reading(store.engine) as connection:
        answering = connection.execute(
            select(AnsweringRow)
            .where(AnsweringRow.model == model)
            .order_by(AnsweringRow.version, AnsweringRow.subgroup, AnsweringRow.pattern)
        ).all()
        found = []
        for row in answering:
            counted = connection.execute(
                select(AnswerCountRow.day, AnswerCountRow.cell, AnswerCountRow.n).where(
                    AnswerCountRow.answering == row.id
                )
            ).all()
            if not counted:
                continue
            outcomes = connection.execute(
                select(
                    AnswerRow.day,
                    OutcomeRow.known_on,
                    AnswerRow.cell,
                    AnswerRow.label,
                    OutcomeRow.label,
                    AnswerRow.in_set,
                )
                .join(AnswerRow, AnswerRow.id == OutcomeRow.answer)
                .where(OutcomeRow.current, ~OutcomeRow.withdrawn, AnswerRow.answering == row.id)
                .order_by(OutcomeRow.known_on, OutcomeRow.number)
            ).all()
            labels = tuple((str(code), bool(malignant)) for code, malignant in row.labels)
            version = Answering(row.model, row.version, row.made_for, row.subgroup, row.pattern, labels)
            found.append(_counts(version, counted, outcomes))
    return found


def _counts(
    answering: Answering,
    counted: Sequence[Any],
    outcomes: Sequence[Any],
) -> FieldCounts:
    first = min(day for day, _, _ in counted)
    last = max([*(day for day, _, _ in counted), *(known for _, known, *_ in outcomes)])
    answered = np.zeros(((last - first).days + 1, CELLS), dtype=np.int64)
    for day, cell, n in counted:
        answered[(day - first).days, cell] += n

    def each(values: list[int]) -> NDArray[np.int64]:
        return np.array(values, dtype=np.int64)

    return FieldCounts(
        answering,
        first,
        answered,
        each([(day - first).days for day, *_ in outcomes]),
        each([(max(known, day) - first).days for day, known, *_ in outcomes]),
        each([one[2] for one in outcomes]),
        each([one[3] for one in outcomes]),
        each([one[4] for one in outcomes]),
        np.array([in_set[truth] == "1" for *_, truth, in_set in outcomes], dtype=np.bool_),
    )
