"""`Identities`: who may do what in a registry, and what may ask the service: people, and API keys.

Each method is one transaction.
"""

from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

from registry.acting import Acting
from registry.database.connection import reading
from registry.database.queries import all_keys
from registry.keys.changes import Rotated, create_key, key_limits, revoke_key, rotate_key
from registry.names import check_title
from registry.people.changes import add_person, approve_person, new_person, read_people, revoke_person
from registry.records import ROTATION_GRACE, SCOPES, ApiKey, Event, Person


class Identities(Acting):
    """A catalogue that knows people and API keys."""

    def add_person(self, name: str, public_key: Path, *, roles: Iterable[str]) -> Person:
        """Adds a person by the public key in a file; from the first on, people sign what they do.

        Raises:
            InvalidName: a name that nobody could read in a list, or a role that there is not.
            KeyUnusable: the file holds no public key that can be used.
            PersonRefused: an operator has to sign it, the name or key is known, or the first is no operator.
            ApprovalsMissing: a gate set asks for approvals, and fewer have approved exactly this person.
        """
        person = new_person(check_title("person", name), public_key, roles)
        return add_person(self._engine, self._context(), person)

    def approve_person(self, name: str, public_key: Path, *, roles: Iterable[str]) -> Event:
        """Approves adding exactly this person, for an operator to add; raises as `add_person` does.

        Raises:
            NothingToApprove: the same person has approved it before.
        """
        person = new_person(check_title("person", name), public_key, roles)
        return approve_person(self._engine, self._context(), person)

    def people(self) -> tuple[Person, ...]:
        """Everybody whom the registry knows, those whose key was revoked too."""
        return read_people(self._engine)

    def revoke_person(self, who: str, *, reason: str | None = None) -> Person:
        """Revokes the key of a person, named by name or fingerprint.

        Raises:
            NotFound: there is nobody of this name.
            PersonRefused: an operator has to sign it, or this is the last operator.
        """
        return revoke_person(self._engine, self._context(reason), who)

    def create_key(
        self,
        name: str,
        *,
        scopes: Iterable[str] = SCOPES,
        expires: timedelta | None = None,
        per_minute: int | None = None,
    ) -> tuple[ApiKey, str]:
        """Creates an API key; returns it and its secret, which is stored nowhere.

        Args:
            name: whom or what it is for.
            scopes: what it may ask for; by default everything.
            expires: for how long it is good; by default until it is revoked.
            per_minute: how many requests a minute it may make; by default as many as the service grants.

        Raises:
            InvalidName: a name that nobody could read in a list, a scope that there is not, or a time or a
                rate that cannot be.
        """
        limits = key_limits(scopes, expires, per_minute)
        return create_key(self._engine, self._context(), check_title("key name", name), limits)

    def keys(self) -> tuple[ApiKey, ...]:
        """Every API key, expired and revoked ones too."""
        with reading(self._engine) as connection:
            return all_keys(connection)

    def rotate_key(self, id: str, *, grace: timedelta = ROTATION_GRACE) -> Rotated:
        """Rotates a key: makes a new one like it, and lets it expire after the grace.

        Raises:
            NotFound: there is no such key.
            KeyEnded: it was revoked, has expired, or was rotated already.
            InvalidName: a grace that cannot be.
        """
        return rotate_key(self._engine, self._context(), id, grace)

    def revoke_key(self, id: str) -> ApiKey:
        """Revokes a key; one that was revoked stays as it is.

        Raises:
            NotFound: there is no such key.
        """
        return revoke_key(self._engine, self._context(), id)
