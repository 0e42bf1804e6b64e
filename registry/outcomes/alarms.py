"""Alarms as the chain of events tells them: raised once, open until an event closes them.

One look at the field: figures, and every alarm, those that history does not know yet among them.

Alarms into the chain of events, and out of it: whoever closes one says why.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Final

from sqlalchemy import Connection, Engine

from registry.bundle.manifest import BundleManifest
from registry.database.changes import AuditContext, insert_event
from registry.database.connection import reading, writing
from registry.database.queries import all_versions, events_of, require_model
from registry.errors import AlarmClosed, ReleaseRefused
from registry.names import no_such_number
from registry.outcomes.monitoring import Key, SubgroupInField, field_report
from registry.outcomes.store import OutcomeStore
from registry.records import Event, moment


@dataclass(frozen=True)
class FoundAlarm:
    """A promise that was found to be broken.

    Attributes:
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


@dataclass(frozen=True)
class Alarm:
    """An alarm that history knows.

    Attributes:
        number: 1, 2, … in the order in which those of the model were told.
        found: what was found.
        event: the id of the event that tells of it.
        told: when that was.
        closed: when it was closed; None while it is open.
        closed_by: who closed it.
        why: the reason of that.
    """

    number: int
    found: FoundAlarm
    event: int
    told: datetime
    closed: datetime | None = None
    closed_by: str = ""
    why: str = ""

    @property
    def is_open(self) -> bool:
        """Whether nobody has closed it."""
        return self.closed is None

    def __str__(self) -> str:
        state = "" if self.closed is None else f", closed at {moment(self.closed)} ({self.why})"
        return f"alarm {self.number}: {said(self.found)}{state}"


def said(found: FoundAlarm) -> str:
    """An alarm in a sentence without its full stop."""
    return (
        f"version {found.version} broke its promise to {found.subgroup}, a {found.of} of "
        f"{found.least:.2f} or more, on {found.day}"
    )


def alarms_of(connection: Connection, model: str) -> tuple[Alarm, ...]:
    """Every alarm of a model that was told, closed ones too, the oldest first."""
    events = events_of(connection, model, kinds=("alarm", "alarm-closed"))
    closings = {_number(one): one for one in events if one.kind == "alarm-closed"}
    return tuple(_alarm(one, closings.get(_number(one))) for one in events if one.kind == "alarm")


def open_alarms(alarms: Sequence[Alarm]) -> tuple[Alarm, ...]:
    """Those that nobody has closed."""
    return tuple(one for one in alarms if one.is_open)


def closed_until(alarms: Sequence[Alarm]) -> dict[Key, datetime]:
    """When the last alarm of each promise was closed, of those that had one."""
    found: dict[Key, datetime] = {}
    for one in alarms:
        if one.closed is not None:
            found[one.found.key] = max(one.closed, found.get(one.found.key, one.closed))
    return found


def details_of(number: int, found: FoundAlarm) -> dict[str, object]:
    """An alarm as the details of its event hold it."""
    return {
        "alarm": number,
        "subgroup": found.subgroup,
        "of": found.of,
        "least": found.least,
        "evidence": found.evidence,
        "limit": found.limit,
        "outcomes": found.outcomes,
        "day": str(found.day),
        "found": found.found.isoformat(),
    }


def _number(event: Event) -> int:
    return int((event.details or {})["alarm"])


def _alarm(event: Event, closing: Event | None) -> Alarm:
    told = event.details or {}
    found = FoundAlarm(
        version=event.versions[0],
        subgroup=told["subgroup"],
        of=told["of"],
        least=told["least"],
        evidence=told["evidence"],
        limit=told["limit"],
        outcomes=told["outcomes"],
        day=date.fromisoformat(told["day"]),
        found=datetime.fromisoformat(told["found"]),
    )
    if closing is None:
        return Alarm(told["alarm"], found, event.id, event.time)
    closed = (closing.time, closing.actor, closing.reason or "")
    return Alarm(told["alarm"], found, event.id, event.time, *closed)


