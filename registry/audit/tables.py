"""Compares what decides who answers and who may ask with the last event that tells of it.

These are versions, the members of releases, aliases, withdrawals, tags, keys and gate sets. Nothing is
replayed: of each, the newest event says what its row holds.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, String, select, type_coerce

from registry.database.event_facts import member_facts, version_facts
from registry.database.queries import model_names, stack_of, withdrawals, withdrawn_members
from registry.database.tables import AliasRow, GateSetRow, KeyRow, ReleaseRow, stored_time
from registry.records import MOVES, RESTORE, IntegrityIssue
from registry.releases.gate_sets import gate_set_digest
from registry.releases.labels import all_tags

KEY_FACTS: Final = ("name", "sha256", "scopes", "expires", "revoked", "per_minute", "replaces")

Events = Sequence[Mapping[str, Any]]
"""Events as `registry.audit.log.stored_events` returns them."""


def table_issues(connection: Connection, events: Events) -> Iterator[IntegrityIssue]:
    """Finds the rows that are not as the last event about them tells, and those that no event tells of."""
    told, held = _told(events), _held(connection)
    for about in sorted(told.keys() | held.keys()):
        if about not in told:
            yield IntegrityIssue(about, f"no event tells of it; {RESTORE}")
        elif about not in held:
            yield IntegrityIssue(about, f"events tell of it and it is gone; {RESTORE}")
        elif differing := _differing(held[about], told[about]):
            yield IntegrityIssue(about, f"it has {differing}, as events tell it; {RESTORE}")
    yield from _aliases(connection, events)


def _differing(held: Mapping[str, Any], told: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} {held[name]!r} instead of {fact!r}" for name, fact in told.items() if held[name] != fact
    )


def _told(events: Events) -> dict[str, dict[str, Any]]:
    told: dict[str, dict[str, Any]] = {}
    for event in events:
        kind, model, details = event["kind"], event["model"], event["details"] or {}
        if kind in ("added", "imported"):
            for one in details.get("versions") or []:
                told[f"version {one['number']} of {model}"] = dict(one)
        elif kind == "withdrawn":
            for one in details.get("withdrawn") or []:
                about = f"the withdrawal of version {one['number']} of {model}"
                told[about] = {"reason": event["reason"], "time": event["time"]}
        elif kind in ("key-created", "key-rotated", "key-revoked") and details.get("id") is not None:
            known = told.setdefault(f"key {details['id']}", dict.fromkeys(KEY_FACTS))
            known |= {name: details[name] for name in KEY_FACTS if name in details}
        elif kind in ("tagged", "untagged"):
            about = _tags(model, event["versions"][0])
            change = set.union if kind == "tagged" else set.difference
            tags = change(set(told.pop(about, {"tags": ()})["tags"]), details.get("tags") or ())
            if tags:
                told[about] = {"tags": sorted(tags)}
        elif kind == "gates-changed" and (after := details.get("after")) is not None:
            about = _gates(after["model"], after["number"])
            told[about] = {"digest": after["digest"], "alias": after.get("alias", "")}
        if event["release_id"] is not None and details.get("members") is not None:
            told[f"release {event['release_id']} of {model}"] = {"members": details["members"]}
    return told


def _held(connection: Connection) -> dict[str, dict[str, Any]]:
    held: dict[str, dict[str, Any]] = {}
    for model in model_names(connection):
        for version in version_facts(connection, model):
            held[f"version {version['number']} of {model}"] = version
    for release, model in connection.execute(select(ReleaseRow.id, ReleaseRow.model)):
        held[f"release {release} of {model}"] = {"members": member_facts(connection, release)}
    for one in withdrawals(connection):
        about = f"the withdrawal of version {one.number} of {one.model}"
        held[about] = {"reason": one.reason, "time": stored_time(one.created)}
    columns = [
        type_coerce(column, String).label(column.name) if column.name in ("expires", "revoked") else column
        for column in (KeyRow.__table__.columns[name] for name in KEY_FACTS)
    ]
    for row in connection.execute(select(KeyRow.id, *columns)):
        held[f"key {row.id}"] = {name: row._mapping[name] for name in KEY_FACTS}
    for (model, number), tags in all_tags(connection).items():
        held[_tags(model, number)] = {"tags": sorted(tags)}
    sets = select(GateSetRow.model, GateSetRow.number, GateSetRow.content, GateSetRow.alias)
    for model, number, content, alias in connection.execute(sets):
        held[_gates(model, number)] = {"digest": gate_set_digest(content), "alias": alias}
    return held


def _tags(model: str, number: int) -> str:
    return f"the tags of version {number} of {model}"


def _gates(model: str, number: int) -> str:
    return f"gate set {number} {f'of {model}' if model else 'for all models'}"


def _aliases(connection: Connection, events: Events) -> Iterator[IntegrityIssue]:
    """The aliases that point elsewhere than their history ends, or to what was withdrawn."""
    query = select(AliasRow.model, AliasRow.alias, AliasRow.release_id, ReleaseRow.model).join(
        ReleaseRow, ReleaseRow.id == AliasRow.release_id
    )
    held = {(model, alias): (release, of) for model, alias, release, of in connection.execute(query)}
    moves: dict[tuple[str, str], list[tuple[str, int | None]]] = {}
    for event in events:
        if event["alias"] is not None and event["kind"] in MOVES:
            moves.setdefault((event["model"], event["alias"]), []).append(
                (event["kind"], event["release_id"])
            )
    for model, alias in sorted(held.keys() | moves.keys()):
        about = f"alias {alias} of {model}"
        stack = stack_of(moves.get((model, alias), []))
        end = stack[-1] if stack else None
        release, of_model = held.get((model, alias), (None, model))
        if of_model != model:
            yield IntegrityIssue(about, f"it points to a release of {of_model}; promote anew")
        if release is None and end is not None:
            yield IntegrityIssue(about, "history tells of it and it is gone; promote anew")
        elif release != end:
            ends = "a stop" if stack else "none"
            yield IntegrityIssue(
                about, f"it points to release {release}, and history ends at {end or ends}; promote anew"
            )
        if release is not None and (numbers := withdrawn_members(connection, model).get(release)):
            yield IntegrityIssue(
                about,
                f"it points to release {release}, which holds version {', '.join(map(str, numbers))}, "
                f"withdrawn; no service serves it. {RESTORE.capitalize()}, or promote anew",
            )
