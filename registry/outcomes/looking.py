"""What is known of one answer: what was answered, and every outcome that was given, for a page to show."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from sqlalchemy import Connection, select

from registry.database.connection import reading
from registry.outcomes.answer import Cell, Decided
from registry.outcomes.giving import ANYBODY
from registry.outcomes.store import OutcomeStore
from registry.outcomes.tables import AnsweringRow, AnswerRow, OutcomeRow


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
