"""`Registry`: versions of models, what is released under which alias, and how it came to be.

Each method is one transaction. Objects are written before the transaction that refers to them, so a
killed process leaves at most objects that nothing refers to.
"""

import logging
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from sqlalchemy import Engine

from registry.bundle.folder import Bundle, read_bundle
from registry.bundle.schema import BundleManifest
from registry.changes import (
    Note,
    insert_event,
    insert_key,
    insert_release,
    insert_version,
    mark_revoked,
    point_alias,
)
from registry.database import open_database, reading, writing
from registry.errors import GateRefusal, NothingToRollBack, ReleaseRefused
from registry.gates import GateReport, SpreadGate
from registry.intake import check_bundle
from registry.keys import key_digest, make_secret
from registry.migrate import ensure_schema, upgrade_schema
from registry.names import check_name, check_title, not_found
from registry.places import current_user, database_url, store_place
from registry.queries import (
    alias_names,
    all_keys,
    all_versions,
    current_release,
    current_releases,
    events_of,
    model_names,
    release_stack,
    require_model,
    version_by_digest,
    versions_by_number,
)
from registry.records import Added, ApiKey, Event, Release, Version
from registry.releases import Candidate, check_integrity, compose
from registry.store import Store, open_store
from registry.stored import stored_bundle, stored_manifest
from registry.verification import Problem, find_problems

logger = logging.getLogger(__name__)

PRODUCTION = "production"
"""The alias that the service answers with, unless told otherwise."""


