"""The statement that a person signs: what they did, to what, why and when, as canonical JSON.

It names the registry and, as `after`, the event that was the newest about the same model and alias, so that a
signature is good once, and in one registry.
"""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, func, select

from registry.database.hash_chain import canonical_json
from registry.database.tables import EventRow, IdentityRow, stored_time

_NOT_SIGNED: Final = ("signed", "made")
"""Facts of an event's details that whoever signs cannot know before: the signature, a release's time."""


def registry_id(connection: Connection) -> str:
    """The id of this registry, 32 hex digits; empty where the database has lost it."""
    return connection.scalar(select(IdentityRow.identity)) or ""


def newest_about(connection: Connection, model: str, alias: str | None) -> int:
    """The id of the newest event about a model and an alias, or about a model and none; 0 without any."""
    about = (EventRow.model == model, EventRow.alias.is_(None) if alias is None else EventRow.alias == alias)
    return connection.scalar(select(func.max(EventRow.id)).where(*about)) or 0


def report_digest(gates: Mapping[str, Any] | None) -> str | None:
    """The digest of what the gates said, as an event holds it; None where none was asked."""
    return None if gates is None else f"sha256:{hashlib.sha256(canonical_json(gates)).hexdigest()}"


def statement(
    registry: str, event: Mapping[str, Any], after: int, time: datetime | str, report: str | None
) -> bytes:
    """What is signed of an event.

    Args:
        registry: the registry's id.
        event: its facts as `registry.database.hash_chain.event_hash` takes them.
        after: the newest event about the same model and alias before it.
        time: when it is signed.
        report: the digest of what the gates said.
    """
    gates = event["gates"]
    details = {name: fact for name, fact in (event["details"] or {}).items() if name not in _NOT_SIGNED}
    return canonical_json(
        {
            "registry": registry,
            "kind": event["kind"],
            "actor": event["actor"],
            "model": event["model"],
            "alias": event["alias"],
            "versions": list(event["versions"]),
            "reason": event["reason"],
            "overridden": event["overridden"],
            "before": event["before_id"],
            "gates": None
            if gates is None
            else {"model": gates["set_model"], "number": gates["set_number"], "report": report},
            "details": details,
            "after": after,
            "time": time if isinstance(time, str) else stored_time(time),
        }
    )
