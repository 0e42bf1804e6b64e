"""`Registry`: adds versions of models, promotes releases under aliases, verifies, exports and imports them.

Each method is one transaction. Objects are written before the transaction that refers to them, so a
killed process leaves at most objects that nothing refers to.

`Catalogue`: the read-only view of a registry: versions, releases, history and manifests.

Each method reads one moment of the database; nothing here changes anything.

`Acting`: a catalogue as somebody uses it: who does what, and who signs it.

`Identities`: who may do what in a registry, and what may ask the service: people, and API keys.

Each method is one transaction.

`Marking`: what is said of versions and aliases: stopped, withdrawn, tagged, noted; and their alarms.

Each method is one transaction.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from sqlalchemy import Engine

from registry.archive.export_release import Exported, export_release
from registry.archive.import_release import Imported, import_release, read_release
from registry.audit import (
    ComparedHead,
    KeptHead,
    compare_heads,
    find_integrity_issues,
    keep_head,
    stored_events,
)
from registry.bundle.folder import Bundle
from registry.bundle.manifest import BundleManifest
from registry.database.changes import AuditContext
from registry.database.connection import open_registry, reading, url_text
from registry.database.queries import (
    Signatory,
    acting_person,
    active_people,
    alias_names,
    all_keys,
    all_people,
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
    running_canary,
    stops,
    version_count,
    versions_by_number,
    withdrawals,
)
from registry.database.tables import GENESIS, registry_id
from registry.environment import current_user, database_url, key_password, signing_key, store_location
from registry.errors import KeyUnusable, NotFound, StoreError
from registry.gate_report import Comparison, GateReport
from registry.gates import GateSet
from registry.gates.gate_set import LetThrough, let_through
from registry.keys import Rotated, create_key, key_limits, revoke_key, rotate_key
from registry.names import check_name, check_reason, check_title
from registry.outcomes import alarms
from registry.outcomes.alarms import Alarm, Monitoring, alarms_of, monitor
from registry.outcomes.store import OutcomeStore
from registry.people import (
    SignedBy,
    add_person,
    approve_person,
    new_person,
    read_people,
    revoke_person,
    who_signed,
)
from registry.records import (
    PRODUCTION,
    ROTATION_GRACE,
    SCOPES,
    Added,
    ApiKey,
    Canary,
    Event,
    EventKind,
    IntegrityIssue,
    Person,
    Release,
    Standing,
    Version,
    Withdrawal,
)
from registry.releases import labels, promote, rollback, rollout
from registry.releases.add import add_bundles, add_folders
from registry.releases.compose import Candidate
from registry.releases.gate_sets import StoredGateSet, approve_gates, change_gates, read_gates
from registry.releases.labels import Hit, Note, all_notes, all_tags, find_versions
from registry.releases.promote import Promotion
from registry.releases.rollback import Withdrawn, required_release
from registry.releases.rollout import Share
from registry.signing.versions import Signature, require_signature, sign_versions, signatures_of_version
from registry.store.base import Store
from registry.store.bundles import fetch_bundle, open_store, stored_bundle, stored_manifest
from registry.store.garbage import GRACE, Collected, collect_garbage
from registry.views.changes import Difference, compare

if TYPE_CHECKING:
    from registry.signing.keys import Signer, Trust


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
        """Every recorded alarm of a model, closed ones too, the oldest first."""
        with reading(self._engine) as connection:
            return alarms_of(connection, model)

    def field(self, model: str, store: OutcomeStore) -> Monitoring:
        """The metrics of a model from outcomes, with all alarms.

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

        return monitor(self._engine, store, model, manifest_of)

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
        from registry.signing.keys import KeySignatory  # cryptography is an extra

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
    from registry.signing.keys import KeySignatory  # cryptography is an extra, and only this needs it

    return KeySignatory.read(found, key_password())


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


