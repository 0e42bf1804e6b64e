"""`Catalogue`: the read-only view of a registry: versions, releases, history and manifests.

Each method reads one moment of the database; nothing here changes anything.
"""

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Self

from sqlalchemy import Engine

from registry.alarms.look import Look, look
from registry.alarms.told import Alarm, alarms_of
from registry.bundle.folder import Bundle
from registry.bundle.manifest.schema import BundleManifest
from registry.database.action import registry_id
from registry.database.canaries import running_canary
from registry.database.connection import reading, url_text
from registry.database.hash_chain import GENESIS
from registry.database.people import all_people
from registry.database.queries import (
    alias_names,
    all_versions,
    count_with_gates,
    current_release,
    current_releases,
    events_with_gates,
    gate_events,
    has_event,
    head,
    model_names,
    overriding_events,
    require_model,
    stops,
    version_count,
    versions_by_number,
    withdrawals,
)
from registry.errors import KeyUnusable, NotFound, StoreError
from registry.gates.let_through import LetThrough, let_through
from registry.outcomes.store import OutcomeStore
from registry.people.signed_events import SignedBy, who_signed
from registry.records import PRODUCTION, Canary, Event, Release, Standing, Version, Withdrawal
from registry.releases.going_back import required_release
from registry.releases.labels import Hit, Note, all_notes, all_tags, find_versions
from registry.store.base import Store
from registry.store.bundles import fetch_bundle, stored_bundle, stored_manifest


class Catalogue:
    """Reads versions, releases, history and bundles from one database and one store."""

    def __init__(self, engine: Engine, store: Store, *, actor: str) -> None:
        self._engine = engine
        self._store = store
        self._actor = actor

    @property
    def place(self) -> str:
        """The database, as messages say it: without secrets."""
        return url_text(self._engine.url)

    def identity(self) -> str:
        """The id of this registry, 32 hex digits; empty where the database has lost it."""
        with reading(self._engine) as connection:
            return registry_id(connection)

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
            releases = current_releases(connection, alias)
            # Services ask twice a second: of the events, only those of models without a release are read.
            without = [model for model in model_names(connection) if model not in releases]
            events, newest = head(connection)
            canaries = {model: running_canary(connection, model, alias) for model in releases}
            return Standing(
                releases,
                frozenset(model for model in without if stops(connection, model, alias)),
                frozenset((one.model, one.digest) for one in withdrawals(connection)),
                events,
                newest,
                {model: one for model, one in canaries.items() if one is not None},
            )

    def canaries(self, model: str) -> dict[str, Canary]:
        """The canary beside each alias of the model that has one.

        Raises:
            NotFound: there is no such model.
        """
        with reading(self._engine) as connection:
            require_model(connection, model)
            found = {one: running_canary(connection, model, one) for one in alias_names(connection, model)}
        return {alias: canary for alias, canary in found.items() if canary is not None}

    def has_event(self, digest: str) -> bool:
        """Whether the chain of events has one of this hash, or it is the one that the first event follows."""
        with reading(self._engine) as connection:
            return digest == GENESIS or has_event(connection, digest)

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

    def history(self, model: str, newest: int | None = None) -> tuple[Event, ...]:
        """The events of the model, and of the gates of all models, the oldest first; or the newest so many.

        Raises:
            NotFound: there is no such model.
        """
        with reading(self._engine) as connection:
            require_model(connection, model)
            return events_with_gates(connection, model, newest)

    def history_length(self, model: str) -> int:
        """How many events `history` has of the model."""
        with reading(self._engine) as connection:
            return count_with_gates(connection, model)

    def let_through(self, model: str, alias: str) -> LetThrough | None:
        """By which gate set the release of the alias was let through, and which is in force now.

        None where the alias points to none, or no event tells what the gates said.

        Raises:
            NotFound: there is no such model.
        """
        with reading(self._engine) as connection:
            require_model(connection, model)
            if (release := current_release(connection, model, alias)) is None:
                return None
            events = gate_events(connection, model, alias, release.id)
        return let_through(events, release.id, alias)

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

    def forged(self, events: Iterable[Event]) -> frozenset[int] | None:
        """The ids of those events that say to be signed, and are not; None where they cannot be checked."""
        claimed = [one for one in events if one.signed_with]
        try:
            held = self.signers(claimed)
        except KeyUnusable:
            return None
        return frozenset(one.id for one in claimed) - held.keys()

    def overrides(self, model: str, releases: Collection[int] | None = None) -> dict[int, Event]:
        """The promotions of a model that overrode a gate's refusal, by the release they made.

        Of every release, or of these alone.

        Raises:
            NotFound: there is no such model.
        """
        with reading(self._engine) as connection:
            require_model(connection, model)
            events = overriding_events(connection, model, releases)
        return {event.release: event for event in events if event.release is not None}

    def alarms(self, model: str) -> tuple[Alarm, ...]:
        """Every alarm of the field that history tells of a model, closed ones too, the oldest first."""
        with reading(self._engine) as connection:
            return alarms_of(connection, model)

    def field(self, model: str, store: OutcomeStore) -> Look:
        """How a model does in the field, with all alarms.

        Args:
            model: its name.
            store: its database of outcomes.

        Raises:
            DatabaseError: one of the databases cannot be read.
        """

        def manifest_of(number: int) -> BundleManifest | None:
            try:
                return self.manifest(self.version(model, number))
            except (NotFound, StoreError):
                return None  # what it promised is not known any more

        return look(self._engine, store, model, manifest_of)

    def manifest(self, version: Version) -> BundleManifest:
        """The manifest of the version, its digest verified.

        Raises:
            StoreLost: the store holds no object at all.
            ObjectMissing: it is not in the store.
            ObjectCorrupt: it was altered.
        """
        return stored_manifest(self._store, version)

    def bundle(self, version: Version) -> Bundle:
        """The bundle of the version, the digests of both files verified.

        Raises:
            StoreLost: the store holds no object at all.
            ObjectMissing: a file is not in the store.
            ObjectCorrupt: a file was altered.
        """
        return stored_bundle(self._store, version)

    def tags(self, model: str | None = None) -> dict[tuple[str, int], tuple[str, ...]]:
        """The tags of each version that has any, by model and number."""
        with reading(self._engine) as connection:
            return all_tags(connection, model)

    def notes(self, model: str | None = None) -> tuple[Note, ...]:
        """Every note on versions, of one model or of all, the oldest first."""
        with reading(self._engine) as connection:
            return all_notes(connection, model)

    def find(self, text: str) -> tuple[Hit, ...]:
        """The versions of which a name, a tag, a note, the reason of a withdrawal or a digest holds the text.

        Raises:
            InvalidName: there is no text.
        """
        return find_versions(self._engine, text)

    def fetch(self, model: str, number: int, folder: Path) -> Bundle:
        """Writes the bundle of a version to a new folder, byte for byte as it was added, and returns it.

        Raises:
            NotFound: there is no such model or version.
            ObjectMissing: a file is not in the store.
            ObjectCorrupt: a file was altered.
            FolderError: something else is in the folder, or the disk refuses.
        """
        version = self.version(model, number)
        return fetch_bundle(self._store, version, folder)
