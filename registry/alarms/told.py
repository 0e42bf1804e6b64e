"""Alarms as the chain of events tells them: raised once, open until an event closes them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime

from sqlalchemy import Connection

from registry.database.queries import events_of
from registry.field.report import Key
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
