"""People in the database, and which of them may do what: whoever has signed, by the role that it takes."""

from datetime import datetime
from typing import Protocol

from sqlalchemy import Connection, select

from registry.database.tables import PersonRow
from registry.errors import PersonRefused
from registry.records import ROLE_FOR, EventKind, Person


class Signatory(Protocol):
    """Somebody who signs what they do.

    Attributes:
        fingerprint: sha256 of their public key.
    """

    fingerprint: str

    def time(self) -> datetime:
        """When they say that it is."""

    def sign(self, statement: bytes) -> bytes:
        """Their signature (DER) over this statement.

        Raises:
            PersonRefused: they will not, or have signed another statement.
        """


def all_people(connection: Connection) -> tuple[Person, ...]:
    """Everybody whom the registry knows, revoked ones too, in the order of adding."""
    query = select(*PersonRow.__table__.columns).order_by(PersonRow.id)
    return tuple(
        Person(row.name, row.fingerprint, row.public_key, tuple(row.roles), row.created, row.revoked)
        for row in connection.execute(query)
    )


def active_people(connection: Connection) -> dict[str, Person]:
    """Everybody whose key is not revoked, by its fingerprint."""
    return {one.fingerprint: one for one in all_people(connection) if one.revoked is None}


def acting_person(connection: Connection, kind: EventKind, signatory: Signatory | None) -> Person | None:
    """Who does this: the person of the signing key; None where the registry knows nobody.

    Raises:
        PersonRefused: the registry knows people, and none of them who may do this has signed it.
    """
    everybody = all_people(connection)
    people = {one.fingerprint: one for one in everybody if one.revoked is None}
    role = ROLE_FOR.get(kind)
    if not people and (kind == "person-added" or not everybody):
        return None  # nobody is known yet: the first person, and all that is done before, is nobody's word
    if signatory is None:
        if people and role is not None:
            able = ", ".join(sorted(one.name for one in people.values() if role in one.roles)) or "nobody"
            raise PersonRefused(
                f"this is for an {role} ({able}), and nobody has signed it; "
                "add --key FILE with your private key, or set DERMFED_SIGNING_KEY to that file"
            )
        return None
    person = people.get(signatory.fingerprint)
    if person is None:
        known = next((one for one in everybody if one.fingerprint == signatory.fingerprint), None)
        why = "is of nobody whom the registry knows" if known is None else f"of {known.name} was revoked"
        raise PersonRefused(
            f"the key {signatory.fingerprint} {why}; `dermfed-registry people list` shows who is known, and "
            "`dermfed-registry people add` adds somebody"
        )
    if role is not None and role not in person.roles:
        raise PersonRefused(
            f"{person.name} is {' and '.join(person.roles)}, and this is for {role}s; have one of them do it"
        )
    return person
