"""What figures of the field are made of: answers by day and cell, and answers whose outcome is known."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, select

from registry.database.connection import reading
from registry.outcomes.answer import CELLS, Answering
from registry.outcomes.store import OutcomeStore
from registry.outcomes.tables import AnswerCountRow, AnsweringRow, AnswerRow, OutcomeRow

_TOGETHER: Final = 10_000
"""Outcomes that are fetched at once."""


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
            .with_only_columns(*AnsweringRow.__table__.columns)
        ).all()
        outcomes = _outcomes(connection, [row.id for row in answering])
        found = []
        for row in answering:
            counted = connection.execute(
                select(AnswerCountRow.day, AnswerCountRow.cell, AnswerCountRow.n).where(
                    AnswerCountRow.answering == row.id
                )
            ).all()
            if not counted:
                continue
            labels = tuple((str(code), bool(malignant)) for code, malignant in row.labels)
            version = Answering(row.model, row.version, row.made_for, row.subgroup, row.pattern, labels)
            found.append(_counts(version, counted, outcomes.get(row.id, _NONE)))
    return found


_COLUMNS = 6
_NONE = np.zeros((0, _COLUMNS), dtype=np.int64)


def _outcomes(connection: Connection, answering: Sequence[int]) -> dict[int, NDArray[np.int64]]:
    """The outcomes that hold, by who answered, in the order in which they became known; all read once.

    Of each the day of the answer and the one on which it became known, as ordinals; cell, label and truth;
    and whether the prediction set held that: `(outcomes, 6)`. Rows come some at a time, for there may be
    very many.
    """
    query = (
        select(
            AnswerRow.answering,
            AnswerRow.day,
            OutcomeRow.known_on,
            AnswerRow.cell,
            AnswerRow.label,
            OutcomeRow.label,
            AnswerRow.in_set,
        )
        .join(AnswerRow, AnswerRow.id == OutcomeRow.answer)
        .where(OutcomeRow.current, ~OutcomeRow.withdrawn, AnswerRow.answering.in_(answering))
        .order_by(OutcomeRow.known_on, OutcomeRow.number)
    )
    found: dict[int, array[int]] = {}
    for of, day, known_on, cell, label, truth, in_set in connection.execute(
        query.execution_options(yield_per=_TOGETHER)
    ):
        assert truth is not None  # but of withdrawn ones
        facts = (day.toordinal(), known_on.toordinal(), cell, label, truth, in_set[truth] == "1")
        found.setdefault(of, array("q")).extend(facts)
    return {of: np.array(facts, dtype=np.int64).reshape(-1, _COLUMNS) for of, facts in found.items()}


def _counts(
    answering: Answering,
    counted: Sequence[Any],
    outcomes: NDArray[np.int64],
) -> FieldCounts:
    answered_on, known_on, cell, label, truth, in_set = outcomes.T
    known_on = np.maximum(known_on, answered_on)
    first = min(day for day, _, _ in counted)
    begins = first.toordinal()
    last = max(*(day.toordinal() for day, _, _ in counted), begins, int(known_on.max(initial=begins)))
    answered = np.zeros((last - begins + 1, CELLS), dtype=np.int64)
    for day, each, n in counted:
        answered[day.toordinal() - begins, each] += n
    return FieldCounts(
        answering,
        first,
        answered,
        answered_on - begins,
        known_on - begins,
        cell,
        label,
        truth,
        in_set.astype(np.bool_),
    )
