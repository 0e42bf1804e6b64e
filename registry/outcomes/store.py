"""The database of outcomes: the answers of a service, and what the lesions turned out to be.

It is separate from the registry's database, which is kept for good and is copied: answers are kept for as
long as the operator says. It has no picture and, of a person, only the subgroup of the declared skin tone.

The table of outcomes only grows: the last row of an answer is the one that counts, and a row without a label
withdraws what was given before.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime
from typing import Any, Final, Literal, Self, TypeVar, get_args

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from registry.bundle.decision import Level
from registry.bundle.text import nearest, shown_name
from registry.database.connection import open_database, reading, url_text, writing
from registry.errors import DatabaseError, OtherSchema, RegistryError

ConfirmedBy = Literal["histopathology", "dermatologist", "follow-up"]
Decided = Literal["report", "refer", "retake"]
Side = Literal["none", "below", "above"]
"""The side of the working point on which the probability of malignancy is; none without a working point."""

Taken = Literal["new", "corrected", "withdrawn", "known already"]
"""What became of an outcome that was accepted."""

DECISIONS: Final[tuple[Decided, ...]] = get_args(Decided)
SIDES: Final[tuple[Side, ...]] = get_args(Side)
TRIAGES: Final[tuple[Level | None, ...]] = (None, *get_args(Level))
CELLS: Final = len(TRIAGES) * len(SIDES) * len(DECISIONS)

UNKNOWN: Final = "unknown"
"""In place of a subgroup: no tone was declared, or one of no subgroup that the version was tested on."""

ANY_KEY: Final = "*"
"""In place of a key's id: an operator's, who may give and see the outcomes of all answers."""

SCHEMA: Final = 2
_BATCH: Final = 500  # values of one query; SQLite allows 32,766

One = TypeVar("One")


class OutcomeRefused(RegistryError):  # noqa: N818 - reads as what it says where it is caught
    """An outcome that cannot be accepted; the text says why, and what is allowed.

    Attributes:
        unquoted: the text without the value that was sent, which may be the name of a patient: for logs and
            terminals.
    """

    exit_code = 1

    def __init__(self, why: str, wrote: str | None = None) -> None:
        """Takes the text, in which `{wrote}` is replaced by the value that was sent."""
        super().__init__(why if wrote is None else why.replace("{wrote}", f"'{shown_name(wrote)}'"))
        self.unquoted = why.replace("{wrote}", "something else")


class UnknownAnswer(OutcomeRefused):
    """No answer of this id is stored for this API key."""


class OutcomeGiven(OutcomeRefused):
    """Another outcome of this answer is known, and this one may not replace it."""


class AnsweringDiffers(RegistryError):  # noqa: N818 - as above
    """Another version is stored under the same number."""


@dataclass(frozen=True)
class Outcome:
    """What a lesion turned out to be.

    Attributes:
        answer: the id of the diagnosis.
        label: the code of the disease; None withdraws the outcome that is known.
        confirmed_by: how it is known.
        confirmed_on: when it was confirmed.
        corrects: whether it may replace another outcome.
        instead_of: the number of the one that it may replace, as a page showed it; None for any.
        of_file: whether it is a line of a file, which may be imported again from its first line.
    """

    answer: str
    label: str | None
    confirmed_by: ConfirmedBy
    confirmed_on: date
    corrects: bool = False
    instead_of: int | None = None
    of_file: bool = False


@dataclass(frozen=True)
class Answering:
    """A version, and the subgroup of the patients whom it answered.

    Attributes:
        model: the model's name.
        version: its number.
        made_for: the subgroup that the version was made for.
        subgroup: the subgroup of the declared skin tone; `UNKNOWN` without one.
        labels: the version's codes, each with whether it is malignant.
    """

    model: str
    version: int
    made_for: str
    subgroup: str
    labels: tuple[tuple[str, bool], ...]


@dataclass(frozen=True)
class KeptAnswer:
    """What is stored of one answer.

    Attributes:
        id: of the diagnosis.
        day: on which it was answered, in UTC.
        answering: the version and the patient's subgroup.
        key: the id of the API key of the request; None without keys.
        side, decision: of the answer.
        label: the code that was answered.
        in_set: the codes of the prediction set.
        triage: of the answer, if any.
    """

    id: str
    day: date
    answering: Answering
    key: str | None
    side: Side
    decision: Decided
    label: str
    in_set: frozenset[str]
    triage: Level | None = None

    @property
    def cell(self) -> int:
        """The number under which triage, side and decision are stored."""
        side = TRIAGES.index(self.triage) * len(SIDES) + SIDES.index(self.side)
        return side * len(DECISIONS) + DECISIONS.index(self.decision)


@dataclass(frozen=True)
class SaidOutcome:
    """An outcome as it was given; one without a label withdrew what was known. A new one has no number."""

    number: int | None
    label: str | None
    confirmed_by: str
    confirmed_on: date
    known_on: date

    def repeats(self, outcome: Outcome) -> bool:
        """Whether another one says the same."""
        facts = (outcome.label, outcome.confirmed_by, outcome.confirmed_on)
        return (self.label, self.confirmed_by, self.confirmed_on) == facts


@dataclass(frozen=True)
class SeenAnswer:
    """A stored answer without the patient's subgroup, and all its outcomes, the oldest first."""

    id: str
    day: date
    key: str | None
    model: str
    version: int
    decision: Decided
    label: str
    in_set: tuple[str, ...]
    labels: tuple[tuple[str, bool], ...]
    said: tuple[SaidOutcome, ...] = ()

    @property
    def current(self) -> SaidOutcome | None:
        """The last outcome, a withdrawal too."""
        return self.said[-1] if self.said else None


