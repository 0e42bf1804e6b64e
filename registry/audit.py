"""The audit chain, read back: whether it holds, and as lines that anybody can check without dermfed.

Everything here reads what is stored, as text, and not what a record of it would say.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, String, Text, cast, select, type_coerce

from registry.chain import GENESIS, canonical_json, event_hash
from registry.records import Problem
from registry.tables import EventRow, HeadRow

_JSON = ("versions", "gates", "details")
_RESTORE = "find out who changed the database, and restore a copy of it"


def stored_events(connection: Connection, model: str | None = None) -> Iterator[dict[str, Any]]:
    """Every event as it is stored, of one model or of all, the oldest first.

    What should be JSON and is not comes as the text that it is.
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
        yield {name: _read(fact) if name in _JSON else fact for name, fact in row.items()}


def event_line(facts: dict[str, Any]) -> bytes:
    """An event as one line of JSON, its hash too."""
    return canonical_json(facts) + b"\n"


def chain_problems(connection: Connection, events: Iterable[dict[str, Any]]) -> Iterator[Problem]:
    """The first event that does not fit, or an end that is not where it should be."""
    last, number, length = GENESIS, None, 0
    for facts in events:
        about = f"event {facts['id']}"
        try:
            found = event_hash(facts)
        except ValueError as error:
            found = f"none ({error})"
        if found != facts["hash"]:
            yield Problem(
                about,
                f"it was changed: its hash is {facts['hash']}, and what it says gives {found}; {_RESTORE}",
            )
            return
        if facts["previous"] != last:
            after = "the first" if number is None else f"event {number}"
            yield Problem(
                about,
                f"it follows an event of hash {facts['previous']}, and before it comes "
                f"{'nothing' if number is None else f'{after}, of hash {last}'}: "
                f"an event between was removed or put in; {_RESTORE}",
            )
            return
        last, number, length = facts["hash"], facts["id"], length + 1
    yield from _end_problems(connection, last, number, length)


def _end_problems(connection: Connection, last: str, number: int | None, length: int) -> Iterator[Problem]:
    ends = connection.execute(select(HeadRow.events, HeadRow.hash)).all()
    if len(ends) != 1:
        yield Problem("audit_head", f"it has {len(ends)} rows and must have one; {_RESTORE}")
    elif tuple(ends[0]) != (length, last):
        where = "there is no event" if number is None else f"event {number} is the last, of hash {last}"
        yield Problem(
            "the last event",
            f"audit_head says {ends[0].events} events, the last of hash {ends[0].hash}; there are {length}, "
            f"and {where}: events after it were removed, or audit_head was changed; {_RESTORE}",
        )


def readable(events: Sequence[dict[str, Any]]) -> bool:
    """Whether all that should be JSON is."""
    return not any(isinstance(facts[name], str) for facts in events for name in _JSON)


def _read(text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return text