class Registry:
    """One database and one store; safe to share between threads, and to open in many processes."""

    def __init__(self, engine: Engine, store: Store, *, actor: str, gate: SpreadGate) -> None:
        self._engine = engine
        self._store = store
        self._actor = actor
        self.gate = gate

    @classmethod
    def open(
        cls,
        url: str | None = None,
        store: str | None = None,
        *,
        actor: str | None = None,
        gate: SpreadGate | None = None,
    ) -> Self:
        """The registry at these places; a new database gets its tables.

        Args:
            url: the database; by default `DERMFED_REGISTRY_URL`, or a file of the current user's.
            store: the folder of objects; by default `DERMFED_STORE`, or a folder of the current user's.
            actor: who history says did it; by default the current user.
            gate: another limit than the usual one.

        Raises:
            InvalidName: an address of a kind that is not supported.
            DatabaseError: the database cannot be used, or is of another schema.
        """
        objects = open_store(store_place(store))
        engine = open_database(database_url(url))
        try:
            ensure_schema(engine)
        except BaseException:
            engine.dispose()
            raise
        return cls(engine, objects, actor=actor or current_user(), gate=gate or SpreadGate())

    def close(self) -> None:
        """Lets go of the database."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, bundles: Sequence[Bundle]) -> tuple[Version, ...]:
        """The version of each bundle: all of them are added, or none.

        A bundle that was added before keeps its version; if its objects were missing or altered,
        they are put right.

        Raises:
            BundleRefused: a bundle could not answer.
            InvalidName: a model has a name that the registry cannot take.
            StoreError: the store cannot be written.
        """
        return self.add_and_tell(bundles).versions

    def add_and_tell(self, bundles: Sequence[Bundle]) -> Added:
        """`add`, telling also what was new and what was put right."""
        texts = [check_bundle(bundle) for bundle in bundles]
        damaged = self._damaged(bundles)
        for bundle, text in zip(bundles, texts, strict=True):
            self._store.put(bundle.model)
            self._store.put(text)
        for digest in damaged:
            logger.warning("object %s was missing or altered, and is right again", digest)
        with writing(self._engine) as connection:
            inserted = [insert_version(connection, bundle) for bundle in bundles]
            new = tuple(version for version, is_new in inserted if is_new)
            for model in dict.fromkeys(version.model for version in new):
                numbers = [version.number for version in new if version.model == model]
                insert_event(connection, "added", model, Note(self._actor), versions=numbers)
        return Added(tuple(version for version, _ in inserted), new, damaged)

    def add_folders(self, folders: Iterable[Path]) -> tuple[Version, ...]:
        """The version of the bundle in each folder, as `add`.

        Raises:
            BundleError: a folder holds no sound bundle.
        """
        return self.add([read_bundle(Path(folder)) for folder in folders])

    def models(self) -> tuple[str, ...]:
        """The names of all models."""
        with reading(self._engine) as connection:
            return model_names(connection)

    def versions(self, model: str | None = None) -> tuple[Version, ...]:
        """Every version, of one model or of all.

        Raises:
            NotFound: there is no such model.
        """
        with reading(self._engine) as connection:
            if model is not None:
                require_model(connection, model)
            return all_versions(connection, model)

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
            NotFound: there is no such model or alias.
        """
        with reading(self._engine) as connection:
            require_model(connection, model)
            if (release := current_release(connection, model, alias)) is None:
                raise not_found("alias", alias, alias_names(connection, model), of=f" of model {model!r}")
            return release

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

    def history(self, model: str) -> tuple[Event, ...]:
        """What was done to the model, the oldest first.

        Raises:
            NotFound: there is no such model.
        """
        with reading(self._engine) as connection:
            require_model(connection, model)
            return events_of(connection, model)

    def judge(self, model: str, numbers: Sequence[int], *, to: str) -> GateReport:
        """What the gates say of the release that this promotion would make.

        Raises:
            NotFound: there is no such model or version.
            ReleaseRefused: the versions do not make a release.
            StoreError: a manifest is missing or was altered.
        """
        return self._judged(self._candidate(model, numbers, to))

    def promote(
        self,
        model: str,
        numbers: Sequence[int],
        *,
        to: str,
        reason: str | None = None,
        override_gates: bool = False,
    ) -> Event | None:
        """Puts versions into the place of those for the same subgroups; the others are carried over.

        The whole release that results is judged. Returns None where the alias points to exactly
        this already.

        Raises:
            NotFound: there is no such model or version.
            ReleaseRefused: the versions do not make a release, or an override has no reason.
            GateRefusal: a gate refuses and is not overridden.
            StoreError: a version's file is missing or was altered.
        """
        check_name("alias", to)
        reason = _reason(reason)
        if override_gates and reason is None:
            raise ReleaseRefused(
                "overriding the gates needs a reason, which history keeps; add --reason TEXT"
            )
        for number in numbers:
            self.bundle(self.version(model, number))  # what answers from now on must be whole
        while True:
            candidate = self._candidate(model, numbers, to)
            if candidate.changes_nothing:
                return None
            report = self._judged(candidate)
            if report.refused and not override_gates:
                raise GateRefusal(f"{candidate.named_as} cannot go to {to}: {report.detail}", report)
            note = Note(self._actor, reason, report, overridden=report.refused)
            if (event := self._swap(candidate, to, note)) is not None:
                return event

    def rollback(self, model: str, *, alias: str, reason: str | None = None) -> Event:
        """Makes the alias point to the release before the one it points to; gates are not asked.

        Raises:
            NotFound: there is no such model or alias.
            NothingToRollBack: there is no release before it.
        """
        with writing(self._engine) as connection:
            require_model(connection, model)
            stack = release_stack(events_of(connection, model, alias))
            if not stack:
                raise not_found("alias", alias, alias_names(connection, model), of=f" of model {model!r}")
            if len(stack) == 1:
                raise NothingToRollBack(
                    f"{alias} of {model} points to its first release, {stack[0]}; there is none before it. "
                    "Promote another version instead"
                )
            before, release = stack[-1], stack[-2]
            point_alias(connection, model, alias, release)
            note = Note(self._actor, _reason(reason))
            return insert_event(
                connection, "rolled-back", model, note, alias=alias, release=release, before=before
            )

    def manifest(self, version: Version) -> BundleManifest:
        """What the version's `bundle.json` says, checked to be the one that was added.

        Raises:
            ObjectMissing: it is not in the store.
            ObjectCorrupt: it was altered.
        """
        return stored_manifest(self._store, version)

    def bundle(self, version: Version) -> Bundle:
        """The version's bundle, both its files checked to be those that were added.

        Raises:
            ObjectMissing: a file is not in the store.
            ObjectCorrupt: a file was altered.
        """
        return stored_bundle(self._store, version)

    def verify(self) -> tuple[Problem, ...]:
        """All that is wrong with the database and the store; nothing is changed."""
        return find_problems(self._engine, self._store)

    def create_key(self, name: str) -> tuple[ApiKey, str]:
        """A new key to the service and its secret, which is kept nowhere.

        Raises:
            InvalidName: a name that nobody could read in a list.
        """
        check_title("key name", name)
        number, secret = make_secret()
        key = ApiKey(number, name, key_digest(secret), datetime.now(UTC), None)
        with writing(self._engine) as connection:
            insert_key(connection, key)
        return key, secret

    def keys(self) -> tuple[ApiKey, ...]:
        """Every key, revoked ones too."""
        with reading(self._engine) as connection:
            return all_keys(connection)

    def revoke_key(self, id: str) -> ApiKey:
        """Revokes a key; one that was revoked stays as it is.

        Raises:
            NotFound: there is no such key.
        """
        with writing(self._engine) as connection:
            known = {key.id: key for key in all_keys(connection)}
            if id not in known:
                raise not_found("key", id, known)
            mark_revoked(connection, id)
            return next(key for key in all_keys(connection) if key.id == id)

    def _damaged(self, bundles: Sequence[Bundle]) -> tuple[str, ...]:
        """Digests of objects that versions need and that are missing or altered, of these bundles."""
        with reading(self._engine) as connection:
            known = [one for one in bundles if version_by_digest(connection, one.manifest.model, one.digest)]
        digests = [digest for bundle in known for digest in (bundle.digest, bundle.manifest.file.sha256)]
        return tuple(digest for digest in dict.fromkeys(digests) if self._store.check(digest) != "intact")

    def _candidate(self, model: str, numbers: Sequence[int], alias: str) -> Candidate:
        check_name("alias", alias)
        with reading(self._engine) as connection:
            named = versions_by_number(connection, model, numbers)
            return compose(model, named, current_release(connection, model, alias))

    def _judged(self, candidate: Candidate) -> GateReport:
        manifests = {version.number: self.manifest(version) for version in candidate.versions}
        check_integrity(candidate, manifests)
        return GateReport(results=(self.gate.judge(list(manifests.values())),))

    def _swap(self, candidate: Candidate, alias: str, note: Note) -> Event | None:
        """Releases the candidate, unless the alias points elsewhere than when it was judged."""
        model, before = candidate.model, candidate.before
        with writing(self._engine) as connection:
            if current_release(connection, model, alias) != before:
                return None
            release = insert_release(connection, model, candidate.versions)
            point_alias(connection, model, alias, release)
            return insert_event(
                connection,
                "promoted",
                model,
                note,
                versions=[version.number for version in candidate.named],
                alias=alias,
                release=release,
                before=None if before is None else before.id,
            )


def upgrade(url: str | None = None) -> tuple[str | None, str]:
    """Brings the database at `url` to the newest schema; returns its schema before and after.

    Raises:
        InvalidName: an address of a kind that is not supported.
        DatabaseError: the database cannot be used, or a newer dermfed made it.
    """
    engine = open_database(database_url(url))
    try:
        return upgrade_schema(engine)
    finally:
        engine.dispose()


def _reason(text: str | None) -> str | None:
    return (text or "").encode("utf-8", "replace").decode().strip() or None
