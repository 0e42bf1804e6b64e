"""Takes outcomes against what is known: new, corrected, withdrawn, known already, or refused and why."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final, Literal, TypeVar

from sqlalchemy import Connection, Row, insert, select, update

from registry.outcomes.outcome import Outcome, OutcomeGiven, OutcomeRefused, UnknownAnswer, place_of
from registry.outcomes.tables import AnsweringRow, AnswerRow, OutcomeRow

One = TypeVar("One")
TOGETHER: Final = 500
"""Values of one query; SQLite allows 32,766."""

Taken = Literal["new", "corrected", "withdrawn", "known already"]
"""What became of an outcome that was taken."""

ANYBODY: Final = "*"
"""In place of a key's id: whoever may give outcomes of all answers, as an operator."""


@dataclass(frozen=True)
class Refusal:
    """An outcome that was not taken.

    Attributes:
        outcome: which.
        why: with what is allowed.
    """

    outcome: Outcome
    why: OutcomeRefused


def batched(values: Sequence[One], size: int) -> Iterator[Sequence[One]]:
    """The values, so many at a time."""
    return (values[start : start + size] for start in range(0, len(values), size))


def take(known: "Known", outcome: Outcome, key: str | None) -> Taken | Refusal:
    """Takes an outcome of whoever has this key, or says why not."""
    try:
        return _take(known, outcome, key)
    except OutcomeRefused as why:
        return Refusal(outcome, why)


def _take(known: "Known", outcome: Outcome, key: str | None) -> Taken:
    answer = known.answers.get(outcome.answer)
    if answer is None or key not in (ANYBODY, answer.key):
        raise UnknownAnswer(
            "no answer of this id is kept for whoever gives the outcome; check the id of the diagnosis, and "
            "that the key is the one that asked"
        )
    codes = [code for code, _ in answer.labels]
    label = None if outcome.label is None else place_of(outcome.label, codes)
    current = known.current.get(outcome.answer)
    said = Said(label, outcome.confirmed_by, outcome.confirmed_on)
    if current is None:
        if label is None:
            raise OutcomeRefused("there is no outcome of this answer to withdraw")
        known.say(outcome.answer, said)
        return "new"
    if said == current or (label is None and current.label is None):
        return "known already"
    if outcome.of_file and said in known.before[outcome.answer]:
        raise OutcomeGiven(
            "this very outcome was given before, and another has taken its place since; where it holds "
            "again, give it with the day on which that was found"
        )
    if (label is not None and not outcome.corrects) or (
        outcome.instead_of not in (None, known.number[outcome.answer])
    ):
        known_as = "taken back" if current.label is None else codes[current.label]
        raise OutcomeGiven(
            f"another outcome of this answer is known ({known_as}, {current.confirmed_by}, "
            f"{current.confirmed_on}); say that it is a correction, or leave it"
        )
    known.say(outcome.answer, said)
    return "withdrawn" if label is None else "corrected"


@dataclass(frozen=True)
class Said:
    """An outcome as it is stored; one without a label is withdrawn."""

    label: int | None
    confirmed_by: str
    confirmed_on: date


class Known:
    """What is known of some answers, and what is to be written of them."""

    def __init__(self, connection: Connection, answers: Sequence[str]) -> None:
        self.answers: dict[str, Row[Any]] = {}
        self.current: dict[str, Said] = {}
        self.number: dict[str, int | None] = {}
        self.before: dict[str, set[Said]] = {}
        self._to_write: list[tuple[str, Said]] = []
        for some in batched(sorted(set(answers)), TOGETHER):
            asked = (
                select(AnswerRow.id, AnswerRow.key, AnsweringRow.labels)
                .join(AnsweringRow, AnsweringRow.id == AnswerRow.answering)
                .where(AnswerRow.id.in_(some))
            )
            self.answers |= {row.id: row for row in connection.execute(asked)}
            said = select(OutcomeRow).where(OutcomeRow.answer.in_(some))
            for row in connection.execute(said):
                one = Said(row.label, row.confirmed_by, row.confirmed_on)
                self.before.setdefault(row.answer, set()).add(one)
                if row.current:
                    self.current[row.answer], self.number[row.answer] = one, row.number

    def say(self, answer: str, said: Said) -> None:
        """Takes an outcome, in place of the current one."""
        self.current[answer] = said
        self.before.setdefault(answer, set()).add(said)
        self.number[answer] = None  # it gets one as it is written
        self._to_write.append((answer, said))

    def write(self, connection: Connection, key: str | None, today: date) -> None:
        """Writes what was taken, in its order."""
        for some in batched(sorted({answer for answer, _ in self._to_write}), TOGETHER):
            connection.execute(update(OutcomeRow).where(OutcomeRow.answer.in_(some)).values(current=False))
        last = {answer: place for place, (answer, _) in enumerate(self._to_write)}
        rows = [
            {
                "answer": answer,
                "label": said.label,
                "confirmed_by": said.confirmed_by,
                "confirmed_on": said.confirmed_on,
                "known_on": today,
                "key": None if key == ANYBODY else key,
                "current": last[answer] == place,
                "withdrawn": said.label is None,
            }
            for place, (answer, said) in enumerate(self._to_write)
        ]
        if rows:
            connection.execute(insert(OutcomeRow), rows)
