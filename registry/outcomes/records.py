"""An outcome as a hospital gives it, and what can be wrong with it.

What is kept of an answer, to be judged by its outcome later: no picture, and of a person a subgroup.

Outcomes as they stood when the last group of patients was whole: what figures for others are made of.

Whoever sees a figure each day sees what one outcome did to it, and who knows whose outcome came that day
knows what became of that patient. So figures that leave the database move by groups: the first ten patients
about whom something was said, in the order in which it was said, then the next ten. What was said of the
patients of an unfinished group counts for nothing yet, corrections and withdrawals of earlier outcomes
among it. When a group is whole depends on how many were told of alone, never on what was told.

The schema of the database of outcomes; a change needs a new `SCHEMA`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, Literal, Protocol, TypeVar, get_args

import numpy as np
from sqlalchemy import JSON, Date, ForeignKey, Index, SmallInteger, String, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from registry.bundle.counts.score_bins import COARSE_BINS
from registry.bundle.text import nearest, shown_name
from registry.errors import RegistryError

ConfirmedBy = Literal["histopathology", "dermatologist", "follow-up"]

CONFIRMED_BY: Final[tuple[ConfirmedBy, ...]] = get_args(ConfirmedBy)

EARLIEST: Final = date(1990, 1, 1)
"""No outcome is older: an earlier day is a mistyped one."""


class OutcomeRefused(RegistryError):  # noqa: N818 - reads as what it says where it is caught
    """An outcome that cannot be taken; the text says why, and what is allowed.

    Attributes:
        unquoted: the same without what was written in a wrong place, which may be the name of a patient: for
            a log, or a terminal whose words go into one.
    """

    exit_code = 1

    def __init__(self, why: str, wrote: str | None = None) -> None:
        """Takes the text, in which `{wrote}` stands for what was written."""
        super().__init__(why if wrote is None else why.replace("{wrote}", f"'{shown_name(wrote)}'"))
        self.unquoted = why.replace("{wrote}", "something else")


class UnknownAnswer(OutcomeRefused):
    """No answer of this id is kept, or it is somebody else's."""


class OutcomeGiven(OutcomeRefused):
    """Another outcome of this answer is known, and this one does not say that it corrects it.

    Or it says that it corrects one in whose place another has come meanwhile.
    """


@dataclass(frozen=True)
class Outcome:
    """What became of a patient.

    Attributes:
        answer: the id of the diagnosis.
        label: the code of what it was; None withdraws what was said.
        confirmed_by: how that is known.
        confirmed_on: when it was.
        corrects: whether it may take the place of another outcome.
        instead_of: the number of the outcome whose place it may take, as a page showed it; None for any.
        of_file: whether it is a line of a file, which may be begun again from its first line.
    """

    answer: str
    label: str | None
    confirmed_by: ConfirmedBy
    confirmed_on: date
    corrects: bool = False
    instead_of: int | None = None
    of_file: bool = False


def read_confirmed_by(text: str) -> ConfirmedBy:
    """How an outcome is known, as it was written.

    Raises:
        OutcomeRefused: in no way that counts.
    """
    for known in CONFIRMED_BY:
        if text == known:
            return known
    raise OutcomeRefused(f"confirmed_by is {{wrote}}; {nearest(text[:100], CONFIRMED_BY)}", text)