_MOST: Final = 1e300  # no database and no JSON holds an infinity


@dataclass(frozen=True)
class Look:
    """What is known of a model in the field at one moment.

    Attributes:
        report: figures by version and subgroup.
        alarms: those that history knows, closed ones too.
        untold: those that it does not know yet; open.
    """

    report: tuple[SubgroupInField, ...]
    alarms: tuple[Alarm, ...]
    untold: tuple[FoundAlarm, ...]

    @property
    def open(self) -> tuple[FoundAlarm, ...]:
        """Every open alarm, told or not."""
        return (*(one.found for one in open_alarms(self.alarms)), *self.untold)


def look(
    engine: Engine, store: OutcomeStore, model: str, manifest_of: Callable[[int], BundleManifest | None]
) -> Look:
    """Computes the figures of a model, and what alarms they show.

    Args:
        engine: of the registry.
        store: the database of outcomes.
        model: the model's name.
        manifest_of: as of `field_report`.

    Raises:
        DatabaseError: one of the databases cannot be read.
    """
    with reading(engine) as connection:
        alarms = alarms_of(connection, model)
    closed = {key: time.date() for key, time in closed_until(alarms).items()}
    report = field_report(store, model, manifest_of, closed)
    still = {one.found.key for one in open_alarms(alarms)}
    return Look(tuple(report), alarms, tuple(one for one in _found(report) if one.key not in still))


def _found(report: Sequence[SubgroupInField]) -> list[FoundAlarm]:
    now = datetime.now(UTC)
    return [
        FoundAlarm(
            one.version,
            one.subgroup,
            kept.promise.what,
            kept.promise.least,
            min(kept.evidence, _MOST),
            kept.limit,
            kept.outcomes,
            kept.broken_on,
            now,
        )
        for one in report
        for kept in one.alarms
        if kept.broken_on is not None
    ]


def tell_alarms(
    engine: Engine, model: str, found: Sequence[FoundAlarm], context: AuditContext
) -> tuple[Event, ...]:
    """Tells the registry of alarms; of a promise with an open one, none is told a second time.

    Args:
        engine: of the registry.
        model: the model's name.
        found: as `look` found them.
        context: who tells.

    Raises:
        PersonRefused: an operator has to sign it.
    """
    if not found:
        return ()
    told = []
    with writing(engine) as connection:
        alarms = alarms_of(connection, model)
        still = {one.found.key for one in alarms if one.is_open}
        versions = {one.number for one in all_versions(connection, model)}
        number = len(alarms)
        for one in found:
            if one.key in still or one.version not in versions:
                continue
            number, still = number + 1, still | {one.key}
            details = details_of(number, one)
            told.append(
                insert_event(connection, "alarm", model, context, versions=[one.version], details=details)
            )
    return tuple(told)


def close_alarm(engine: Engine, model: str, number: int, context: AuditContext) -> Event:
    """Closes an alarm for good. What became known until today is spent: the promise is watched anew.

    Raises:
        NotFound: there is no such model or alarm.
        AlarmClosed: it was closed before.
        PersonRefused: an operator has to sign it.
        ReleaseRefused: there is no reason.
    """
    if context.reason is None:
        raise ReleaseRefused("closing an alarm needs a reason, which history keeps; add --reason TEXT")
    with writing(engine) as connection:
        require_model(connection, model)
        alarms = {one.number: one for one in alarms_of(connection, model)}
        if (alarm := alarms.get(number)) is None:
            raise no_such_number("alarm", number, alarms, of=f" of model {model!r}")
        _require_open(alarm)
        found = alarm.found
        details = {"alarm": number, "subgroup": found.subgroup, "of": found.of}
        return insert_event(
            connection, "alarm-closed", model, context, versions=[found.version], details=details
        )


def _require_open(alarm: Alarm) -> None:
    if alarm.closed is not None:
        raise AlarmClosed(
            f"alarm {alarm.number} was closed by {alarm.closed_by} at {moment(alarm.closed)} ({alarm.why}); "
            "there is nothing to close"
        )
