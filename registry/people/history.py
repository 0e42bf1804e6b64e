"""All events replayed: who could do what when, and which was signed by nobody who might.

People are taken from the events and not from the table, which is compared with them. Events from before
the registry knew anybody are nobody's, and that is no fault.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, String, select, type_coerce

from registry.database.action import registry_id, report_digest
from registry.database.tables import PersonRow, stored_time
from registry.errors import KeyUnusable
from registry.people.signed_events import signature_issue
from registry.records import RESTORE, ROLE_FOR, IntegrityIssue, Person


def person_issues(connection: Connection, events: Sequence[Mapping[str, Any]]) -> Iterator[IntegrityIssue]:
    """Finds events that nobody has signed who might do this, and people who are not as events tell.

    Args:
        connection: the database.
        events: all of them, as `registry.audit.log.stored_events` returns them.
    """
    people: dict[str, Person] = {}
    newest: dict[tuple[str, str | None], int] = {}
    registry = registry_id(connection)
    for event in events:
        about = (event["model"], event["alias"])
        if (issue := _issue(event, people, registry, newest.get(about, 0))) is not None:
            yield IntegrityIssue(f"event {event['id']}", f"{event['kind']}: {issue}; {RESTORE}")
        newest[about] = event["id"]
        _follow(people, event)
    yield from _differing_people(connection, people)


def _issue(event: Mapping[str, Any], people: Mapping[str, Person], registry: str, newest: int) -> str | None:
    known = {one.fingerprint: one for one in people.values() if one.revoked is None}
    signed = (event["details"] or {}).get("signed")
    role = ROLE_FOR.get(event["kind"])
    if signed is None:
        if role is None or not known:
            return None
        return f"nobody has signed it, and it takes the key of an {role}"
    person = known.get(signed["key"])
    if person is None:
        return f"it is signed with {signed['key']}, a key of nobody whom the registry knew then"
    if role is not None and role not in person.roles:
        return f"{person.name} has signed it, who was no {role}"
    if signed["after"] != newest:
        return f"it was signed after event {signed['after']}, and comes after event {newest}"
    if signed.get("report") != report_digest(event["gates"]):
        return f"what it tells of the gates is not what {person.name} has signed"
    try:
        return signature_issue(event, registry, person)
    except KeyUnusable as error:
        return f"its signature cannot be checked ({error})"


def _follow(people: dict[str, Person], event: Mapping[str, Any]) -> None:
    details = event["details"] or {}
    if event["kind"] == "person-added":
        people[details["fingerprint"]] = Person(
            details["name"],
            details["fingerprint"],
            details["public_key"],
            tuple(details["roles"]),
            datetime.fromisoformat(event["time"]),
        )
    elif event["kind"] == "person-revoked" and (one := people.get(details["fingerprint"])) is not None:
        people[one.fingerprint] = replace(one, revoked=datetime.fromisoformat(details["revoked"]))


def _differing_people(connection: Connection, people: Mapping[str, Person]) -> Iterator[IntegrityIssue]:
    """Finds where the table of people does not say what events tell of them."""
    told = {
        one.fingerprint: {
            "name": one.name,
            "public_key": one.public_key,
            "roles": list(one.roles),
            "revoked": one.revoked and stored_time(one.revoked),
        }
        for one in people.values()
    }
    query = select(
        PersonRow.fingerprint,
        PersonRow.name,
        PersonRow.public_key,
        PersonRow.roles,
        type_coerce(PersonRow.revoked, String).label("revoked"),
    )
    held = {
        row.fingerprint: {
            "name": row.name,
            "public_key": row.public_key,
            "roles": row.roles,
            "revoked": row.revoked,
        }
        for row in connection.execute(query)
    }
    for fingerprint in sorted(told.keys() | held.keys()):
        if held.get(fingerprint) != told.get(fingerprint):
            name = (told.get(fingerprint) or held[fingerprint])["name"]
            yield IntegrityIssue(
                f"the person {name} ({fingerprint})",
                f"the table of people does not say what events tell of them; {RESTORE}",
            )
