"""Prepares and does what somebody signs in their browser: the key stays there, the statements come here.

What is signed is what the registry itself would write down (`registry.database.action.statement`). Nothing is
kept between the two steps: the statements come back with the signatures, and the registry compares them with
those that it makes then.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final

from registry.errors import PersonRefused
from registry.records import Event, Person
from registry.registry import Registry
from serving.console.actions import Asked
from serving.console.requests import Act, Prepare, Signed
from serving.protocol.problems import InvalidParameter, RefusedByRegistry, SignatureRefused

CANNOT_SIGN: Final = "this service cannot check signatures; install dermfed[serve,sign] where it runs"

NOBODY: Final = (
    "the registry knows no people, so nobody could sign this; register them first: `dermfed-registry people "
    "new-key olga.key`, then `dermfed-registry people add olga --public olga.pub --role operator`"
)


@dataclass(frozen=True)
class Prepared:
    """What is to be signed.

    Attributes:
        person: whose key it is.
        statements: byte by byte, one for each event; none where there is nothing to do.
    """

    person: Person
    statements: Sequence[bytes]


def can_sign() -> bool:
    """Whether signatures can be checked here."""
    return find_spec("cryptography") is not None


def prepare(registry: Registry, asked: Prepare) -> Prepared:
    """Tries an action, and gives the statements that its signer would sign; nothing is done.

    Raises:
        RegistryError: the action is refused, as it would be if it was done.
    """
    person = _person(registry, asked.fingerprint)
    return Prepared(person, registry.statements_of(person.fingerprint, asked.action.do))


def act(registry: Registry, asked: Act) -> Sequence[Event]:
    """Does what was signed, and gives the events that it left.

    Raises:
        RegistryError: the action is refused, or was signed for another state of the registry.
    """
    person = _person(registry, asked.fingerprint)
    from registry.people.signatory import SignedBefore

    signed = {one.statement: _der(one, person) for one in asked.signed}
    return asked.action.do(registry.signed_by(SignedBefore(person.public_key, signed)))


def reason_needed(action: Asked) -> None:
    """Refuses an action without the reason that it needs.

    Raises:
        InvalidParameter: there is none.
    """
    if action.needs_reason and not action.reason.strip():
        raise InvalidParameter("this needs a reason, which history keeps; write one")


def _person(registry: Registry, fingerprint: str) -> Person:
    """Whose key it is, whether it is revoked or not: the registry judges that itself."""
    if not can_sign():
        raise RefusedByRegistry(CANNOT_SIGN)
    people = registry.people()
    if not any(one.revoked is None for one in people):
        raise RefusedByRegistry(NOBODY)
    if (person := next((one for one in people if one.fingerprint == fingerprint), None)) is None:
        raise PersonRefused(
            f"the key {fingerprint} is of nobody whom the registry knows; an operator adds people with "
            "`dermfed-registry people add`"
        )
    return person


def _der(signed: Signed, person: Person) -> bytes:
    """The signature as DER, from the two halves that WebCrypto puts one after the other."""
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

    from registry.signing.pem import read_public_key

    size = (read_public_key(person.public_key.encode(), "the registry").key_size + 7) // 8
    raw = signed.signature
    if len(raw) != 2 * size:
        raise SignatureRefused(
            f"the signature has {len(raw)} bytes, and one by the key of {person.name} has {2 * size}; sign "
            "with that key"
        )
    r, s = (int.from_bytes(half, "big") for half in (raw[:size], raw[size:]))
    return encode_dss_signature(r, s)