def read_date(text: str, today: date | None = None) -> date:
    """The day of an outcome, as it was written.

    Raises:
        OutcomeRefused: it is none, or cannot be.
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


def place_of(label: str, labels: list[str]) -> int:
    """The place of a code among a version's labels.

    Raises:
        OutcomeRefused: the version does not know it.
    """
    if label not in labels:
        raise OutcomeRefused(
            f"the label {{wrote}} is none of the version that answered; {nearest(label[:100], labels)}", label
        )
    return labels.index(label)


Side = Literal["none", "below", "above"]
"""Of the working point, the side on which the probability of malignancy lies; none where there is none."""

Decided = Literal["report", "refer", "retake"]

SIDES: Final[tuple[Side, ...]] = get_args(Side)
DECISIONS: Final[tuple[Decided, ...]] = get_args(Decided)
UNKNOWN: Final = "unknown"
"""In place of a subgroup: no tone was declared, or one of no subgroup that the version was tested on."""

RANGES: Final = len(COARSE_BINS)
CELLS: Final = len(SIDES) * len(DECISIONS) * RANGES
"""How many cells answers are counted in: by side, decision, and range of the probability of malignancy."""


@dataclass(frozen=True)
class Answering:
    """A version that answers.

    Attributes:
        model: its model's name.
        version: its number there.
        made_for: the subgroup that it was made for.
        subgroup: the subgroup of those it answered, by the tone that was declared; `UNKNOWN` without one.
        pattern: of the case, such as it names itself; empty for a model of single pictures.
        labels: its codes, each with whether it is malignant.
    """

    model: str
    version: int
    made_for: str
    subgroup: str
    pattern: str
    labels: tuple[tuple[str, bool], ...]


@dataclass(frozen=True)
class Cell:
    """Where an answer is counted.

    Attributes:
        side: of the working point.
        decision: what was decided.
        malignancy: the range of the probability of malignancy, a bin of `COARSE_BINS`; 0 of a model without
            malignant classes.
    """

    side: Side
    decision: Decided
    malignancy: int

    @property
    def number(self) -> int:
        """The cell as it is stored, from 0 to `CELLS` - 1."""
        place = SIDES.index(self.side) * len(DECISIONS) + DECISIONS.index(self.decision)
        return place * RANGES + self.malignancy

    @classmethod
    def of(cls, number: int) -> "Cell":
        """The cell of a stored number."""
        place, malignancy = divmod(number, RANGES)
        side, decision = divmod(place, len(DECISIONS))
        return cls(SIDES[side], DECISIONS[decision], malignancy)


def cell_of(side: Side, decision: Decided, malignancy: float | None) -> Cell:
    """The cell of an answer with this probability of malignancy."""
    return Cell(side, decision, 0 if malignancy is None else int(COARSE_BINS.bin(np.array(malignancy))))


@dataclass(frozen=True)
class KeptAnswer:
    """What is kept of one answer.

    Attributes:
        id: of the diagnosis.
        day: on which it was answered, in UTC.
        answering: the version.
        key: the id of the API key that asked; None without keys.
        cell: where it is counted.
        label: the code that was answered.
        in_set: the codes of the prediction set.
    """

    id: str
    day: date
    answering: Answering
    key: str | None
    cell: Cell
    label: str
    in_set: frozenset[str]


TOGETHER: Final = 10
"""Patients of a group; as many as `privacy.min_count` asks for by default in training."""


class Said(Protocol):
    """A row of the table of outcomes."""

    @property
    def id(self) -> str:
        """Of the answer that it is of."""
        ...

    @property
    def withdrawn(self) -> bool:
        """Whether it takes back what was said."""
        ...


One = TypeVar("One", bound=Said)


def settled(rows: Sequence[One], together: int = TOGETHER) -> list[One]:
    """The outcomes that stood when the last group was whole.

    Args:
        rows: all that was ever said, in the order in which it was, what was corrected since among it.
        together: patients of a group.
    """
    whole, group = 0, set[str]()
    for place, row in enumerate(rows, 1):
        group.add(row.id)
        if len(group) == together:
            whole, group = place, set()
    stands: dict[str, One] = {}
    for row in rows[:whole]:
        stands.pop(row.id, None)  # what was said last stands last
        stands[row.id] = row
    return [row for row in stands.values() if not row.withdrawn]


SCHEMA: Final = 1
"""What this dermfed reads and writes."""


class Table(DeclarativeBase):
    """Base of all tables."""


class SchemaRow(Table):
    """The one row that says of which schema the database is."""

    __tablename__ = "outcomes_schema"
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)


class AnsweringRow(Table):
    """A version that has answered: for whom, under which pattern of a case, and what its labels are."""

    __tablename__ = "answering"
    __table_args__ = (UniqueConstraint("model", "version", "subgroup", "pattern", name="uq_answering"),)
    id: Mapped[int] = mapped_column(primary_key=True)
    model: Mapped[str] = mapped_column(String(100))
    version: Mapped[int]
    made_for: Mapped[str] = mapped_column(String(100))
    subgroup: Mapped[str] = mapped_column(String(100))
    pattern: Mapped[str] = mapped_column(String(200))
    labels: Mapped[list[Any]] = mapped_column(JSON)


class AnswerRow(Table):
    """One answer. `in_set` holds a letter for each label, `1` for those in the prediction set."""

    __tablename__ = "answers"
    __table_args__ = (Index("ix_answers_day", "day"),)
    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    day: Mapped[date] = mapped_column(Date)
    answering: Mapped[int] = mapped_column(ForeignKey("answering.id"))
    key: Mapped[str | None] = mapped_column(String(32))
    cell: Mapped[int] = mapped_column(SmallInteger)
    label: Mapped[int] = mapped_column(SmallInteger)
    in_set: Mapped[str] = mapped_column(String(1000))


class AnswerCountRow(Table):
    """How many answers of a day fell into each cell: kept beside them, so that nobody counts millions."""

    __tablename__ = "answer_counts"
    answering: Mapped[int] = mapped_column(ForeignKey("answering.id"), primary_key=True)
    day: Mapped[date] = mapped_column(Date, primary_key=True)
    cell: Mapped[int] = mapped_column(SmallInteger, primary_key=True)
    n: Mapped[int]


class OutcomeRow(Table):
    """What is known to have become of a patient; a corrected one stays, and is not the current one.

    `withdrawn` ones say that nothing is known after all.
    """

    __tablename__ = "outcomes"
    __table_args__ = (
        Index("ix_outcomes_answer", "answer"),
        Index("ix_outcomes_known_on", "known_on"),
    )
    number: Mapped[int] = mapped_column(primary_key=True)
    answer: Mapped[str] = mapped_column(ForeignKey("answers.id"))
    label: Mapped[int | None] = mapped_column(SmallInteger)
    confirmed_by: Mapped[str] = mapped_column(String(20))
    confirmed_on: Mapped[date] = mapped_column(Date)
    known_on: Mapped[date] = mapped_column(Date)
    key: Mapped[str | None] = mapped_column(String(32))
    current: Mapped[bool]
    withdrawn: Mapped[bool]
