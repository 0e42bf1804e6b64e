"""Alarms: targets that a version misses. The registry's events are the only place that knows their state.

An event records a new alarm and another one closes it, with a reason; nothing that is done to the outcomes
takes it back. What outcomes show and no event has recorded yet is a new alarm, and open.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime

from pydantic import TypeAdapter
from sqlalchemy import Connection, Engine

from registry.bundle.manifest import BundleManifest
from registry.database.changes import AuditContext, insert_event
from registry.database.connection import reading, writing
from registry.database.queries import events_where, require_model
from registry.database.tables import EventRow
from registry.errors import AlarmClosed
from registry.names import no_such_number
from registry.outcomes.metrics import Key, SubgroupReport, report
from registry.outcomes.store import OutcomeStore
from registry.records import Event, moment


@dataclass(frozen=True)
class Closing:
    """When an alarm was closed, by whom and why."""

    time: datetime
    by: str
    reason: str


@dataclass(frozen=True)
class Alarm:
    """A target that a version misses.

    Attributes:
        version: the version's number.
        subgroup: whose target.
        of: the metric, sensitivity or coverage.
        least: its least value.
        evidence: against it, when the alarm was found; `limit` is how much that takes.
        outcomes: how many it was held against.
        day: on which the evidence reached the limit.
        found: when that was computed first.
        number: 1, 2, … in the order in which those of the model were recorded; None of a new alarm.
        event: the id of the event that recorded it.
        closed: how it was closed; None while it is open.
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
    number: int | None = None
    event: int | None = None
    closed: Closing | None = None

    @property
    def key(self) -> Key:
        """Which target."""
        return self.version, self.subgroup, self.of

    @property
    def said(self) -> str:
        """The alarm in a sentence without its full stop."""
        return (
            f"version {self.version} misses its target for {self.subgroup}, a {self.of} of "
            f"{self.least:.2f} or more, since {self.day}"
        )

    def __str__(self) -> str:
        number = "new alarm" if self.number is None else f"alarm {self.number}"
        state = f", closed at {moment(self.closed.time)} ({self.closed.reason})" if self.closed else ""
        return f"{number}: {self.said}{state}"


_ALARM = TypeAdapter(Alarm)


@dataclass(frozen=True)
class Monitoring:
    """The metrics of a model by version and subgroup, and all its alarms, those that are recorded first."""

    subgroups: tuple[SubgroupReport, ...]
    alarms: tuple[Alarm, ...]

    @property
    def open(self) -> tuple[Alarm, ...]:
        """Alarms that are not closed, new ones too."""
        return tuple(one for one in self.alarms if one.closed is None)

    @property
    def new(self) -> tuple[Alarm, ...]:
        """Alarms that are not recorded yet."""
        return tuple(one for one in self.alarms if one.number is None)


def alarms_of(connection: Connection, model: str) -> tuple[Alarm, ...]:
    """Every recorded alarm of a model, closed ones too, the oldest first."""
    found: dict[int, Alarm] = {}
    for event in events_where(
        connection, EventRow.model == model, EventRow.kind.in_(("alarm", "alarm-closed"))
    ):
        details = event.details or {}
        number = int(details["alarm"])
        if event.kind == "alarm":
            facts = {**details, "version": event.versions[0], "number": number, "event": event.id}
            found[number] = _ALARM.validate_python(facts)
        elif number in found:
            closing = Closing(event.time, event.actor, event.reason or "")
            found[number] = replace(found[number], closed=closing)
    return tuple(found.values())


def monitor(
    engine: Engine, store: OutcomeStore, model: str, manifest_of: Callable[[int], BundleManifest | None]
) -> Monitoring:
    """Compute the metrics of a model, and the alarms that they bring.

    Args:
        engine: of the registry.
        store: the database of outcomes.
        model: the model's name.
        manifest_of: gives the manifest of a version by its number, if it has one.

    Raises:
        DatabaseError: one of the databases cannot be read.
    """
    with reading(engine) as connection:
        recorded = alarms_of(connection, model)
    closed = {one.key: one.closed.time.date() for one in recorded if one.closed is not None}
    subgroups = report(store, model, manifest_of, closed)
    still_open = {one.key for one in recorded if one.closed is None}
    now = datetime.now(UTC)
    found = [
        Alarm(
            *(one.version, one.subgroup, held.of, held.least, held.evidence, held.limit, held.outcomes),
            *(held.broken_on, now),
        )
        for one in subgroups
        for held in one.targets
        if held.broken_on is not None
    ]
    new = [one for one in found if one.key not in still_open]
    return Monitoring(tuple(subgroups), (*recorded, *new))


def record_alarms(
    engine: Engine, model: str, new: Sequence[Alarm], context: AuditContext
) -> tuple[Event, ...]:
    """Record new alarms in the registry's history; a target with an open alarm gets no second one.

    Raises:
        PersonRefused: an operator has to sign it.
    """
    if not new:
        return ()
    events = []
    with writing(engine) as connection:
        recorded = alarms_of(connection, model)
        still_open = {one.key for one in recorded if one.closed is None}
        number = len(recorded)
        for one in new:
            if one.key in still_open:
                continue
            number += 1
            facts = _ALARM.dump_python(one, mode="json", exclude={"version", "number", "event", "closed"})
            details = {"alarm": number, **facts}
            events.append(
                insert_event(connection, "alarm", model, context, versions=[one.version], details=details)
            )
    return tuple(events)


def close_alarm(engine: Engine, model: str, number: int, context: AuditContext) -> Event:
    """Close an alarm for good. The outcomes known until today do not count against the target any more.

    Raises:
        NotFound: there is no such model or alarm.
        AlarmClosed: it was closed before.
        PersonRefused: an operator has to sign it.
        ReleaseRefused: there is no reason.
    """
    context.require_reason("closing an alarm")
    with writing(engine) as connection:
        require_model(connection, model)
        alarms = {one.number: one for one in alarms_of(connection, model) if one.number is not None}
        if (alarm := alarms.get(number)) is None:
            raise no_such_number("alarm", number, alarms, of=f" of model {model!r}")
        if (closed := alarm.closed) is not None:
            raise AlarmClosed(
                f"alarm {number} was closed by {closed.by} at {moment(closed.time)} ({closed.reason}); there "
                "is nothing to close"
            )
        details = {"alarm": number, "subgroup": alarm.subgroup, "of": alarm.of}
        return insert_event(
            connection, "alarm-closed", model, context, versions=[alarm.version], details=details
        )
