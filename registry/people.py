"""People: their public keys, the signatures of events, and approvals.

The first person is added without a signature, and must be an operator: from then on an operator signs for
every other. So whom a registry knows is as good as its first operator's key; compare its fingerprint.

A gate set with the gate `approvals` asks for approvals of a release, and of each way around that: an
override, another gate set, and another person, since an operator with two keys would be two. An action is
named by a digest of all that it would do and of the state that it would change: an approval is good for that
alone.

`verify` replays the events: who could do what when, and which events lack the signature of such a person.
Events from before the registry knew people are not signed, and that is no fault.
"""

import base64
import binascii
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import Any

from sqlalchemy import Connection, Engine, Row, String, insert, select, type_coerce, update

from registry.bundle.manifest import sha256
from registry.bundle.text import alike
from registry.database.changes import AuditContext, insert_event
from registry.database.connection import writing
from registry.database.queries import acting_person, active_people, all_people, events_where
from registry.database.tables import (
    EventRow,
    GateSetRow,
    PersonRow,
    registry_id,
    report_digest,
    statement,
    stored_time,
)
from registry.errors import ApprovalsMissing, KeyUnusable, NothingToApprove, PersonRefused
from registry.gate_report import set_title
from registry.gates.approval import ApprovalsGate
from registry.names import choose, not_found
from registry.records import RESTORE, ROLE_FOR, ROLES, Event, IntegrityIssue, Person


def who_signed(event: Event, registry: str, people: Mapping[str, Person], *, since: int = 0) -> Person | None:
    """The person among these whose valid signature the event holds; None where there is none.

    Args:
        event: the event.
        registry: the registry's id.
        people: whose signatures count, by fingerprint.
        since: the event after which it must have been signed.
    """
    facts = {
        "kind": event.kind,
        "actor": event.actor,
        "model": event.model,
        "alias": event.alias,
        "versions": event.versions,
        "reason": event.reason,
        "before_id": event.before,
        "overridden": event.overridden,
        "gates": None if event.gates is None else event.gates.model_dump(mode="json"),
        "details": event.details,
    }
    person = people.get(event.signed_with or "")
    if person is None or signature_issue(facts, registry, person) is not None:
        return None
    after: int = (event.details or {})["signed"]["after"]  # of a signature that holds
    return person if after >= since else None


def signature_issue(event: Mapping[str, Any], registry: str, person: Person) -> str | None:
    """What is wrong with the signature of an event as that of a person; None where it holds.

    Args:
        event: its facts, as `registry.audit.stored_events` returns them.
        registry: the registry's id.
        person: whose it says to be.
    """
    from registry.signing_keys import (
        ACTION,  # cryptography is an extra
        fingerprint,
        read_public_key,
        verify_plainly,
    )

    signed = event["details"]["signed"]
    try:
        signature = base64.b64decode(signed["signature"], validate=True)
        said = statement(registry, event, signed["after"], signed["time"], signed.get("report"))
    except (binascii.Error, KeyError, TypeError, ValueError) as error:
        return f"its signature is not in the form that dermfed writes ({error!r})"
    key = read_public_key(person.public_key.encode(), f"the registry, of {person.name},")
    if fingerprint(key) != person.fingerprint:
        return f"the registry has another key of {person.name} than its fingerprint says"
    if event["actor"] != person.name:
        return f"it says to be of {event['actor']}, and the key is of {person.name}"
    if not verify_plainly(key, ACTION, said, signature):
        return f"it says to be signed by {person.name}, and is not"
    return None


@dataclass(frozen=True)
class Action:
    """An action that may take approvals.

    Attributes:
        title: what it is, in words.
        digest: of all that it would do and the state that it would change.
        command: the command that approves it.
        model: of which model; empty for all.
        alias: of which alias; None for all.
        since: the event after which an approval has to be signed.
    """

    title: str
    digest: str
    command: str
    model: str = ""
    alias: str | None = None
    since: int = 0


def action_digest(facts: Mapping[str, Any]) -> str:
    """The digest of an action: `sha256:` and 64 hex digits, of the canonical JSON of all that it would do."""
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return sha256(text.encode())


def approvals_of(connection: Connection, action: Action, *, before: int | None = None) -> dict[str, str]:
    """The approvers who have signed their approval of an action: names by the fingerprints of their keys.

    With `before`, of approvals before the event of this id alone.
    """
    people = {key: one for key, one in active_people(connection).items() if "approver" in one.roles}
    registry = registry_id(connection)
    events = events_where(
        connection,
        EventRow.model == action.model,
        EventRow.alias == action.alias,
        EventRow.id > action.since,
        EventRow.kind == "approved",
    )
    signed = [
        who_signed(event, registry, people, since=action.since)
        for event in events
        if (before is None or event.id < before) and (event.details or {}).get("candidate") == action.digest
    ]
    return {one.fingerprint: one.name for one in signed if one is not None}


