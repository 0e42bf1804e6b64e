"""`Catalogue`: the read-only view of a registry: versions, releases, history and manifests.

Each method reads one moment of the database; nothing here changes anything.
"""

from collections.abc import Iterable
from typing import Self

from sqlalchemy import Engine

from registry.bundle.folder import Bundle
from registry.bundle.manifest.schema import BundleManifest
from registry.database.action import registry_id
from registry.database.connection import reading
from registry.database.people import all_people
from registry.database.queries import (
    alias_names,
    all_versions,
    current_release,
    current_releases,
    events_of,
    model_names,
    overriding_events,
    require_model,
    stops,
    version_count,
    versions_by_number,
    withdrawals,
)
from registry.errors import ObjectMissing
from registry.people.signed_events import SignedBy, who_signed
from registry.records import PRODUCTION, Event, Release, Standing, Version, Withdrawal
from registry.releases.gate_sets import ALL_MODELS
from registry.releases.going_back import required_release
from registry.store.base import Store
from registry.store.bundles import stored_bundle, stored_manifest
from registry.store.ownership import require_own


class Catalogue:
    """Reads versions, releases, history and bundles from one database and one store."""

    def __init__(self, engine: Engine, store: Store, *, actor: str) -> None:
        self._engine = engine
        self._store = store
        self._actor = actor

    def close(self) -> None:
        """Closes the connections to the database."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def models(self) -> tuple[str, ...]:
        """The names of all models."""
        with reading(self._engine) as connection:
            return model_names(connection)

    def versions(self, model: str | None = None, newest: int | None = None) -> tuple[Version, ...]:
        """Every version, of one model or of all; or only so many, those that were added last.

        Raises:
            NotFound: there is no such model.
        """
        with reading(self._engine) as connection:
            if model is not None:
                require_model(connection, model)
            return all_versions(connection, model, newest)

    def version_count(self, model: str | None = None) -> int:
        """How many versions there are, of one model or of all."""
        with reading(self._engine) as connection:
            return version_count(connection, model)

    def version(self, model: str, number: int) -> Version:
        """One version.

        Raises:
            NotFound: there is no such model or version.
        """
        with reading(self._engine) as connection:
            return versions_by_number(connection, model, [number])[0]

    def release(self, model: str, alias: str) -> Release | None:
        """The release that the alias of the model points to; None where it points to none.

        Raises:
            NotFound: there is no such model.
        """
        with reading(self._engine) as connection:
            require_model(connection, model)
            return current_release(connection, model, alias)

    def require_release(self, model: str, alias: str) -> Release:
        """The release that the alias of the model points to.

        Raises:
            NotFound: there is no such model or alias, or the alias was stopped.
        """
        with reading(self._engine) as connection:
            return required_release(connection, model, alias)

    def aliases(self, model: str) -> dict[str, Release]:
        """The release of each alias of the model.

        Raises:
            NotFound: there is no such model.
        """
        with reading(self._engine) as connection:
            require_model(connection, model)
            found = {
                alias: current_release(connection, model, alias) for alias in alias_names(connection, model)
            }
        return {alias: release for alias, release in found.items() if release is not None}

    def current(self, alias: str = PRODUCTION) -> dict[str, Release]:
        """Every model's release under the alias, by model; models without one are left out."""
        with reading(self._engine) as connection:
            return current_releases(connection, alias)

    def standing(self, alias: str = PRODUCTION) -> Standing:
        """What may answer under the alias, and what must not, at one moment."""
        with reading(self._engine) as connection:
            return Standing(
                current_releases(connection, alias),
                frozenset(event.model for event in stops(connection, alias=alias)),
                frozenset((one.model, one.digest) for one in withdrawals(connection)),
            )

    def stopped(self, model: str) -> dict[str, Event]:
        """The aliases of the model that were stopped and point to nothing, each with the event.

        Raises:
            NotFound: there is no such model.
        """
        with reading(self._engine) as connection:
            require_model(connection, model)
            return {event.alias: event for event in stops(connection, model) if event.alias is not None}

    def withdrawals(self, model: str | None = None) -> tuple[Withdrawal, ...]:
        """Every version that was withdrawn, of one model or of all, and why.

        Raises:
            NotFound: there is no such model.
        """
        with reading(self._engine) as connection:
            if model is not None:
                require_model(connection, model)
            return withdrawals(connection, model)

    def history(self, model: str) -> tuple[Event, ...]:
        """The events of the model, and of the gates of all models, the oldest first.

        Raises:
            NotFound: there is no such model.
        """
        with reading(self._engine) as connection:
            require_model(connection, model)
            general = [one for one in events_of(connection, ALL_MODELS) if one.kind == "gates-changed"]
            return tuple(sorted([*general, *events_of(connection, model)], key=lambda one: one.id))

    def signers(self, events: Iterable[Event]) -> dict[int, SignedBy]:
        """Whose valid signature events hold, by the event's id; those of people whose key is revoked too.

        Raises:
            KeyUnusable: signatures cannot be checked, for want of the extra `sign`.
        """
        with reading(self._engine) as connection:
            registry = registry_id(connection)
            people = {one.fingerprint: one for one in all_people(connection)}
        found = {one.id: who_signed(one, registry, people) for one in events if one.signed_with}
        return {number: who for number, who in found.items() if who is not None}

    def overrides(self, model: str) -> dict[int, Event]:
        """The promotions of a model that overrode a gate's refusal, by the release they made.

        Raises:
            NotFound: there is no such model.
        """
        with reading(self._engine) as connection:
            require_model(connection, model)
            events = overriding_events(connection, model)
        return {event.release: event for event in events if event.release is not None}

    def manifest(self, version: Version) -> BundleManifest:
        """The manifest of the version, its digest verified.

        Raises:
            StoreLost: the store holds no object at all.
            StoreNotOurs: it is missing, and the store is that of another registry.
            ObjectMissing: it is not in the store.
            ObjectCorrupt: it was altered.
        """
        try:
            return stored_manifest(self._store, version)
        except ObjectMissing:
            self._require_own_store()
            raise

    def bundle(self, version: Version) -> Bundle:
        """The bundle of the version, the digests of both files verified.

        Raises:
            StoreLost: the store holds no object at all.
            StoreNotOurs: a file is missing, and the store is that of another registry.
            ObjectMissing: a file is not in the store.
            ObjectCorrupt: a file was altered.
        """
        try:
            return stored_bundle(self._store, version)
        except ObjectMissing:
            self._require_own_store()
            raise

    def _require_own_store(self) -> None:
        """Checks that the store is not that of another registry: then it is no wonder what is missing."""
        with reading(self._engine) as connection:
            require_own(connection, self._store)
