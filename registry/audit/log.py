"""The audit log: events as they are stored, whether their hash chain holds, and their export as JSON lines.

Everything here reads the stored text, not the records made from it.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, String, Text, cast, select, type_coerce

from registry.bundle.plain_text import STEERS
from registry.database.hash_chain import GENESIS, canonical_json, event_hash
from registry.database.tables import EventRow, HeadRow
from registry.records import RESTORE, IntegrityIssue

_JSON = ("versions", "gates", "details")


def stored_events(connection: Connection, model: str | None = None) -> Iterator[dict[str, Any]]:
    """Every event as it is stored, of one model or of all, the oldest first.

    A column that should be JSON and is not comes as text.
    """
    columns = [
        cast(column, Text).label(column.name)
        if column.name in _JSON
        else type_coerce(column, String).label(column.name)
        if column.name == "time"
        else column
        for column in EventRow.__table__.columns
    ]
    query = select(*columns).order_by(EventRow.id)
    if model is not None:
        query = query.where(EventRow.model == model)
    for row in connection.execute(query).mappings():
        yield {name: _parsed(fact) if name in _JSON else fact for name, fact in row.items()}


def event_line(facts: dict[str, Any]) -> bytes:
    r"""An event as one line of canonical JSON, its hash included; what would steer a terminal as `\u009b`."""
    text = canonical_json(facts).decode("utf-8", "surrogatepass")
    return STEERS.sub(_as_json, text).encode() + b"\n"


def chain_issues(connection: Connection, events: Iterable[dict[str, Any]]) -> Iterator[IntegrityIssue]:
    """Checks the hash chain: the first event that breaks it, or an end other than `audit_head` says."""
    last, number, length = GENESIS, None, 0
    for facts in events:
        about = f"event {facts['id']}"
        try:
            computed = event_hash(facts)
        except ValueError as error:
            computed = f"none ({error})"
        if computed != facts["hash"]:
            yield IntegrityIssue(
                about,
                f"it was changed: its hash is {facts['hash']}, and what it says gives {computed}; {RESTORE}",
            )
            return
        if facts["previous"] != last:
            after = "the first" if number is None else f"event {number}"
            yield IntegrityIssue(
                about,
                f"it follows an event of hash {facts['previous']}, and before it comes "
                f"{'nothing' if number is None else f'{after}, of hash {last}'}: "
                f"an event between was removed or put in; {RESTORE}",
            )
            return
        last, number, length = facts["hash"], facts["id"], length + 1
    yield from _end_issues(connection, last, number, length)


def _end_issues(
    connection: Connection, last: str, number: int | None, length: int
) -> Iterator[IntegrityIssue]:
    ends = connection.execute(select(HeadRow.events, HeadRow.hash)).all()
    if len(ends) != 1:
        yield IntegrityIssue("audit_head", f"it has {len(ends)} rows and must have one; {RESTORE}")
    elif tuple(ends[0]) != (length, last):
        where = "there is no event" if number is None else f"event {number} is the last, of hash {last}"
        yield IntegrityIssue(
            "the last event",
            f"audit_head says {ends[0].events} events, the last of hash {ends[0].hash}; there are {length}, "
            f"and {where}: events after it were removed, or audit_head was changed; {RESTORE}",
        )


def readable(events: Sequence[dict[str, Any]]) -> bool:
    """Whether every JSON column of these events could be parsed."""
    return not any(isinstance(facts[name], str) for facts in events for name in _JSON)


def _as_json(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1]


def _parsed(text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return text