class Table(DeclarativeBase):
    """Base of all tables."""


class SchemaRow(Table):
    """The one row with the number of the schema."""

    __tablename__ = "outcomes_schema"
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)


class AnsweringRow(Table):
    """A version and a subgroup that it answered."""

    __tablename__ = "answering"
    __table_args__ = (sa.UniqueConstraint("model", "version", "subgroup", name="uq_answering"),)
    id: Mapped[int] = mapped_column(primary_key=True)
    model: Mapped[str] = mapped_column(sa.String(100))
    version: Mapped[int]
    made_for: Mapped[str] = mapped_column(sa.String(100))
    subgroup: Mapped[str] = mapped_column(sa.String(100))
    labels: Mapped[list[Any]] = mapped_column(sa.JSON)


class AnswerRow(Table):
    """One answer. `in_set` has a sign for each label, `1` for those in the prediction set."""

    __tablename__ = "answers"
    __table_args__ = (
        sa.Index("ix_answers_counted", "answering", "day", "cell"),
        sa.Index("ix_answers_day", "day"),
    )
    id: Mapped[str] = mapped_column(sa.String(36), primary_key=True)
    day: Mapped[date] = mapped_column(sa.Date)
    answering: Mapped[int] = mapped_column(sa.ForeignKey("answering.id"))
    key: Mapped[str | None] = mapped_column(sa.String(32))
    cell: Mapped[int] = mapped_column(sa.SmallInteger)
    label: Mapped[int] = mapped_column(sa.SmallInteger)
    in_set: Mapped[str] = mapped_column(sa.String(1000))


class OutcomeRow(Table):
    """An outcome that was given, a correction or, without a label, a withdrawal."""

    __tablename__ = "outcomes"
    __table_args__ = (sa.Index("ix_outcomes_answer", "answer"),)
    number: Mapped[int] = mapped_column(primary_key=True)
    answer: Mapped[str] = mapped_column(sa.ForeignKey("answers.id"))
    label: Mapped[int | None] = mapped_column(sa.SmallInteger)
    confirmed_by: Mapped[str] = mapped_column(sa.String(20))
    confirmed_on: Mapped[date] = mapped_column(sa.Date)
    known_on: Mapped[date] = mapped_column(sa.Date)
    key: Mapped[str | None] = mapped_column(sa.String(32))


