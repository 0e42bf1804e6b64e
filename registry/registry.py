"""`Registry`: adds versions of models, promotes releases under aliases, verifies, exports and imports them.

Each method is one transaction. Objects are written before the transaction that refers to them, so a
killed process leaves at most objects that nothing refers to.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from registry.acting import key_signatory
from registry.archive.export_release import Exported, export_release
from registry.archive.import_release import Imported, import_release, read_release
from registry.audit.checkpoint import ComparedHead, KeptHead, compare_heads, keep_head
from registry.audit.integrity import find_integrity_issues
from registry.audit.log import stored_events
from registry.bundle.folder import Bundle
from registry.comparison import Comparison
from registry.database.connection import reading
from registry.database.migrate import open_registry
from registry.database.people import Signatory
from registry.database.queries import require_model
from registry.diff.versions import Difference, compare
from registry.environment import current_user, database_url, store_location
from registry.gate_report import GateReport
from registry.gates import GateSet
from registry.identities import Identities
from registry.marking import Marking
from registry.names import check_name
from registry.records import (
    PRODUCTION,
    Added,
    Event,
    IntegrityIssue,
    Version,
)
from registry.releases import promote
from registry.releases.add_bundles import add_bundles, add_folders
from registry.releases.canary import Share
from registry.releases.compose import Candidate
from registry.releases.gate_sets import StoredGateSet, change_gates, read_gates
from registry.releases.promote import Promotion
from registry.signing.rows import Signature, signatures_of_version
from registry.signing.versions import require_signature, sign_versions
from registry.store.garbage import GRACE, Collection, collect_garbage
from registry.store.open import open_store

if TYPE_CHECKING:  # signing needs an extra
    from registry.signing.pem import Signer, Trust

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
            signatory: who signs what is done; see `registry.people.signatory`.
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
        """Every event as it is stored, with its hashes, of one model or of all; see `registry.audit.log`.

        Raises:
            NotFound: there is no such model.
        """
        with reading(self._engine) as connection:
            if model is not None:
                require_model(connection, model)
            return tuple(stored_events(connection, model))

    def head(self) -> KeptHead:
        """The head of the chain of events, to be kept elsewhere; see `registry.audit.checkpoint`."""
        return keep_head(self._engine)

    def compare_heads(self, heads: Sequence[KeptHead]) -> tuple[ComparedHead, ...]:
        """Compares heads that were kept elsewhere with the chain."""
        return compare_heads(self._engine, heads)

    def collect(self, *, older_than: timedelta = GRACE, dry_run: bool = False) -> Collection:
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