def approve(
    connection: Connection,
    context: AuditContext,
    action: Action,
    details: Mapping[str, Any],
    versions: Iterable[int] = (),
) -> Event:
    """Records that a person approves an action.

    Raises:
        NothingToApprove: the same person has approved it before.
        PersonRefused: an approver has to sign it.
    """
    if acting_person(connection, "approved", context.signatory) is None:
        raise PersonRefused(
            "an approval counts by its signature, and this registry knows no people; add them with "
            "`dermfed-registry people add` first"
        )
    if context.key in approvals_of(connection, action):
        raise NothingToApprove(
            f"{context.actor} has approved {action.title} already; two approvals by one person are one"
        )
    return insert_event(
        connection,
        "approved",
        action.model,
        context,
        versions=list(versions),
        alias=action.alias,
        details={"candidate": action.digest, **details},
    )


def require_approved(
    connection: Connection, action: Action, asked: Mapping[str, ApprovalsGate], context: AuditContext
) -> dict[str, list[str]]:
    """Checks that as many people other than the one who acts have approved an action as gate sets ask for.

    Args:
        connection: the database.
        action: the action.
        asked: the gates that ask for approvals, by the titles of their sets.
        context: who acts.

    Returns:
        What the event of the action says of it: the names, where any gate set asks.

    Raises:
        ApprovalsMissing: they are fewer.
    """
    found = approvals_of(connection, action) if asked else {}
    names: set[str] = set()
    for title, gate in asked.items():
        others = gate.others(found, context.key)
        if len(others) < gate.people:
            has = f"that of {', '.join(others)}" if others else "none"
            raise ApprovalsMissing(
                f"{action.title} takes the approval of {_people(gate)} other than {context.actor}, since "
                f"{title} asks for approvals, and has {has}. Ask an approver for "
                f"`{action.command} --key FILE`"
            )
        names.update(others)
    return {"approved_by": sorted(names)} if names else {}


def require_approvers(connection: Connection, gate: ApprovalsGate | None, context: AuditContext) -> None:
    """Checks that the registry knows as many approvers as a gate set would ask for, before it is in force.

    Otherwise no person could ever change it, or add the people who are missing.

    Raises:
        ApprovalsMissing: it knows fewer.
    """
    if gate is None:
        return
    known = {key: one.name for key, one in active_people(connection).items() if "approver" in one.roles}
    if len(others := gate.others(known, context.key)) < gate.people:
        has = f"{len(others)} ({', '.join(others)})" if others else "none"
        raise ApprovalsMissing(
            f"this gate set asks for the approval of {_people(gate)} other than {context.actor}, and the "
            f"registry knows {has} whose approval counts. Add them with `dermfed-registry people add` first"
        )


def approvals_gate(content: Any) -> ApprovalsGate | None:
    """The gate `approvals` of a gate set as the database holds it, whatever other gates it has."""
    found = next((one for one in content["gates"] if one["name"] == "approvals"), None)
    return None if found is None else ApprovalsGate.model_validate_json(json.dumps(found))


def newest_sets(connection: Connection) -> dict[tuple[str, str], Row[Any]]:
    """The newest gate sets by model and alias, either of which may be all."""
    query = select(*GateSetRow.__table__.columns).order_by(GateSetRow.number)
    return {(row.model, row.alias): row for row in connection.execute(query)}


def approvals_asked(sets: Iterable[Row[Any]]) -> dict[str, ApprovalsGate]:
    """The gates of these gate sets that ask for approvals, by the titles of the sets."""
    found = {
        f"gate {set_title(one.model, one.number, one.alias)}": approvals_gate(one.content) for one in sets
    }
    return {title: gate for title, gate in found.items() if gate is not None}


def _people(gate: ApprovalsGate) -> str:
    return "1 person" if gate.people == 1 else f"{gate.people} people"


def new_person(name: str, public: Path, roles: Iterable[str]) -> Person:
    """A person of this public key.

    Raises:
        InvalidName: there is no such role, or none is given.
        KeyUnusable: the file holds no public key that can be used.
    """
    from registry.signing_keys import fingerprint, public_key_text, read_key_file

    given = choose("role", "a person", roles, ROLES)
    key = read_key_file(public)
    return Person(name, fingerprint(key), public_key_text(key), given, datetime.now(UTC))


