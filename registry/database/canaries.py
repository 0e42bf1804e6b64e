"""Canaries, as the events tell them: no table says which run, so that none can say otherwise.

The newest event of an alias that moves it, or starts or ends a canary, decides. A dermfed that knows no
canaries ends one by whatever it does to the alias.
"""

import hmac
from typing import Any, Final

from sqlalchemy import Connection, String, select, type_coerce

from registry.database.action import registry_id
from registry.database.hash_chain import canonical_json
from registry.database.queries import release_by_id, withdrawn_members
from registry.database.tables import EventRow
from registry.records import CANARY_MOVES, Canary

_PURPOSE: Final = b"dermfed canary 1: "


def running_canary(connection: Connection, model: str, alias: str) -> Canary | None:
    """The canary beside an alias; None where none runs, or a version of it was withdrawn."""
    query = (
        select(*EventRow.__table__.columns)
        .where(EventRow.model == model, EventRow.alias == alias, EventRow.kind.in_(CANARY_MOVES))
        .order_by(EventRow.id.desc())
        .limit(1)
    )
    row = connection.execute(query).first()
    if row is None or row.kind != "canary-started" or row.before_id is None:
        return None
    release, details = release_by_id(connection, row.release_id), row.details or {}
    if release is None or release.id in withdrawn_members(connection, model):
        return None
    share, key = details.get("share"), _key(connection, details.get("first", row.id))
    if key is None or not isinstance(share, float) or not 0 < share < 1:
        return None  # as another dermfed may write it: what this one cannot tell, answers nobody
    return Canary(
        alias,
        release,
        row.before_id,
        share,
        details.get("subgroup"),
        row.id,
        row.time,
        row.actor,
        row.reason,
        key,
    )


def first_event(connection: Connection, canary: Canary) -> int:
    """The event by which a canary began, before its share was changed."""
    details = connection.scalar(select(EventRow.details).where(EventRow.id == canary.event)) or {}
    return int(details.get("first", canary.event))


def ended_with(canary: Canary | None) -> dict[str, Any]:
    """What the event says that ends a canary: which; nothing where none runs."""
    return {} if canary is None else {"canary": canary.release.id}


def _key(connection: Connection, first: int) -> bytes | None:
    """The key of a canary: of all that its first event says, and the registry's id; None without that event.

    An event tells its microsecond and the hash of the one before it, of which the service tells nobody
    anything. Whoever reads the database can compute the key. The event's own hash would not do: heads of the
    chain are kept elsewhere and may be published.
    """
    columns = [
        type_coerce(column, String).label(column.name) if column.name == "time" else column
        for column in EventRow.__table__.columns
    ]
    row = connection.execute(select(*columns).where(EventRow.id == first)).one_or_none()
    if row is None:
        return None
    facts = dict(row._mapping)
    return hmac.digest(registry_id(connection).encode(), _PURPOSE + canonical_json(facts), "sha256")
