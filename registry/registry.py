"""`Registry`: adds versions of models, promotes releases under aliases, verifies, exports and imports them.

Each method is one transaction, and one that reads sees one moment of the database. Objects are written before
the transaction that refers to them, so that a killed process leaves at most objects that nothing refers to.

Each raises `NotFound` for a model, version, alias, person or key that there is not, `StoreError` for an
object that is missing or was altered, and `PersonRefused` where a person with another role has to sign.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypedDict, TypeVar, Unpack

from sqlalchemy import Connection, Engine, and_

from registry import audit, keys, people, records
from registry import signed_versions as signing
from registry.audit import ComparedHead, KeptHead
from registry.bundle.folder import Bundle
from registry.bundle.manifest import BundleManifest
from registry.database import queries
from registry.database.changes import AuditContext
from registry.database.connection import open_registry, reading, url_text
from registry.database.tables import GENESIS, EventRow, registry_id
from registry.environment import current_user, database_url, key_password, signing_key, store_location
from registry.errors import KeyUnusable, NotFound, StoreError
from registry.export_release import Exported, export_release
from registry.gate_report import Comparison, GateReport
from registry.gates import GateSet
from registry.gates.gate_set import LetThrough, let_through
from registry.import_release import Imported, import_release, read_release
from registry.keys import Rotated
from registry.names import check_name, check_reason, check_title
from registry.outcomes import alarms
from registry.outcomes.alarms import Alarm, Monitoring
from registry.outcomes.store import OutcomeStore
from registry.records import PRODUCTION, ROTATION_GRACE, SCOPES, Event, EventKind, Release, Version
from registry.releases import add, gate_sets, labels, promote, rollback, rollout
from registry.releases.promote import Promotion
from registry.store import Store, open_store
from registry.stored_bundles import (
    GRACE,
    Collected,
    collect_garbage,
    fetch_bundle,
    stored_bundle,
    stored_manifest,
)
from registry.views.changes import Difference, compare

if TYPE_CHECKING:
    from registry.signing_keys import Signer, Trust

__all__ = ["PRODUCTION", "Registry", "key_signatory"]

T = TypeVar("T")


class PromoteOptions(TypedDict, total=False):
    """The options of a promotion; see `Registry.promote`."""

    override_gates: bool
    without: Sequence[str]
    share: rollout.Share | None
    expect: int | None
    prevalence: Mapping[str, float] | None


def key_signatory(file: Path | None = None) -> queries.Signatory | None:
    """The signatory with the private key in a file; by default that of `DERMFED_SIGNING_KEY`, if it is set.

    Raises:
        KeyUnusable: the file holds no private key that can be used, or the extra `sign` is missing.
    """
    if (found := signing_key(file)) is None:
        return None
    from registry.signing_keys import KeySignatory  # cryptography is an extra, and only this needs it

    return KeySignatory.read(found, key_password())


class Registry:
    """One database and one store; safe to share between threads, and to open in many processes."""

    def __init__(
        self, engine: Engine, store: Store, *, actor: str, signatory: queries.Signatory | None = None
    ) -> None:
        self._engine = engine
        self._store = store
        self._actor = actor
        self._signatory = signatory

    @classmethod
    def open(
        cls,
        url: str | None = None,
        store: str | None = None,
        *,
        actor: str | None = None,
        signatory: queries.Signatory | None = None,
        identity: str | None = None,
    ) -> Self:
        """Open the registry of a database and a store; a new database gets its tables.

        It stays with the registry that it finds: where another's database, or none, is in its place later,
        every call raises `DatabaseLost`, and nothing is made.

        Args:
            url: the database; by default `DERMFED_REGISTRY_URL`, or a file of the current user's.
            store: the folder of objects or an address; by default `DERMFED_STORE`, or a folder of your own.
            actor: the actor of events that are not signed; by default the current user.
            signatory: who signs what is done; see `registry.signing_keys`.
            identity: the id of the registry, if it is known: then nothing is read yet, and nothing ever made.

        Raises:
            InvalidName: an address of a kind that is not supported.
            DatabaseError: the database cannot be used, or is of another schema.
        """
        objects = open_store(store_location(store))
        engine = open_registry(database_url(url), identity)
        return cls(engine, objects, actor=actor or current_user(), signatory=signatory)

    @property
    def place(self) -> str:
        """The database, as messages name it: without secrets."""
        return url_text(self._engine.url)

    def identity(self) -> str:
        """The id of this registry, 32 hex digits; empty where the database has lost it."""
        return self._read(registry_id)

    def close(self) -> None:
        """Close the connections to the database."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, query: Callable[[Connection], T], of: str | None = None) -> T:
        """The result of a query; `of` names a model that there must be."""
        with reading(self._engine) as connection:
            if of is not None:
                queries.require_model(connection, of)
            return query(connection)

    # Who acts.

    def signed_by(self, signatory: queries.Signatory | None) -> Self:
        """This registry as a person who signs uses it; it shares its connections."""
        return type(self)(self._engine, self._store, actor=self._actor, signatory=signatory)

    def require_person(self, kind: EventKind) -> None:
        """Check that the signatory may do this, without doing it."""
        self._read(lambda found: queries.acting_person(found, kind, self._signatory))

    def _context(self, reason: str | None = None) -> AuditContext:
        """Who does it and why."""
        name = self._actor
        if self._signatory is not None:
            person = self._read(queries.active_people).get(self._signatory.fingerprint)
            name = self._actor if person is None else person.name
        return AuditContext(name, check_reason(reason), signatory=self._signatory)

    # Versions.

    def models(self) -> tuple[str, ...]:
        """The names of all models."""
        return self._read(queries.model_names)

    def versions(self, model: str | None = None, newest: int | None = None) -> tuple[Version, ...]:
        """Every version, of one model or of all; or only so many, those that were added last."""
        return self._read(lambda found: queries.all_versions(found, model, newest), of=model)

    def version_count(self, model: str | None = None) -> int:
        """How many versions there are, of one model or of all."""
        return self._read(lambda found: queries.version_count(found, model))

    def version(self, model: str, number: int) -> Version:
        """One version."""
        return self._read(lambda found: queries.versions_by_number(found, model, [number]))[0]

    def manifest(self, version: Version) -> BundleManifest:
        """The manifest of the version, its digest verified."""
        return stored_manifest(self._store, version)

    def bundle(self, version: Version) -> Bundle:
        """The bundle of the version, the digests of both files verified."""
        return stored_bundle(self._store, version)

    def fetch(self, model: str, number: int, folder: Path) -> Bundle:
        """Write the bundle of a version to a new folder, byte for byte as it was added, and return it."""
        return fetch_bundle(self._store, self.version(model, number), folder)

    def diff(self, model: str, before: int, after: int) -> Difference:
        """The difference between two versions of a model."""
        pair = [self.version(model, number) for number in (before, after)]
        manifests = [(one, self.manifest(one)) for one in pair]
        return compare(manifests, self.versions(model), self.withdrawals(model))

    def add(self, bundles: Iterable[Bundle | Path | str]) -> tuple[Version, ...]:
        """Add bundles, or those in folders, as versions, all of them or none, and return the version of each.

        A bundle that was added before keeps its version; missing or altered objects of it are repaired.
        No model that comes from a folder is held in memory.

        Raises:
            BundleError: a folder holds no sound bundle.
            BundleRefused: a bundle could not answer, or a folder holds more than one.
            InvalidName: a model has a name that the registry cannot take.
        """
        return self.add_and_report(bundles).versions

    def add_and_report(self, bundles: Iterable[Bundle | Path | str]) -> records.Added:
        """As `add`, and return also which are new and which objects were repaired."""
        return add.add_bundles(self._engine, self._store, self._context(), bundles)

    def withdraw(self, model: str, numbers: Sequence[int], *, reason: str) -> rollback.Withdrawn | None:
        """Withdraw versions for good: they are never promoted or served again, and every alias moves away.

        Returns None where all of them were withdrawn before.
        """
        return rollback.withdraw(self._engine, model, numbers, self._context(reason))

    def withdrawals(self, model: str | None = None) -> tuple[records.Withdrawal, ...]:
        """Every version that was withdrawn, of one model or of all, and why."""
        return self._read(lambda found: queries.withdrawals(found, model), of=model)

    def find(self, text: str) -> tuple[labels.Hit, ...]:
        """The versions with the text in a name, a tag, a note, the reason of a withdrawal or a digest."""
        return labels.find_versions(self._engine, text)

    def tags(self, model: str | None = None) -> dict[tuple[str, int], tuple[str, ...]]:
        """The tags of each version that has any, by model and number."""
        return self._read(lambda found: labels.all_tags(found, model))

    def notes(self, model: str | None = None) -> tuple[labels.Note, ...]:
        """Every note on versions, of one model or of all, the oldest first."""
        return self._read(lambda found: labels.all_notes(found, model))

    def tag(self, model: str, number: int, tags: Sequence[str]) -> Event | None:
        """Give a version tags; None where it has all of them."""
        return labels.tag_version(self._engine, model, number, tags, self._context())

    def untag(self, model: str, number: int, tags: Sequence[str]) -> Event:
        """Take tags away from a version."""
        return labels.untag_version(self._engine, model, number, tags, self._context())

    def note(self, model: str, number: int, text: str) -> Event:
        """Write a note on a version, which history keeps."""
        return labels.note_version(self._engine, model, number, text, self._context())

    # Releases.

    def release(self, model: str, alias: str) -> Release | None:
        """The release that the alias of the model points to; None where it points to none."""
        return self._read(lambda found: queries.current_release(found, model, alias), of=model)

    def prevalence(self, release: Release) -> dict[str, float]:
        """The prevalence of malignancy at the place that was stated with a release, by subgroup."""
        return self._read(lambda found: queries.stated_prevalence(found, release.model, release.id))

    def require_release(self, model: str, alias: str) -> Release:
        """The release that the alias of the model points to; raises where it was stopped, too."""
        return self._read(lambda found: rollback.required_release(found, model, alias))

    def aliases(self, model: str) -> dict[str, Release]:
        """The release of each alias of the model."""
        return self._read(lambda found: queries.by_alias(found, model, queries.current_release), of=model)

    def canaries(self, model: str) -> dict[str, records.Canary]:
        """The canary of each alias of the model that has one."""
        return self._read(lambda found: queries.by_alias(found, model, queries.running_canary), of=model)

    def stopped(self, model: str) -> dict[str, Event]:
        """The aliases of the model that were stopped and point to nothing, each with the event."""
        stops = self._read(lambda found: queries.stops(found, model), of=model)
        return {event.alias: event for event in stops if event.alias is not None}

    def current(self, alias: str = PRODUCTION) -> dict[str, Release]:
        """Every model's release under the alias, by model; models without one are left out."""
        return self._read(lambda found: queries.current_releases(found, alias))

    def standing(self, alias: str = PRODUCTION) -> records.SiteStatus:
        """What may answer under the alias, and what must not, at one moment."""
        return self._read(lambda found: queries.standing(found, alias))

    def judge(
        self, model: str, numbers: Sequence[int], *, to: str, without: Sequence[str] = ()
    ) -> GateReport:
        """The gates' report on the release that this promotion would make; raises as `compare`."""
        return self.compare(model, numbers, to=to, without=without).report

    def compare(
        self, model: str, numbers: Sequence[int], *, to: str, without: Sequence[str] = ()
    ) -> Comparison:
        """Compare the release that this promotion would make with the running one, and ask the gates.

        Raises:
            ReleaseRefused: the versions do not make a release.
        """
        candidate = promote.candidate_for(self._engine, model, numbers, to, without)
        context = self._context()
        promoter = (context.actor, context.key)
        return promote.judge(self._engine, self._store, candidate, promoter).comparison

    def judge_again(self, model: str, *, alias: str) -> GateReport:
        """What today's gates say of the running release, as if it were promoted over the one before.

        Raises:
            GateSetInvalid: a gate cannot be asked.
        """
        return promote.judge_again(self._engine, self._store, model, alias)

    def promote(
        self,
        model: str,
        numbers: Sequence[int],
        *,
        to: str,
        reason: str | None = None,
        **options: Unpack[PromoteOptions],
    ) -> Event | None:
        """Promote versions to an alias: they replace those of the same subgroups, others are carried over.

        The gates judge the whole release that results. Returns None where the alias points to exactly this
        already, or exactly this canary runs.

        Args:
            model: the model's name.
            numbers: of the versions.
            to: the alias.
            reason: kept in history.
            options: `without`: subgroups whose version is left out, so that the global one answers for them;
                `share`: that of the requests that it serves as a canary, while the alias stays; `expect`: the
                number of the release that the alias points to, 0 for none, by default that of now;
                `override_gates`, which needs a reason; `prevalence`: of malignancy at the place, by subgroup,
                by default as stated with the release before.

        Raises:
            AliasMoved: the alias points to another release by then.
            ApprovalsMissing: the gate set asks for approvals, and fewer have approved the override.
            ReleaseRefused: the versions do not make a release, or an override has no reason.
            GateRefusal: a gate refuses and is not overridden.
            BundleRefused: the model of a named version does not load or misbehaves.
        """
        return self.promote_and_tell(model, numbers, to=to, reason=reason, **options).event

    def promote_and_tell(
        self,
        model: str,
        numbers: Sequence[int],
        *,
        to: str,
        reason: str | None = None,
        **options: Unpack[PromoteOptions],
    ) -> Promotion:
        """As `promote`, and return also the new release next to the one that it replaced."""
        where = (self._engine, self._store, model, numbers, to, self._context(reason))
        return promote.promote(*where, **options)

    def approve(
        self,
        model: str,
        numbers: Sequence[int],
        *,
        to: str,
        reason: str | None = None,
        override_gates: bool = False,
        without: Sequence[str] = (),
        prevalence: Mapping[str, float] | None = None,
    ) -> Event:
        """Approve exactly the release that this promotion would make, until the alias moves.

        With `override_gates`, approve promoting it although gates refuse, and nothing else.

        Raises:
            ReleaseRefused: the versions do not make a release.
            NothingToApprove: the alias points to it already, or the same person has approved it.
        """
        where = (self._engine, self._store, model, numbers, to, self._context(reason), without)
        return promote.approve(*where, over_gates=override_gates, prevalence=prevalence)

    def rollback(
        self, model: str, *, alias: str, reason: str | None = None, expect: int | None = None
    ) -> Event:
        """Roll the alias back to the release before the one it points to, or before it was stopped.

        Gates are not asked. Releases with a withdrawn version are skipped.

        With `expect` it is done only if the alias points to the release of this number.

        Raises:
            AliasMoved: the alias points to another release by then.
            NothingToRollBack: there is no release before it that may answer.
        """
        return rollback.roll_back(self._engine, model, alias, self._context(reason), expect)

    def end_canary(self, model: str, *, alias: str, reason: str) -> Event:
        """End the canary of the alias: the release that it points to serves all requests again."""
        return rollout.end_canary(self._engine, model, alias, self._context(reason))

    def stop(self, model: str, *, alias: str, reason: str) -> Event | None:
        """Stop the alias: it points to nothing until a rollback or a promotion; None if it does already."""
        return rollback.stop(self._engine, model, alias, self._context(reason))

    def export_release(self, model: str, alias: str, path: Path, *, with_reasons: bool = False) -> Exported:
        """Export the release that the alias points to into one file, with reasons only if asked for.

        Raises:
            ArchiveError: the file cannot be written, or the events do not agree with the release.
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
        """Import the release in a file, and promote it to these aliases, if any, through the gates.

        With `trust`, every version of it must have a valid signature of a trusted key, unless
        `allow_unsigned`.

        Raises:
            ArchiveError: the file cannot be read.
            ArchiveRefused: something in it was altered, added or left out, a signature is forged, or a
                version has none of a trusted key.
            GateRefusal: a gate refuses the release under an alias; its versions are added all the same.
        """
        for alias in to:
            check_name("alias", alias)
        where = (self._engine, self._store, self._context(), read_release(path), trust)
        imported = import_release(*where, allow_unsigned=allow_unsigned)
        model, numbers = imported.versions[0].model, [version.number for version in imported.versions]
        promoted = [self.promote(model, numbers, to=alias, reason=reason) for alias in to]
        return replace(imported, promoted=tuple(event for event in promoted if event is not None))

    # Gates.

    def gates(
        self, model: str | None = None, number: int | None = None, *, alias: str | None = None
    ) -> gate_sets.StoredGateSet:
        """The gate set in force, of one model or of all, under an alias; or the set of a number."""
        return gate_sets.read_gates(self._engine, model, number, alias)

    def set_gates(
        self, gates: GateSet, *, reason: str, model: str | None = None, alias: str | None = None
    ) -> Event | None:
        """Put a gate set in force, of one model or of all, under one alias or under all; None where it is.

        Raises:
            ReleaseRefused: there is no reason.
            ApprovalsMissing: a set that it replaces asks for approvals, and fewer have approved this; or the
                registry knows fewer approvers than the new set would ask for.
        """
        return gate_sets.change_gates(self._engine, gates, model, self._context(reason), alias)

    def approve_gates(
        self, gates: GateSet, *, model: str | None = None, alias: str | None = None, reason: str | None = None
    ) -> Event:
        """Approve putting exactly this gate set in force in place of exactly those that are asked there.

        Raises:
            NothingToApprove: it is asked there already, or the same person has approved it.
        """
        return gate_sets.approve_gates(self._engine, gates, model, self._context(reason), alias)

    def let_through(self, model: str, alias: str) -> LetThrough | None:
        """By which gate set the release of the alias was let through, and which is in force now.

        None where the alias points to none, or no event holds what the gates said.
        """

        def found(connection: Connection) -> LetThrough | None:
            release = queries.current_release(connection, model, alias)
            if release is None:
                return None
            events = queries.gate_events(connection, model, alias, release.id)
            return let_through(events, release.id, alias)

        return self._read(found, of=model)

    def overrides(self, model: str, releases: Collection[int] | None = None) -> dict[int, Event]:
        """The promotions of a model that overrode a gate's refusal, by the release they made.

        Of every release, or of these alone.
        """
        which = and_(EventRow.model == model, EventRow.overridden)
        if releases is not None:
            which = and_(which, EventRow.release_id.in_(releases))
        events = self._read(lambda found: queries.events_where(found, which), of=model)
        return {event.release: event for event in events if event.release is not None}

    # History.

    def history(self, model: str, newest: int | None = None) -> tuple[Event, ...]:
        """The events of the model and of the gates of all models, the oldest first; or the newest so many."""
        which = queries.with_gates(model)
        return self._read(lambda found: queries.events_where(found, which, newest=newest), of=model)

    def history_length(self, model: str) -> int:
        """How many events `history` has of the model."""
        return self._read(lambda found: queries.count_events(found, queries.with_gates(model)))

    def has_event(self, digest: str) -> bool:
        """Whether the chain of events has one of this hash, or it is the one that the first event follows."""
        return digest == GENESIS or self._read(lambda found: queries.has_event(found, digest))

    def signers(self, events: Iterable[Event]) -> dict[int, records.Person]:
        """Whose valid signature events hold, by the event's id; those of people whose key is revoked too.

        Raises:
            KeyUnusable: signatures cannot be checked, for want of the extra `sign`.
        """
        registry, known = self._read(lambda found: (registry_id(found), queries.all_people(found)))
        by_key = {one.fingerprint: one for one in known}
        found = {one.id: people.who_signed(one, registry, by_key) for one in events if one.signed_with}
        return {number: who for number, who in found.items() if who is not None}

    def forged(self, events: Iterable[Event]) -> frozenset[int] | None:
        """The ids of those events that claim a signature without a valid one; None where it is not known."""
        claimed = [one for one in events if one.signed_with]
        try:
            held = self.signers(claimed)
        except KeyUnusable:
            return None
        return frozenset(one.id for one in claimed) - held.keys()

    def audit(self, model: str | None = None) -> tuple[dict[str, Any], ...]:
        """Every event as it is stored, with its hashes, of one model or of all; see `registry.audit`."""
        return self._read(lambda found: tuple(audit.stored_events(found, model)), of=model)

    def head(self) -> KeptHead:
        """The head of the chain of events, to be kept elsewhere; see `registry.audit`."""
        return audit.keep_head(self._engine)

    def compare_heads(self, heads: Sequence[KeptHead]) -> tuple[ComparedHead, ...]:
        """Compare heads that were kept elsewhere with the chain."""
        return audit.compare_heads(self._engine, heads)

    def verify(self, trust: "Trust | None" = None) -> tuple[records.IntegrityIssue, ...]:
        """Verify the database and the store, and return what is wrong; changes nothing.

        With `trust`, a signature of a key that is not trusted is an issue too.
        """
        return audit.find_integrity_issues(self._engine, self._store, trust)

    def collect(self, *, older_than: timedelta = GRACE, dry_run: bool = False) -> Collected:
        """Remove objects that nothing refers to and that are older than this.

        Raises:
            StoreError: the store is not this database's, cannot be listed or refuses.
        """
        where = (self._engine, self._store, self._context())
        return collect_garbage(*where, older_than=older_than, dry_run=dry_run)

    # Outcomes.

    def alarms(self, model: str) -> tuple[Alarm, ...]:
        """Every alarm in the history of a model, closed ones too, the oldest first."""
        return self._read(lambda found: alarms.alarms_of(found, model))

    def field(self, model: str, store: OutcomeStore) -> Monitoring:
        """What outcomes of patients say of a model, with all alarms; `store` is its database of outcomes."""

        def manifest_of(number: int) -> BundleManifest | None:
            try:
                return self.manifest(self.version(model, number))
            except (NotFound, StoreError):
                return None  # what it guaranteed is not known any more

        return alarms.monitor(self._engine, store, model, manifest_of)

    def record_alarms(self, model: str, found: Monitoring) -> tuple[Event, ...]:
        """Record the alarms that a look has found and history does not have."""
        return alarms.record_alarms(self._engine, model, found.new, self._context())

    def close_alarm(self, model: str, number: int, *, reason: str | None) -> Event:
        """Close an alarm for good, and let its guarantee be watched again.

        Raises:
            AlarmClosed: it was closed before.
            ReleaseRefused: there is no reason.
        """
        return alarms.close_alarm(self._engine, model, number, self._context(reason))

    # Signatures, people and API keys.

    def sign(self, model: str, numbers: Sequence[int], signer: "Signer") -> tuple[signing.Signature, ...]:
        """Sign these versions, and return the signature of each; versions it signed before keep theirs.

        Where the key is that of a person whom the registry knows, the event in history is signed by them.
        """
        from registry.signing_keys import KeySignatory  # cryptography is an extra

        signatory = KeySignatory(signer)
        known = signatory.fingerprint in self._read(queries.active_people)
        acting = self.signed_by(signatory) if known and self._signatory is None else self
        where = (self._engine, self._store, acting._context())
        return signing.sign_versions(*where, model, numbers, signer)

    def signatures(self, version: Version) -> tuple[signing.Signature, ...]:
        """The version's signatures, the oldest first, unverified: see `require_signature`."""
        return self._read(lambda found: signing.signatures_of_version(found, version))

    def require_signature(self, version: Version, trust: "Trust") -> str:
        """The identity of a trusted signer of the version, whose signature is valid.

        Raises:
            SignatureRefused: no trusted key has signed it.
        """
        return signing.require_signature(self._engine, self._store, version, trust)

    def add_person(self, name: str, public_key: Path, *, roles: Iterable[str]) -> records.Person:
        """Add a person by the public key in a file; from the first on, people sign what they do.

        Raises:
            InvalidName: the name is not readable in a list, or there is no such role.
            KeyUnusable: the file holds no public key that can be used.
            PersonRefused: an operator has to sign it, the name or key is known, or the first is no operator.
            ApprovalsMissing: a gate set asks for approvals, and fewer have approved exactly this person.
        """
        person = people.new_person(check_title("person", name), public_key, roles)
        return people.add_person(self._engine, self._context(), person)

    def approve_person(self, name: str, public_key: Path, *, roles: Iterable[str]) -> Event:
        """Approve adding exactly this person, for an operator to add; raises as `add_person` does.

        Raises:
            NothingToApprove: the same person has approved it before.
        """
        person = people.new_person(check_title("person", name), public_key, roles)
        return people.approve_person(self._engine, self._context(), person)

    def people(self) -> tuple[records.Person, ...]:
        """All people whom the registry knows, those whose key was revoked too."""
        return self._read(queries.all_people)

    def revoke_person(self, who: str, *, reason: str | None = None) -> records.Person:
        """Revoke the key of a person, named by name or fingerprint; not that of the last operator."""
        return people.revoke_person(self._engine, self._context(reason), who)

    def create_key(
        self,
        name: str,
        *,
        scopes: Iterable[str] = SCOPES,
        expires: timedelta | None = None,
        per_minute: int | None = None,
    ) -> tuple[records.ApiKey, str]:
        """Create an API key; returns it and its secret, which is stored nowhere.

        Args:
            name: whom or what it is for.
            scopes: what it may ask for; by default everything.
            expires: for how long it is good; by default until it is revoked.
            per_minute: how many requests a minute it may make; by default as many as the service grants.

        Raises:
            InvalidName: the name is not readable in a list, or a scope, time or rate is not valid.
        """
        limits = (scopes, expires, per_minute)
        return keys.create_key(self._engine, self._context(), check_title("key name", name), *limits)

    def keys(self) -> tuple[records.ApiKey, ...]:
        """Every API key, expired and revoked ones too."""
        return self._read(queries.all_keys)

    def rotate_key(self, id: str, *, grace: timedelta = ROTATION_GRACE) -> Rotated:
        """Rotate a key: make a new one like it, and let it expire after the grace.

        Raises:
            KeyEnded: it was revoked, has expired, or was rotated already.
            InvalidName: the grace is not valid.
        """
        return keys.rotate_key(self._engine, self._context(), id, grace)

    def revoke_key(self, id: str) -> records.ApiKey:
        """Revoke a key; one that was revoked stays as it is."""
        return keys.revoke_key(self._engine, self._context(), id)
