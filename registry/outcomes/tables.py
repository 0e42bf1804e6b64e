"""The schema of the database of outcomes; a change needs a new `SCHEMA`."""

from datetime import date
from typing import Any, Final

from sqlalchemy import JSON, Date, ForeignKey, Index, SmallInteger, String, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

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
