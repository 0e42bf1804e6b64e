"""Whose signature an event holds, and whether it holds, by the public key that the registry has of them."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from registry.database.action import statement
from registry.records import Event, Person


@dataclass(frozen=True)
class SignedBy:
    """Whoever has signed an event.

    Attributes:
        name: the person's.
        fingerprint: of the key.
    """

    name: str
    fingerprint: str


def who_signed(
    event: Event, registry: str, people: Mapping[str, Person], *, since: int = 0
) -> SignedBy | None:
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
    return SignedBy(person.name, person.fingerprint) if after >= since else None


def signature_issue(event: Mapping[str, Any], registry: str, person: Person) -> str | None:
    """What is wrong with the signature of an event as that of a person; None where it holds.

    Args:
        event: its facts, as `registry.audit.log.stored_events` returns them.
        registry: the registry's id.
        person: whose it says to be.
    """
    from registry.people.signatory import ACTION  # cryptography is an extra
    from registry.signing.pem import fingerprint, read_public_key
    from registry.signing.plain import verify_plainly

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