class OutcomeStore:
    """The database of outcomes; thread-safe, as its engine is. A `with` block closes its connections."""

    def __init__(self, engine: sa.Engine) -> None:
        """Takes an engine whose tables exist."""
        self.engine = engine
        self._answering: dict[Answering, int] = {}

    @classmethod
    def open(cls, url: str, *, create: bool = True) -> "OutcomeStore":
        """Opens the database at an address.

        Args:
            url: the address.
            create: whether the tables are made in an empty or missing database; else it is refused.

        Raises:
            InvalidName: the address is not one of a database.
            OtherSchema: another version of dermfed made it.
            DatabaseError: it cannot be opened, or contains other tables.
        """
        engine = open_database(url, create=create)
        try:
            with reading(engine) as connection:
                has_tables = _has_tables(connection, create=create)
            if not has_tables:
                with writing(engine) as connection:
                    if not _has_tables(connection, create=create):  # another process may have made them
                        Table.metadata.create_all(connection)
                        connection.execute(sa.insert(SchemaRow).values(number=SCHEMA))
        except BaseException:
            engine.dispose()
            raise
        return cls(engine)

    def close(self) -> None:
        """Closes its connections."""
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def record(self, answers: Sequence[KeptAnswer]) -> None:
        """Stores answers, all of them or none; one that is stored already is not counted twice.

        Raises:
            DatabaseError: they cannot be written.
            AnsweringDiffers: another version is stored under the same number.
        """
        with writing(self.engine) as connection:
            known: set[str] = set()
            for some in _batches([one.id for one in answers]):
                known |= set(connection.scalars(sa.select(AnswerRow.id).where(AnswerRow.id.in_(some))))
            new = {one.id: one for one in answers if one.id not in known}.values()
            if not new:
                return
            ids = {one.answering: self._answering_id(connection, one.answering) for one in new}
            rows = []
            for one in new:
                codes = [code for code, _ in one.answering.labels]
                in_set = "".join("1" if code in one.in_set else "0" for code in codes)
                row = {"id": one.id, "day": one.day, "key": one.key, "cell": one.cell, "in_set": in_set}
                rows.append({**row, "answering": ids[one.answering], "label": codes.index(one.label)})
            connection.execute(sa.insert(AnswerRow), rows)
        self._answering |= ids

    def give(
        self, outcomes: Iterable[Outcome], key: str | None, today: date | None = None
    ) -> list[Taken | OutcomeRefused]:
        """Takes outcomes in one transaction; returns what became of each.

        Args:
            outcomes: several of one answer are taken in their order.
            key: the id of the API key that gives them, which must be the one that asked, or `ANY_KEY`.
            today: the day on which they become known; by default today, in UTC.

        Raises:
            DatabaseError: they cannot be written; then none is.
        """
        given = list(outcomes)
        results: list[Taken | OutcomeRefused] = []
        rows: list[dict[str, object]] = []
        day, by = today or datetime.now(UTC).date(), None if key == ANY_KEY else key
        with writing(self.engine) as connection:
            seen = _answers(connection, {one.answer for one in given})
            for one in given:
                try:
                    taken = _check(seen.get(one.answer), one, key)
                except OutcomeRefused as refused:
                    results.append(refused)
                    continue
                results.append(taken)
                if taken == "known already":
                    continue
                answer = seen[one.answer]
                said = SaidOutcome(None, one.label, one.confirmed_by, one.confirmed_on, day)
                seen[one.answer] = replace(answer, said=(*answer.said, said))
                label = None if one.label is None else [code for code, _ in answer.labels].index(one.label)
                row = {**asdict(said), "answer": one.answer, "label": label, "key": by}
                del row["number"]  # which the database gives
                rows.append(row)
            if rows:
                connection.execute(sa.insert(OutcomeRow), rows)
        return results

    def answer(self, id_: str, key: str | None) -> SeenAnswer | None:
        """What is stored of an answer; None where no answer of this id is stored for this key.

        Raises:
            DatabaseError: it cannot be read.
        """
        with reading(self.engine) as connection:
            found = _answers(connection, {id_}).get(id_)
        return found if found is not None and key in (ANY_KEY, found.key) else None

    def forget(self, before: date) -> int:
        """Removes answers of days before this one, with their counts and outcomes; returns how many.

        Raises:
            DatabaseError: they cannot be removed.
        """
        with writing(self.engine) as connection:
            old = sa.select(AnswerRow.id).where(AnswerRow.day < before)
            connection.execute(sa.delete(OutcomeRow).where(OutcomeRow.answer.in_(old)))
            return connection.execute(sa.delete(AnswerRow).where(AnswerRow.day < before)).rowcount

    def _answering_id(self, connection: sa.Connection, one: Answering) -> int:
        if (known := self._answering.get(one)) is not None:
            return known
        key = {"model": one.model, "version": one.version, "subgroup": one.subgroup}
        about = {"made_for": one.made_for, "labels": [list(label) for label in one.labels]}
        found = connection.execute(sa.select(AnsweringRow).filter_by(**key)).one_or_none()
        if found is None:
            added = connection.execute(sa.insert(AnsweringRow).values(**key, **about)).inserted_primary_key
            assert added is not None
            return int(added[0])
        if {"made_for": found.made_for, "labels": found.labels} != about:
            raise AnsweringDiffers(
                f"the database of outcomes knows another version {one.version} of {one.model}, for "
                f"{found.made_for}, from another registry; name a database of this registry alone"
            )
        return int(found.id)


