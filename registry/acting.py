"""`Acting`: a catalogue as somebody uses it: who does what, and who signs it."""

from pathlib import Path
from typing import TYPE_CHECKING, Self

from registry.catalogue import Catalogue
from registry.database.changes import AuditContext
from registry.database.connection import reading
from registry.database.people import Signatory, acting_person, active_people
from registry.environment import key_password, signing_key
from registry.names import check_reason
from registry.records import EventKind

if TYPE_CHECKING:  # signing needs an extra
    from registry.signing.pem import Signer


class Acting(Catalogue):
    """A catalogue whose changes are somebody's."""

    _signatory: Signatory | None = None

    def signed_by(self, signatory: Signatory | None) -> Self:
        """This registry, as somebody else uses it who signs what they do; it shares its connections."""
        other = type(self)(self._engine, self._store, actor=self._actor)
        other._signatory = signatory
        return other

    def require_person(self, kind: EventKind) -> None:
        """Checks that whoever signs may do this, without doing it.

        Raises:
            PersonRefused: the registry knows people, and this takes another.
        """
        with reading(self._engine) as connection:
            acting_person(connection, kind, self._signatory)

    def _as_owner_of(self, signer: "Signer") -> Self:
        """This registry as the person of a key uses it; as it is where it is nobody's, or somebody signs."""
        from registry.people.signatory import KeySignatory  # cryptography is an extra

        signatory = KeySignatory(signer)
        with reading(self._engine) as connection:
            known = signatory.fingerprint in active_people(connection)
        return self.signed_by(signatory) if known and self._signatory is None else self

    def _context(self, reason: str | None = None) -> AuditContext:
        """Who does it and why."""
        return AuditContext(self._name(), check_reason(reason), signatory=self._signatory)

    def _name(self) -> str:
        """The name of the person who signs, or the actor."""
        if self._signatory is None:
            return self._actor
        with reading(self._engine) as connection:
            person = active_people(connection).get(self._signatory.fingerprint)
        return self._actor if person is None else person.name


def key_signatory(file: Path | None = None) -> Signatory | None:
    """Whoever signs with the private key in a file; by default that of `DERMFED_SIGNING_KEY`, if it is set.

    Raises:
        KeyUnusable: the file holds no private key that can be used, or the extra `sign` is missing.
    """
    if (found := signing_key(file)) is None:
        return None
    from registry.people.signatory import KeySignatory  # cryptography is an extra, and only this needs it

    return KeySignatory.read(found, key_password())