def add_person(engine: Engine, context: AuditContext, person: Person) -> Person:
    """Adds a person.

    Raises:
        PersonRefused: an operator has to sign it, or the name or key is known already, or the first person
            is no operator.
        ApprovalsMissing: a gate set asks for approvals, and fewer have approved exactly this person.
    """
    with writing(engine) as connection:
        acting_person(connection, "person-added", context.signatory)
        known = all_people(connection)
        _require_new(person, known)
        if not any(one.revoked is None for one in known) and "operator" not in person.roles:
            raise PersonRefused(
                f"{person.name} is the first person of this registry, as {' and '.join(person.roles)}; the "
                "first must be an operator, who signs for the others: add --role operator"
            )
        asked = approvals_asked(newest_sets(connection).values())
        approved = require_approved(connection, _adding(person), asked, context)
        # The event first: the first person's own key would have to sign it otherwise.
        insert_event(connection, "person-added", "", context, details={**_facts(person), **approved})
        connection.execute(
            insert(PersonRow).values(
                name=person.name,
                fingerprint=person.fingerprint,
                public_key=person.public_key,
                roles=list(person.roles),
                created=person.created,
                revoked=None,
            )
        )
    return person


def approve_person(engine: Engine, context: AuditContext, person: Person) -> Event:
    """Records the approval of adding exactly this person, with this key and these roles.

    Raises:
        PersonRefused: an approver has to sign it, or the name or key is known already.
        NothingToApprove: the same person has approved it before.
    """
    with writing(engine) as connection:
        _require_new(person, all_people(connection))
        return approve(connection, context, _adding(person), _facts(person))


def _facts(person: Person) -> dict[str, Any]:
    """All that the events of adding a person say of them."""
    return {
        "name": person.name,
        "fingerprint": person.fingerprint,
        "public_key": person.public_key,
        "roles": list(person.roles),
    }


def _adding(person: Person) -> Action:
    roles = " ".join(f"--role {role}" for role in person.roles)
    command = f"dermfed-registry people approve {quote(person.name)} --public FILE {roles}"
    return Action(f"adding {person.name}", action_digest(_facts(person)), command)


def revoke_person(engine: Engine, context: AuditContext, who: str) -> Person:
    """Revokes the key of a person, named by name or fingerprint; what they signed before stays signed.

    Approvals of theirs that were not used yet count no more.

    Raises:
        NotFound: there is no person of this name with a valid key.
        PersonRefused: an operator has to sign it, or this is the last operator.
    """
    with writing(engine) as connection:
        acting_person(connection, "person-revoked", context.signatory)
        people = active_people(connection)
        person = next((one for one in people.values() if who in (one.name, one.fingerprint)), None)
        if person is None:
            raise not_found("person", who, [one.name for one in people.values()])
        operators = [one for one in people.values() if "operator" in one.roles]
        if operators == [person]:
            raise PersonRefused(
                f"{person.name} is the last operator, and nobody could sign for another; add one before"
            )
        now = datetime.now(UTC)
        details = {"name": person.name, "fingerprint": person.fingerprint, "revoked": stored_time(now)}
        insert_event(connection, "person-revoked", "", context, details=details)
        connection.execute(
            update(PersonRow).where(PersonRow.fingerprint == person.fingerprint).values(revoked=now)
        )
    return replace(person, revoked=now)


def _require_new(person: Person, known: Iterable[Person]) -> None:
    for one in known:
        if one.fingerprint == person.fingerprint:
            state = "and was revoked for good; make another" if one.revoked else "already"
            raise PersonRefused(f"the key {person.fingerprint} is known as that of {one.name} {state}")
        if one.revoked is None and _same_to_see(one.name, person.name):
            raise PersonRefused(
                f"there is a person called {one.name} already, with the key {one.fingerprint}; revoke that "
                "key first, or choose another name"
            )


def _same_to_see(name: str, other: str) -> bool:
    """Whether two names look alike to a reader of history."""
    first, second = (" ".join(one.split()) for one in (name, other))
    return first.casefold() == second.casefold() or alike(first, second)


def person_issues(connection: Connection, events: Sequence[Mapping[str, Any]]) -> Iterator[IntegrityIssue]:
    """Finds events without a signature by a person who may do this, and people who differ from the events.

    Args:
        connection: the database.
        events: all of them, as `registry.audit.stored_events` returns them.
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
    """Finds where the table of people does not say what events say of them."""
    said = {
        key: (one.name, one.public_key, list(one.roles), one.revoked and stored_time(one.revoked))
        for key, one in people.items()
    }
    columns = (PersonRow.fingerprint, PersonRow.name, PersonRow.public_key, PersonRow.roles)
    rows = connection.execute(select(*columns, type_coerce(PersonRow.revoked, String)))
    held = {key: tuple(facts) for key, *facts in rows}
    for key in sorted(said.keys() | held.keys()):
        if held.get(key) != said.get(key):
            yield IntegrityIssue(
                f"the person {(said.get(key) or held[key])[0]} ({key})",
                f"the table of people does not say what events say of them; {RESTORE}",
            )