def _answers(connection: sa.Connection, ids: Iterable[str]) -> dict[str, SeenAnswer]:
    found: dict[str, SeenAnswer] = {}
    for some in _batches(sorted(ids)):
        query = sa.select(AnswerRow, AnsweringRow).join(AnsweringRow, AnsweringRow.id == AnswerRow.answering)
        for row in connection.execute(query.where(AnswerRow.id.in_(some))):
            labels = tuple((str(code), bool(malignant)) for code, malignant in row.labels)
            codes = [code for code, _ in labels]
            in_set = tuple(code for code, mark in zip(codes, row.in_set, strict=True) if mark == "1")
            facts = (row.id, row.day, row.key, row.model, row.version, DECISIONS[row.cell % len(DECISIONS)])
            found[row.id] = SeenAnswer(*facts, codes[row.label], in_set, labels)
        outcomes = sa.select(OutcomeRow).where(OutcomeRow.answer.in_(some)).order_by(OutcomeRow.number)
        for one in connection.execute(outcomes):
            answer = found[one.answer]
            label = None if one.label is None else answer.labels[one.label][0]
            said = SaidOutcome(one.number, label, one.confirmed_by, one.confirmed_on, one.known_on)
            found[one.answer] = replace(answer, said=(*answer.said, said))
    return found


def _check(answer: SeenAnswer | None, outcome: Outcome, key: str | None) -> Taken:
    """What becomes of an outcome.

    Raises:
        OutcomeRefused: it cannot be accepted.
    """
    if answer is None or key not in (ANY_KEY, answer.key):
        raise UnknownAnswer(
            "no answer of this id is stored for this API key; check the id of the diagnosis, and that the "
            "key is the one that asked"
        )
    label, codes = outcome.label, [code for code, _ in answer.labels]
    if label is not None and label not in codes:
        allowed = nearest(label[:100], codes)
        raise OutcomeRefused(f"the label {{wrote}} is none of the version that answered; {allowed}", label)
    current = answer.current
    if current is None:
        if label is None:
            raise OutcomeRefused("there is no outcome of this answer to withdraw")
        return "new"
    if current.repeats(outcome) or (label is None and current.label is None):
        return "known already"
    if outcome.of_file and any(one.repeats(outcome) for one in answer.said):
        raise OutcomeGiven(
            "this very outcome was given before and has been replaced since; if it is right again, give it "
            "with the day on which that was found"
        )
    is_other = outcome.instead_of not in (None, current.number)
    if is_other or (label is not None and not outcome.corrects):
        raise OutcomeGiven(
            f"another outcome of this answer is known ({current.label or 'withdrawn'}, "
            f"{current.confirmed_by}, {current.confirmed_on}); mark this one as a correction, or leave it"
        )
    return "withdrawn" if label is None else "corrected"


def _batches(values: Sequence[One]) -> Iterator[Sequence[One]]:
    return (values[start : start + _BATCH] for start in range(0, len(values), _BATCH))


def _has_tables(connection: sa.Connection, *, create: bool) -> bool:
    """Whether the database has the tables of this schema; False of an empty one where they may be created.

    Raises:
        OtherSchema: another version of dermfed made it.
        DatabaseError: it contains other tables, or none.
    """
    tables = sa.inspect(connection).get_table_names()
    address = url_text(connection.engine.url)
    if not tables and not create:
        raise DatabaseError(f"the database {address} is empty; name the one that the service writes to")
    if not tables:
        return False
    if SchemaRow.__tablename__ not in tables:
        others = ", ".join(tables[:5])
        raise DatabaseError(
            f"the database {address} contains other tables ({others}); name one for outcomes alone"
        )
    found = connection.scalar(sa.select(SchemaRow.number))
    if found != SCHEMA:
        raise OtherSchema(
            f"the database {address} has schema {found} of outcomes; this dermfed reads {SCHEMA} alone: open "
            "it with the version that wrote it, or name a new one"
        )
    return True
