"""The database of outcomes: opened, written and read; the owner of its SQL with `counts`.

Takes outcomes against what is known: new, corrected, withdrawn, known already, or refused and why.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Final, Literal, Self, TypeVar

from sqlalchemy import Connection, Engine, Row, delete, insert, inspect, select, update
from sqlalchemy.dialects import postgresql, sqlite

from registry.database.connection import open_database, reading, url_text, writing
from registry.errors import DatabaseError, OtherSchema, RegistryError
from registry.outcomes.records import (
    SCHEMA,
    AnswerCountRow,
    Answering,
    AnsweringRow,
    AnswerRow,
    KeptAnswer,
    Outcome,
    OutcomeGiven,
    OutcomeRefused,
    OutcomeRow,
    SchemaRow,
    Table,
    UnknownAnswer,
    place_of,
)

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


class AnsweringDiffers(RegistryError):  # noqa: N818 - reads as what it says where it is caught
    """A version of the same number is known, and is another one."""


class OutcomeStore:
    """The database of outcomes; thread-safe, as its engine is."""

    def __init__(self, engine: Engine) -> None:
        """Takes an engine whose tables are there."""
        self.engine = engine
        self._answering: dict[Answering, int] = {}

    @classmethod
    def open(cls, url: str, *, create: bool = True) -> "OutcomeStore":
        """Opens the database at an address.

        Args:
            url: the address.
            create: whether an empty one, or one that is not there, gets its tables; else it is refused.

        Raises:
            InvalidName: the address is none of a database.
            OtherSchema: another version of dermfed made it.
            DatabaseError: it cannot be opened, or holds other tables.
        """
        engine = open_database(url, create=create)
        try:
            _ensure_tables(engine, create=create)
        except BaseException:
            engine.dispose()
            raise
        return cls(engine)

    def close(self) -> None:
        """Closes its connections."""
        self.engine.dispose()

    def __enter__(self) -> Self:
        """Itself, to be closed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes it."""
        self.close()

    def record(self, answers: Sequence[KeptAnswer]) -> None:
        """Keeps answers, all of them or none; one that is there already is not counted twice.

        Raises:
            DatabaseError: they cannot be written.
            AnsweringDiffers: the database knows a version under the same number that is another one.
        """
        if not answers:
            return
        with writing(self.engine) as connection:
            known: set[str] = set()
            for some in batched([one.id for one in answers], TOGETHER):
                known |= set(connection.scalars(select(AnswerRow.id).where(AnswerRow.id.in_(some))))
            new = {one.id: one for one in answers if one.id not in known}
            if not new:
                return
            ids = {one.answering: self._id_of(connection, one.answering) for one in new.values()}
            connection.execute(insert(AnswerRow), [_row(one, ids[one.answering]) for one in new.values()])
            counted = Counter((ids[one.answering], one.day, one.cell.number) for one in new.values())
            _add_counts(connection, counted)
        self._answering |= ids

    def give(
        self, outcomes: Iterable[Outcome], key: str | None, today: date | None = None
    ) -> list[Taken | Refusal]:
        """Takes outcomes in one transaction, and says of each what became of it.

        Args:
            outcomes: several of one answer are taken in their order.
            key: the id of the API key that gives them, which must have asked; `giving.ANYBODY` may all.
            today: the day on which they become known; by default today, in UTC.

        Raises:
            DatabaseError: they cannot be written; then none is.
        """
        day = today or datetime.now(UTC).date()
        given = list(outcomes)
        with writing(self.engine) as connection:
            known = Known(connection, [one.answer for one in given])
            told = [take(known, one, key) for one in given]
            known.write(connection, key, day)
        return told

    def forget(self, before: date) -> int:
        """Removes answers of days before this one, with their counts and outcomes; returns how many.

        Raises:
            DatabaseError: they cannot be removed.
        """
        with writing(self.engine) as connection:
            old = select(AnswerRow.id).where(AnswerRow.day < before)
            connection.execute(delete(OutcomeRow).where(OutcomeRow.answer.in_(old)))
            connection.execute(delete(AnswerCountRow).where(AnswerCountRow.day < before))
            return connection.execute(delete(AnswerRow).where(AnswerRow.day < before)).rowcount

    def _id_of(self, connection: Connection, one: Answering) -> int:
        if (known := self._answering.get(one)) is not None:
            return known
        where = (
            AnsweringRow.model == one.model,
            AnsweringRow.version == one.version,
            AnsweringRow.subgroup == one.subgroup,
            AnsweringRow.pattern == one.pattern,
        )
        labels = [list(label) for label in one.labels]
        found = connection.execute(select(AnsweringRow).where(*where)).one_or_none()
        if found is not None:
            if (found.made_for, found.labels) != (one.made_for, labels):
                raise AnsweringDiffers(
                    f"the database of outcomes knows another version {one.version} of {one.model}, for "
                    f"{found.made_for}: it is of another registry, or of one that was made anew; name a "
                    "database of this registry alone"
                )
            return int(found.id)
        values = {"model": one.model, "version": one.version, "made_for": one.made_for}
        inserted = connection.execute(
            insert(AnsweringRow).values(**values, subgroup=one.subgroup, pattern=one.pattern, labels=labels)
        ).inserted_primary_key
        assert inserted is not None
        return int(inserted[0])


def _row(one: KeptAnswer, answering: int) -> dict[str, object]:
    codes = [code for code, _ in one.answering.labels]
    return {
        "id": one.id,
        "day": one.day,
        "answering": answering,
        "key": one.key,
        "cell": one.cell.number,
        "label": codes.index(one.label),
        "in_set": "".join("1" if code in one.in_set else "0" for code in codes),
    }


def _add_counts(connection: Connection, counted: Counter[tuple[int, date, int]]) -> None:
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    rows = [
        {"answering": answering, "day": day, "cell": cell, "n": n}
        for (answering, day, cell), n in sorted(counted.items())
    ]
    adding: Callable[..., sqlite.Insert | postgresql.Insert] = dialect.insert
    statement = adding(AnswerCountRow)
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=["answering", "day", "cell"],
            set_={"n": AnswerCountRow.n + statement.excluded.n},
        ),
        rows,
    )


def _ensure_tables(engine: Engine, *, create: bool) -> None:
    """Makes the tables of an empty database where it may, and refuses one of another schema."""
    with reading(engine) as connection:
        found = _schema(connection)
    if found is None and not create:
        raise DatabaseError(
            f"the database {url_text(engine.url)} is empty; name the one that the service writes to"
        )
    if found is not None:
        return
    with writing(engine) as connection:
        if _schema(connection) is None:  # another process may have been first
            Table.metadata.create_all(connection)
            connection.execute(insert(SchemaRow).values(number=SCHEMA))


def _schema(connection: Connection) -> int | None:
    """The number of the schema; None of an empty database.

    Raises:
        OtherSchema: another version of dermfed made it.
        DatabaseError: it holds other tables, or does not say its schema.
    """
    tables = inspect(connection).get_table_names()
    address = url_text(connection.engine.url)
    if not tables:
        return None
    if SchemaRow.__tablename__ not in tables:
        raise DatabaseError(
            f"the database {address} holds other tables ({', '.join(tables[:5])}); name one for outcomes "
            "alone"
        )
    found = connection.scalar(select(SchemaRow.number))
    if found is None:
        raise DatabaseError(f"the database {address} does not say its schema")
    if found != SCHEMA:
        raise OtherSchema(
            f"the database {address} has schema {found} of outcomes; this dermfed reads {SCHEMA} alone: open "
            "it with the version that wrote it, or name a new one"
        )
    return int(found)
