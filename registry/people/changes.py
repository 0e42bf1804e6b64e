"""Adding people by their public keys, and revoking these; each is one transaction with its event.

The first person is added by whoever has the registry, and must be an operator: from then on an operator signs
for every other. So whom a registry knows is as good as its first operator's key; compare its fingerprint.
Once a gate set asks for approvals, adding a person takes these too: an operator with two keys would be two.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import Any

from sqlalchemy import Engine, insert, update

from registry.bundle.lookalikes import alike
from registry.bundle.nearest import nearest
from registry.database.changes import AuditContext, insert_event
from registry.database.connection import reading, writing
from registry.database.people import acting_person, active_people, all_people
from registry.database.tables import PersonRow, stored_time
from registry.errors import InvalidName, PersonRefused
from registry.names import not_found
from registry.people.approvals import (
    action_digest,
    approvals_of,
    asked_by,
    insert_approval,
    require_approved,
    sets_in_force,
)
from registry.records import ROLES, Event, Person, Role


def new_person(name: str, public: Path, roles: Iterable[str]) -> Person:
    """A person of this public key.

    Raises:
        InvalidName: there is no such role, or none is given.
        KeyUnusable: the file holds no public key that can be used.
    """
    from registry.signing.pem import fingerprint, public_key_text, read_key_file

    asked = set(roles)
    for role in sorted(asked - set(ROLES)):
        raise InvalidName(f"there is no role {role!r}; {nearest(role, ROLES)}")
    if not asked:
        raise InvalidName(f"a person needs a role; allowed are {', '.join(ROLES)}")
    key = read_key_file(public)
    given: tuple[Role, ...] = tuple(role for role in ROLES if role in asked)
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
        found = approvals_of(connection, action_digest(_facts(person)), "", None)
        asked = asked_by(sets_in_force(connection))
        approved = require_approved(asked, found, context, f"adding {person.name}", _approve_with(person))
        # The event first: until then the first person is nobody, whose key would have to sign it.
        details = {**_facts(person), **approved}
        insert_event(connection, "person-added", "", context, details=details)
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
        acting_person(connection, "approved", context.signatory)
        _require_new(person, all_people(connection))
        digest = action_digest(_facts(person))
        found = approvals_of(connection, digest, "", None)
        details = {"candidate": digest, **_facts(person)}
        return insert_approval(connection, context, found, f"adding {person.name}", "", None, details)


def _facts(person: Person) -> dict[str, Any]:
    """All that the events of adding a person say of them."""
    return {
        "name": person.name,
        "fingerprint": person.fingerprint,
        "public_key": person.public_key,
        "roles": list(person.roles),
    }


def _approve_with(person: Person) -> str:
    """The command that approves adding a person."""
    roles = " ".join(f"--role {role}" for role in person.roles)
    return f"dermfed-registry people approve {quote(person.name)} --public FILE {roles}"


def revoke_person(engine: Engine, context: AuditContext, who: str) -> Person:
    """Revokes the key of a person, named by name or fingerprint; what they signed before stays signed.

    Approvals of theirs that were not used yet count no more.

    Raises:
        NotFound: there is nobody of this name with a key that holds.
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


def read_people(engine: Engine) -> tuple[Person, ...]:
    """Everybody whom the registry knows, revoked ones too."""
    with reading(engine) as connection:
        return all_people(connection)


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
    """Whether nobody could tell two names apart who reads them in history."""
    first, second = (" ".join(one.split()) for one in (name, other))
    return first.casefold() == second.casefold() or alike(first, second)