class Marking(Acting):
    """A catalogue whose versions and aliases can be marked."""

    def approve(
        self,
        model: str,
        numbers: Sequence[int],
        *,
        to: str,
        reason: str | None = None,
        override_gates: bool = False,
        without: Sequence[str] = (),
    ) -> Event:
        """Approves exactly the release that this promotion would make, until the alias moves.

        With `override_gates`, approves promoting it although gates refuse, and nothing else.

        Raises:
            NotFound: there is no such model or version.
            ReleaseRefused: the versions do not make a release.
            NothingToApprove: the alias points to it already, or the same person has approved it.
            StoreError: a manifest is missing or was altered.
        """
        where = (self._engine, self._store, model, numbers, to, self._context(reason), without)
        return promote.approve(*where, over_gates=override_gates)

    def approve_gates(
        self,
        gates: GateSet,
        *,
        model: str | None = None,
        alias: str | None = None,
        reason: str | None = None,
    ) -> Event:
        """Approves putting exactly this gate set in force in place of exactly those that are asked there.

        Raises:
            NotFound: there is no such model.
            NothingToApprove: it is asked there already, or the same person has approved it.
        """
        return approve_gates(self._engine, gates, model, self._context(reason), alias)

    def rollback(
        self, model: str, *, alias: str, reason: str | None = None, expect: int | None = None
    ) -> Event:
        """Rolls the alias back to the release before the one it points to; gates are not asked.

        Releases that hold a withdrawn version are skipped. Of an alias that was stopped, that is the release
        that ran before. `expect` is the number of the release that the alias points to, 0 for none; by
        default the one that it points to when this is called.

        Raises:
            AliasMoved: the alias points to another release by then.
            NotFound: there is no such model or alias.
            NothingToRollBack: there is no release before it that may answer.
        """
        return rollback.roll_back(self._engine, model, alias, self._context(reason), expect)

    def end_canary(self, model: str, *, alias: str, reason: str) -> Event:
        """Ends the canary beside the alias: what the alias points to answers everybody again.

        Raises:
            NotFound: there is no such model, or no canary.
            ReleaseRefused: there is no reason.
        """
        return rollout.end_canary(self._engine, model, alias, self._context(reason))

    def stop(self, model: str, *, alias: str, reason: str) -> Event | None:
        """Stops the alias: it points to nothing until a rollback or a promotion; None where it does already.

        Raises:
            NotFound: there is no such model or alias.
            ReleaseRefused: there is no reason.
        """
        return rollback.stop(self._engine, model, alias, self._context(reason))

    def withdraw(self, model: str, numbers: Sequence[int], *, reason: str) -> Withdrawn | None:
        """Withdraws versions for good: they are never promoted or served again, and every alias moves away.

        Returns None where all of them were withdrawn before.

        Raises:
            NotFound: there is no such model or version.
            ReleaseRefused: there is no reason.
        """
        return rollback.withdraw(self._engine, model, numbers, self._context(reason))

    def judge_again(self, model: str, *, alias: str) -> GateReport:
        """What today's gates say of the release that runs, as if it were promoted over the one before.

        Raises:
            NotFound: there is no such model or alias.
            GateSetInvalid: a gate cannot be asked.
            StoreError: a manifest is missing or was altered.
        """
        return promote.judge_again(self._engine, self._store, model, alias)

    def tag(self, model: str, number: int, tags: Sequence[str]) -> Event | None:
        """Gives a version tags; returns None where it has all of them.

        Raises:
            NotFound: there is no such model or version.
            InvalidName: a tag cannot be one, or none is named.
        """
        return labels.tag_version(self._engine, model, number, tags, self._context())

    def untag(self, model: str, number: int, tags: Sequence[str]) -> Event:
        """Takes tags away from a version.

        Raises:
            NotFound: there is no such model or version, or it has no such tag.
            InvalidName: none is named.
        """
        return labels.untag_version(self._engine, model, number, tags, self._context())

    def note(self, model: str, number: int, text: str) -> Event:
        """Writes a note on a version, which history keeps.

        Raises:
            NotFound: there is no such model or version.
            InvalidName: the note is empty or too long.
        """
        return labels.note_version(self._engine, model, number, text, self._context())

    def record_alarms(self, model: str, found: Monitoring) -> tuple[Event, ...]:
        """Records the new alarms in history.

        Raises:
            PersonRefused: an operator has to sign it.
        """
        return alarms.record_alarms(self._engine, model, found.new, self._context())

    def close_alarm(self, model: str, number: int, *, reason: str | None) -> Event:
        """Closes an alarm for good; its target is monitored again from the next day on.

        Raises:
            NotFound: there is no such model or alarm.
            AlarmClosed: it was closed before.
            PersonRefused: an operator has to sign it.
            ReleaseRefused: there is no reason.
        """
        return alarms.close_alarm(self._engine, model, number, self._context(reason))


