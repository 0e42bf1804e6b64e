"""Alarms as the database of outcomes keeps them: found once, they stay, whatever outcomes say later.

A service that may not write into the registry keeps them here, until somebody who may tells the registry.
There they are closed, so that nobody closes one by changing this database.
"""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from sqlalchemy import Connection, insert, select

from registry.database.connection import reading, writing
from registry.outcomes.store import OutcomeStore
from registry.outcomes.tables import AlarmRow

Key = tuple[int, str, str]
"""Which promise: the version's number, the subgroup, and what was promised of it."""


@dataclass(frozen=True)
class FoundAlarm:
    """A promise that was found to be broken.

    Attributes:
        id: 32 hex digits of its own.
        version: the version's number.
        subgroup: to whom it was promised.
        of: what of: sensitivity or coverage.
        least: the share that was promised.
        evidence: against it, when it was found.
        limit: how much that takes.
        outcomes: how many it was held against.
        day: on which the evidence reached the limit.
        found: when that was first computed.
    """

    id: str
    version: int
    subgroup: str
    of: str
    least: float
    evidence: float
    limit: float
    outcomes: int
    day: date
    found: datetime

    @property
    def key(self) -> Key:
        """Which promise."""
        return self.version, self.subgroup, self.of


def new_id() -> str:
    """An id for an alarm."""
    return uuid.uuid4().hex


def kept_alarms(store: OutcomeStore, model: str) -> list[FoundAlarm]:
    """Every alarm of a model that was kept, the oldest first, closed ones too.

    Raises:
        DatabaseError: they cannot be read.
    """
    with reading(store.engine) as connection:
        return _read(connection, model)


def keep_alarms(
    store: OutcomeStore, model: str, found: Sequence[FoundAlarm], settled: Callable[[FoundAlarm], bool]
) -> list[FoundAlarm]:
    """Keeps alarms; of a promise with one that is open already, none. Returns all that are kept of the model.

    Args:
        store: where.
        model: whose.
        found: what was found now.
        settled: says of one that is kept whether it was closed.

    Raises:
        DatabaseError: they cannot be written.
    """
    with writing(store.engine) as connection:
        kept = _read(connection, model)
        new = without_open(found, kept, settled)
        if new:
            connection.execute(insert(AlarmRow), [{"model": model, **_row(one)} for one in new])
        return [*kept, *new]


def without_open(
    found: Sequence[FoundAlarm], kept: Sequence[FoundAlarm], settled: Callable[[FoundAlarm], bool]
) -> list[FoundAlarm]:
    """Those of promises of which no alarm is kept that is open."""
    known = {one.key for one in kept if not settled(one)}
    return [one for one in found if one.key not in known]


def _row(one: FoundAlarm) -> dict[str, object]:
    return {name: getattr(one, name) for name in FoundAlarm.__dataclass_fields__}


def _read(connection: Connection, model: str) -> list[FoundAlarm]:
    query = select(AlarmRow).where(AlarmRow.model == model).order_by(AlarmRow.found, AlarmRow.id)
    rows = connection.execute(query.with_only_columns(*AlarmRow.__table__.columns)).all()
    return [
        FoundAlarm(**{name: row._mapping[name] for name in FoundAlarm.__dataclass_fields__}) for row in rows
    ]
