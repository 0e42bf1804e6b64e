"""Replays the events, and compares the tables of versions, releases, aliases, keys and gates with them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, String, select, type_coerce

from registry.database.event_facts import member_facts, release_time, version_facts
from registry.database.queries import model_names, stack_of, withdrawals, withdrawn_members
from registry.database.tables import AliasRow, GateSetRow, KeyRow, ReleaseRow, stored_time
from registry.records import MOVES, RESTORE, SCOPES_AT_FIRST, IntegrityIssue
from registry.releases.gate_sets import gate_set_digest
from registry.releases.labels import all_tags

_KEY_EVENTS = ("key-created", "key-rotated", "key-revoked")

# What holds for a key unless an event says otherwise; before keys had scopes, each could do everything.
_KEY_DEFAULTS: dict[str, Any] = {
    "revoked": None,
    "expires": None,
    "scopes": list(SCOPES_AT_FIRST),
    "per_minute": None,
    "replaces": None,
}

Events = Sequence[Mapping[str, Any]]
"""Events as `registry.audit.log.stored_events` returns them."""


def replay_differences(connection: Connection, events: Events) -> Iterator[IntegrityIssue]:
    """Finds every difference between the tables and the replayed events."""
    yield from _versions(connection, events)
    yield from _releases(connection, events)
    yield from _aliases(connection, events)
    yield from _withdrawals(connection, events)
    yield from _tags(connection, events)
    yield from _keys(connection, events)
    yield from _gate_sets(connection, events)


def _details(event: Mapping[str, Any], name: str) -> Any:
    return (event["details"] or {}).get(name)


def _differing(held: Mapping[str, Any], recorded: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} {held[name]!r} instead of {recorded[name]!r}"
        for name in recorded
        if name in held and held[name] != recorded[name]
    )


def _versions(connection: Connection, events: Events) -> Iterator[IntegrityIssue]:
    recorded = {
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
    for model, number in sorted(held.keys() | recorded.keys()):
        about = f"version {number} of {model}"
        if (model, number) not in recorded:
            yield IntegrityIssue(about, f"no event tells that it was added; {RESTORE}")
            continue
        event, facts = recorded[model, number]
        if (model, number) not in held:
            yield IntegrityIssue(about, f"event {event} tells of it and it is gone; {RESTORE}")
        elif differing := _differing(held[model, number], facts):
            yield IntegrityIssue(about, f"it has {differing}, as event {event} tells it; {RESTORE}")


def _releases(connection: Connection, events: Events) -> Iterator[IntegrityIssue]:
    held = {row.id: row.model for row in connection.execute(select(ReleaseRow.id, ReleaseRow.model))}
    seen = set()
    for event in events:
        number, members = event["release_id"], _details(event, "members")
        if number is None:
            continue
        if number in seen and members is None:
            continue
        seen.add(number)
        about = f"release {number} of {event['model']}"
        if number not in held:
            yield IntegrityIssue(about, f"event {event['id']} tells of it and it is gone; {RESTORE}")
            continue
        stored = {
            "model": held[number],
            "members": member_facts(connection, number),
            "made": release_time(connection, number),
        }
        recorded = {"model": event["model"], "members": members, "made": _details(event, "made")}
        if differing := _differing(
            stored, {name: fact for name, fact in recorded.items() if fact is not None}
        ):
            yield IntegrityIssue(about, f"it has {differing}, as event {event['id']} tells it; {RESTORE}")
    for number in sorted(held.keys() - seen):
        yield IntegrityIssue(f"release {number} of {held[number]}", f"no event tells of it; {RESTORE}")


def _aliases(connection: Connection, events: Events) -> Iterator[IntegrityIssue]:
    query = select(AliasRow.model, AliasRow.alias, AliasRow.release_id, ReleaseRow.model).join(
        ReleaseRow, ReleaseRow.id == AliasRow.release_id
    )
    aliases = {(row[0], row[1]): (row[2], row[3]) for row in connection.execute(query)}
    moves: dict[tuple[str, str], list[tuple[str, int | None]]] = {}
    for event in events:
        if event["alias"] is not None and event["kind"] in MOVES:
            moves.setdefault((event["model"], event["alias"]), []).append(
                (event["kind"], event["release_id"])
            )
    for (model, alias), (release, of_release) in sorted(aliases.items()):
        about = f"alias {alias} of {model}"
        if of_release != model:
            yield IntegrityIssue(about, f"it points to a release of {of_release}; promote anew")
        stack = stack_of(moves.get((model, alias), []))
        if not stack or stack[-1] != release:
            end = (stack[-1] or "a stop") if stack else "none"
            yield IntegrityIssue(
                about, f"it points to release {release}, and history ends at {end}; promote anew"
            )
    models = model_names(connection)
    for model, alias in sorted(moves.keys() - aliases.keys()):
        stack = stack_of(moves[model, alias])
        if model in models and not (stack and stack[-1] is None):
            yield IntegrityIssue(
                f"alias {alias} of {model}", "history tells of it and it is gone; promote anew"
            )


def _withdrawals(connection: Connection, events: Events) -> Iterator[IntegrityIssue]:
    """The withdrawals that are missing, unknown, or other than their event; and who points to one."""
    recorded = {
        (event["model"], one["number"]): (event["id"], event["reason"], event["time"])
        for event in events
        if event["kind"] == "withdrawn"
        for one in _details(event, "withdrawn") or []
    }
    held = {
        (one.model, one.number): (one.reason, stored_time(one.created)) for one in withdrawals(connection)
    }
    for model, number in sorted(held.keys() | recorded.keys()):
        about = f"the withdrawal of version {number} of {model}"
        if (model, number) not in recorded:
            yield IntegrityIssue(about, f"no event tells of it; {RESTORE}")
        elif (model, number) not in held:
            event = recorded[model, number][0]
            yield IntegrityIssue(about, f"event {event} tells of it and it is gone; {RESTORE}")
        elif held[model, number] != recorded[model, number][1:]:
            event = recorded[model, number][0]
            yield IntegrityIssue(about, f"it is not as event {event} tells it; {RESTORE}")
    query = select(AliasRow.model, AliasRow.alias, AliasRow.release_id).order_by(
        AliasRow.model, AliasRow.alias
    )
    for model, alias, release in connection.execute(query):
        if numbers := withdrawn_members(connection, model).get(release):
            yield IntegrityIssue(
                f"alias {alias} of {model}",
                f"it points to release {release}, which holds version {', '.join(map(str, numbers))}, "
                f"withdrawn; no service serves it. {RESTORE.capitalize()}, or promote anew",
            )


def _tags(connection: Connection, events: Events) -> Iterator[IntegrityIssue]:
    """The versions whose tags are not those that their events leave."""
    recorded: dict[tuple[str, int], set[str]] = {}
    for event in events:
        if event["kind"] in ("tagged", "untagged"):
            tags = recorded.setdefault((event["model"], event["versions"][0]), set())
            change = tags.update if event["kind"] == "tagged" else tags.difference_update
            change(_details(event, "tags") or [])
    held = all_tags(connection)
    for model, number in sorted(held.keys() | recorded.keys()):
        now = sorted(held.get((model, number), ()))
        if now != (told := sorted(recorded.get((model, number), ()))):
            yield IntegrityIssue(
                f"the tags of version {number} of {model}",
                f"they are {', '.join(now) or 'none'}, and events tell of {', '.join(told) or 'none'}; "
                f"{RESTORE}",
            )


def _keys(connection: Connection, events: Events) -> Iterator[IntegrityIssue]:
    recorded: dict[str, dict[str, Any]] = {}
    for event in events:
        if event["kind"] in _KEY_EVENTS and _details(event, "id") is not None:
            known = recorded.setdefault(event["details"]["id"], dict(_KEY_DEFAULTS))
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
    for id in sorted(held.keys() | recorded.keys()):
        about = f"key {id}"
        if id not in recorded:
            yield IntegrityIssue(
                about, f"no event tells that it was made; revoke it with `dermfed-registry keys revoke {id}`"
            )
        elif id not in held:
            yield IntegrityIssue(
                about, f"event {recorded[id]['event']} tells of it and it is gone; {RESTORE}"
            )
        elif differing := _differing(held[id], recorded[id]):
            yield IntegrityIssue(
                about, f"it has {differing}, as event {recorded[id]['event']} tells it; {RESTORE}"
            )


def _gate_sets(connection: Connection, events: Iterable[Mapping[str, Any]]) -> Iterator[IntegrityIssue]:
    """The gate sets that are missing, unknown, or of another digest or alias than their event."""
    recorded = {}
    for event in events:
        after = (event["details"] or {}).get("after") if event["kind"] == "gates-changed" else None
        if after is not None:
            told = (after["digest"], after.get("alias", ""))
            recorded[after["model"], after["number"]] = (event["id"], told)
    query = select(GateSetRow.model, GateSetRow.number, GateSetRow.content, GateSetRow.alias)
    held = {
        (row.model, row.number): (gate_set_digest(row.content), row.alias)
        for row in connection.execute(query)
    }
    for model, number in sorted(held.keys() | recorded.keys()):
        about = f"gate set {number} {f'of {model}' if model else 'for all models'}"
        event, told = recorded.get((model, number), (None, ("", "")))
        if event is None:
            yield IntegrityIssue(about, f"no event tells that it was set; {RESTORE}")
        elif (model, number) not in held:
            yield IntegrityIssue(about, f"event {event} tells of it and it is gone; {RESTORE}")
        elif held[model, number] != told:
            yield IntegrityIssue(about, f"it is not the one that event {event} tells of; {RESTORE}")