__all__ = ["PRODUCTION", "Registry", "key_signatory"]


class Registry(Marking, Identities):
    """A catalogue with write access; safe to share between threads, and to open in many processes."""

    @classmethod
    def open(
        cls,
        url: str | None = None,
        store: str | None = None,
        *,
        actor: str | None = None,
        signatory: Signatory | None = None,
        identity: str | None = None,
    ) -> Self:
        """Opens the registry of a database and a store; a new database gets its tables.

        It stays with the registry that it finds: where another's database, or none, is in its place later,
        every question is answered with `DatabaseLost`, and nothing is made.

        Args:
            url: the database; by default `DERMFED_REGISTRY_URL`, or a file of the current user's.
            store: the folder of objects or an address; by default `DERMFED_STORE`, or a folder of your own.
            actor: the actor of events that nobody signs; by default the current user.
            signatory: who signs what is done; see `registry.signing.keys`.
            identity: the id of the registry, if it is known: then nothing is read yet, and nothing ever made.

        Raises:
            InvalidName: an address of a kind that is not supported.
            DatabaseError: the database cannot be used, or is of another schema.
        """
        objects = open_store(store_location(store))
        engine = open_registry(database_url(url), identity)
        opened = cls(engine, objects, actor=actor or current_user())
        return opened.signed_by(signatory)

    def add(self, bundles: Sequence[Bundle]) -> tuple[Version, ...]:
        """Adds bundles as versions, all of them or none, and returns the version of each.

        A bundle that was added before keeps its version; if its objects were missing or altered,
        they are put right.

        Raises:
            BundleRefused: a bundle could not answer.
            InvalidName: a model has a name that the registry cannot take.
            StoreError: the store cannot be written.
        """
        return self.add_and_tell(bundles).versions

    def add_and_tell(self, bundles: Sequence[Bundle]) -> Added:
        """Adds bundles as `add`, and returns also which are new and which objects were repaired."""
        return add_bundles(self._engine, self._store, self._context(), bundles)

    def add_folders(self, folders: Iterable[Path]) -> tuple[Version, ...]:
        """Adds the bundle in each folder, as `add`, with no model in memory.

        Raises:
            BundleError: a folder holds no sound bundle.
            BundleRefused: a folder holds more than a bundle, or a file that is too large.
        """
        return self.add_folders_and_tell(folders).versions

    def add_folders_and_tell(self, folders: Iterable[Path]) -> Added:
        """Adds folders as `add_folders`, and returns also which are new and which objects were repaired."""
        paths = [Path(folder) for folder in folders]
        return add_folders(self._engine, self._store, self._context(), paths)

    def judge(
        self, model: str, numbers: Sequence[int], *, to: str, without: Sequence[str] = ()
    ) -> GateReport:
        """The gates' report on the release that this promotion would make; raises as `compare`."""
        return self._judged(model, numbers, to, without)[1].report

    def compare(
        self, model: str, numbers: Sequence[int], *, to: str, without: Sequence[str] = ()
    ) -> Comparison:
        """The release that this promotion would make beside the one that runs, and what the gates say.

        Raises:
            NotFound: there is no such model or version, or a subgroup without one of its own.
            ReleaseRefused: the versions do not make a release.
            StoreError: a manifest is missing or was altered.
        """
        candidate, evaluation = self._judged(model, numbers, to, without)
        return promote.compare(self._engine, candidate, to, evaluation)

    def _judged(
        self, model: str, numbers: Sequence[int], to: str, without: Sequence[str]
    ) -> tuple[Candidate, promote.GateEvaluation]:
        candidate = promote.candidate_for(self._engine, model, numbers, to, without)
        promoter = promote.promoter_of(self._context())
        return candidate, promote.judge(self._engine, self._store, candidate, to, promoter)

    def promote(
        self,
        model: str,
        numbers: Sequence[int],
        *,
        to: str,
        reason: str | None = None,
        override_gates: bool = False,
        without: Sequence[str] = (),
        share: Share | None = None,
        expect: int | None = None,
    ) -> Event | None:
        """Promotes versions to an alias: they replace those of the same subgroups, others are carried over.

        The versions of subgroups in `without` are left out: the global one answers for them. The gates judge
        the whole release that results. With a share it answers that beside what the alias points to, which
        stays: a canary. Returns None where the alias points to exactly this already, or exactly this canary
        runs. `expect` is the number of the release that the alias points to, 0 for none; by default the one
        that it points to when this is called.

        Raises:
            AliasMoved: the alias points to another release by then.
            ApprovalsMissing: the gate set asks for approvals, and fewer have approved the override.
            NotFound: there is no such model or version, or a subgroup without one of its own.
            ReleaseRefused: the versions do not make a release, or an override has no reason.
            GateRefusal: a gate refuses and is not overridden.
            BundleRefused: the model of a named version does not load or misbehaves.
            StoreError: a version's file is missing or was altered.
        """
        return self.promote_and_tell(
            model,
            numbers,
            to=to,
            reason=reason,
            override_gates=override_gates,
            without=without,
            share=share,
            expect=expect,
        ).event

    def promote_and_tell(
        self,
        model: str,
        numbers: Sequence[int],
        *,
        to: str,
        reason: str | None = None,
        override_gates: bool = False,
        without: Sequence[str] = (),
        share: Share | None = None,
        expect: int | None = None,
    ) -> Promotion:
        """Promotes as `promote`, and returns also the new release beside the one that it replaced."""
        return promote.promote(
            self._engine,
            self._store,
            model,
            numbers,
            to,
            self._context(reason),
            override_gates=override_gates,
            without=without,
            share=share,
            expect=expect,
        )

    def gates(
        self, model: str | None = None, number: int | None = None, *, alias: str | None = None
    ) -> StoredGateSet:
        """The gate set in force, of one model or of all, under an alias; or the set of a number.

        Raises:
            NotFound: there is no such model, or no set of this number.
        """
        return read_gates(self._engine, model, number, alias)

    def set_gates(
        self, gates: GateSet, *, reason: str, model: str | None = None, alias: str | None = None
    ) -> Event | None:
        """Puts a gate set in force, of one model or of all, under one alias or under all.

        Returns None where it is in force already.

        Raises:
            NotFound: there is no such model.
            ReleaseRefused: there is no reason.
            ApprovalsMissing: a set that it takes the place of asks for approvals, and fewer have approved
                this; or the registry knows fewer approvers than the new set would ask for.
        """
        context = self._context(reason)
        return change_gates(self._engine, gates, model, context, alias)

    def diff(self, model: str, before: int, after: int) -> Difference:
        """The difference between two versions of a model.

        Raises:
            NotFound: there is no such model or version.
            StoreError: a manifest is missing or was altered.
        """
        pair = [self.version(model, number) for number in (before, after)]
        manifests = [(one, self.manifest(one)) for one in pair]
        return compare(manifests, self.versions(model), self.withdrawals(model))

    def sign(self, model: str, numbers: Sequence[int], signer: "Signer") -> tuple[Signature, ...]:
        """Signs these versions, and returns the signature of each; versions it signed before keep theirs.

        Where the key is that of a person whom the registry knows, history tells it of them, signed.

        Raises:
            NotFound: there is no such model or version.
            StoreError: a file is missing or altered, or the store cannot be written.
        """
        context = self._as_owner_of(signer)._context()
        return sign_versions(self._engine, self._store, context, model, numbers, signer)

    def signatures(self, version: Version) -> tuple[Signature, ...]:
        """The version's signatures, the oldest first, unverified: see `require_signature`."""
        with reading(self._engine) as connection:
            return signatures_of_version(connection, version)

    def require_signature(self, version: Version, trust: "Trust") -> str:
        """The identity of a trusted signer of the version, whose signature is valid.

        Raises:
            SignatureRefused: none of them has.
            StoreError: the version's manifest is missing or altered.
        """
        return require_signature(self._engine, self._store, version, trust)

    def verify(self, trust: "Trust | None" = None) -> tuple[IntegrityIssue, ...]:
        """Verifies the database and the store, and returns what is wrong; changes nothing.

        With `trust`, a signature of nobody who is trusted is an issue too.
        """
        return find_integrity_issues(self._engine, self._store, trust)

    def audit(self, model: str | None = None) -> tuple[dict[str, Any], ...]:
        """Every event as it is stored, with its hashes, of one model or of all; see `registry.audit`.

        Raises:
            NotFound: there is no such model.
        """
        with reading(self._engine) as connection:
            if model is not None:
                require_model(connection, model)
            return tuple(stored_events(connection, model))

    def head(self) -> KeptHead:
        """The head of the chain of events, to be kept elsewhere; see `registry.audit`."""
        return keep_head(self._engine)

    def compare_heads(self, heads: Sequence[KeptHead]) -> tuple[ComparedHead, ...]:
        """Compares heads that were kept elsewhere with the chain."""
        return compare_heads(self._engine, heads)

    def collect(self, *, older_than: timedelta = GRACE, dry_run: bool = False) -> Collected:
        """Garbage collection: removes objects that nothing refers to and that are older than this.

        Raises:
            StoreLost: the database has versions and the store no object.
            StoreError: the newest version is not in the store, or the store cannot be listed or refuses.
        """
        where = (self._engine, self._store, self._context())
        return collect_garbage(*where, older_than=older_than, dry_run=dry_run)

    def export_release(self, model: str, alias: str, path: Path, *, with_reasons: bool = False) -> Exported:
        """Exports the release that the alias points to into one file, with reasons only if asked for.

        Raises:
            NotFound: there is no such model or alias.
            ArchiveError: the file cannot be written, or the events do not agree with the release.
            StoreError: an object is missing or was altered.
        """
        return export_release(self._engine, self._store, model, alias, path, with_reasons=with_reasons)

    def import_release(
        self,
        path: Path,
        *,
        to: Sequence[str] = (),
        reason: str | None = None,
        trust: "Trust | None" = None,
        allow_unsigned: bool = False,
    ) -> Imported:
        """Imports the release in a file, and promotes it to these aliases, if any, through the gates.

        With `trust`, every version of it must have a valid signature of somebody trusted, unless
        `allow_unsigned`.

        Raises:
            ArchiveError: the file cannot be read.
            ArchiveRefused: something in it was altered, added or left out, a signature is forged, or a
                version has none of anybody trusted.
            GateRefusal: a gate refuses the release under an alias; its versions are added all the same.
            StoreError: the store cannot be written.
        """
        for alias in to:
            check_name("alias", alias)
        imported = import_release(
            self._engine,
            self._store,
            self._context(),
            read_release(path),
            trust,
            allow_unsigned=allow_unsigned,
        )
        model, numbers = imported.versions[0].model, [version.number for version in imported.versions]
        promoted = [self.promote(model, numbers, to=alias, reason=reason) for alias in to]
        return replace(imported, promoted=tuple(event for event in promoted if event is not None))
