"""Whether the tables hold what the events say: versions, releases, aliases, keys and gate sets."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, String, select, type_coerce

from registry.facts import member_facts, release_time, version_facts
from registry.gate_sets import gate_set_problems
from registry.keys import SCOPES
from registry.queries import model_names, stack_of
from registry.records import Problem
from registry.tables import AliasRow, KeyRow, ReleaseRow

_RESTORE = "find out who changed the database, and restore a copy of it"

_OF_KEYS = ("key-created", "key-rotated", "key-revoked")

# What a key is of which no event says otherwise; before keys had scopes, each could do everything.
_UNSAID: dict[str, Any] = {
    "revoked": None,
    "expires": None,
    "scopes": list(SCOPES),
    "per_minute": None,
    "replaces": None,
}

Events = Sequence[Mapping[str, Any]]
"""Events as `registry.audit.stored_events` gives them."""


def disagreements(connection: Connection, events: Events) -> Iterator[Problem]:
    """All that the tables hold otherwise than the events say."""
    yield from _versions(connection, events)
    yield from _releases(connection, events)
    yield from _aliases(connection, events)
    yield from _keys(connection, events)
    yield from gate_set_problems(connection, events)


def _details(event: Mapping[str, Any], name: str) -> Any:
    return (event["details"] or {}).get(name)


def _differing(held: Mapping[str, Any], said: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} {held[name]!r} instead of {said[name]!r}"
        for name in said
        if name in held and held[name] != said[name]
    )


def _versions(connection: Connection, events: Events) -> Iterator[Problem]:
    said = {
        (event["model"], facts["number"]): (event["id"], facts)
        for event in events
        for facts in _details(event, "versions") or []
        if event["kind"] in ("added", "imported")
    }
    held = {
        (model, facts["number"]): facts
        for model in model_names(connection)
        for facts in version_facts(connection, model)
    }
    for model, number in sorted(held.keys() | said.keys()):
        about = f"version {number} of {model}"
        if (model, number) not in said:
            yield Problem(about, f"no event tells that it was added; {_RESTORE}")
            continue
        event, facts = said[model, number]
        if (model, number) not in held:
            yield Problem(about, f"event {event} tells of it and it is gone; {_RESTORE}")
        elif differing := _differing(held[model, number], facts):
            yield Problem(about, f"it has {differing}, as event {event} tells it; {_RESTORE}")


def _releases(connection: Connection, events: Events) -> Iterator[Problem]:
    held = {row.id: row.model for row in connection.execute(select(ReleaseRow.id, ReleaseRow.model))}
    told = set()
    for event in events:
        number, members = event["release_id"], _details(event, "members")
        if number is None:
            continue
        if number in told and members is None:
            continue
        told.add(number)
        about = f"release {number} of {event['model']}"
        if number not in held:
            yield Problem(about, f"event {event['id']} tells of it and it is gone; {_RESTORE}")
            continue
        is_now = {
            "model": held[number],
            "members": member_facts(connection, number),
            "made": release_time(connection, number),
        }
        said = {"model": event["model"], "members": members, "made": _details(event, "made")}
        if differing := _differing(is_now, {name: fact for name, fact in said.items() if fact is not None}):
            yield Problem(about, f"it has {differing}, as event {event['id']} tells it; {_RESTORE}")
    for number in sorted(held.keys() - told):
        yield Problem(f"release {number} of {held[number]}", f"no event tells of it; {_RESTORE}")


def _aliases(connection: Connection, events: Events) -> Iterator[Problem]:
    query = select(AliasRow.model, AliasRow.alias, AliasRow.release_id, ReleaseRow.model).join(
        ReleaseRow, ReleaseRow.id == AliasRow.release_id
    )
    aliases = {(row[0], row[1]): (row[2], row[3]) for row in connection.execute(query)}
    steps: dict[tuple[str, str], list[tuple[str, int | None]]] = {}
    for event in events:
        if event["alias"] is not None and event["kind"] in ("promoted", "rolled-back"):
            steps.setdefault((event["model"], event["alias"]), []).append(
                (event["kind"], event["release_id"])
            )
    for (model, alias), (release, of_release) in sorted(aliases.items()):
        about = f"alias {alias} of {model}"
        if of_release != model:
            yield Problem(about, f"it points to a release of {of_release}; promote anew")
        stack = stack_of(steps.get((model, alias), []))
        if not stack or stack[-1] != release:
            end = stack[-1] if stack else "none"
            yield Problem(about, f"it points to release {release}, and history ends at {end}; promote anew")
    models = model_names(connection)
    for model, alias in sorted(steps.keys() - aliases.keys()):
        if model in models:
            yield Problem(f"alias {alias} of {model}", "history tells of it and it is gone; promote anew")


def _keys(connection: Connection, events: Events) -> Iterator[Problem]:
    said: dict[str, dict[str, Any]] = {}
    for event in events:
        if event["kind"] in _OF_KEYS and _details(event, "id") is not None:
            known = said.setdefault(event["details"]["id"], dict(_UNSAID))
            known |= {**event["details"], "event": event["id"]}
    query = select(
        KeyRow.id,
        KeyRow.name,
        KeyRow.sha256,
        type_coerce(KeyRow.created, String).label("created"),
        type_coerce(KeyRow.revoked, String).label("revoked"),
        type_coerce(KeyRow.expires, String).label("expires"),
        KeyRow.scopes,
        KeyRow.per_minute,
        KeyRow.replaces,
    )
    held = {row.id: dict(row._mapping) for row in connection.execute(query)}
    for id in sorted(held.keys() | said.keys()):
        about = f"key {id}"
        if id not in said:
            yield Problem(
                about, f"no event tells that it was made; revoke it with `dermfed-registry keys revoke {id}`"
            )
        elif id not in held:
            yield Problem(about, f"event {said[id]['event']} tells of it and it is gone; {_RESTORE}")
        elif differing := _differing(held[id], said[id]):
            yield Problem(about, f"it has {differing}, as event {said[id]['event']} tells it; {_RESTORE}")
