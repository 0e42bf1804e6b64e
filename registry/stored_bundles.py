"""The bundles of versions in a store, a store that was lost, and garbage collection.

Garbage collection removes what no version, signature or event refers to. Events name what history needs for
ever, such as the index of an import. A writer puts objects first and refers to them in a transaction
afterwards, so three rules keep one from losing what it has just put:

- an object younger than a grace period is spared, and putting one that is there makes it young again;
- objects are removed within a writing transaction, after looking again at what is in use and how old
  each is, and writing transactions are one at a time;
- a writer restores, within its writing transaction, what was collected meanwhile (`restore_collected`).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

from sqlalchemy import Connection, Engine, String, cast, select

from registry.bundle.errors import BundleError
from registry.bundle.folder import MANIFEST_FILE, MODEL_FILE, Bundle, write_bundle_files
from registry.bundle.manifest import BundleManifest, read_manifest
from registry.database.changes import AuditContext, insert_event
from registry.database.connection import reading, url_text, writing
from registry.database.queries import acting_person, version_count
from registry.database.tables import EventRow, SignatureRow, VersionRow
from registry.errors import InvalidName, ObjectCorrupt, ObjectMissing, StoreError, StoreLost
from registry.records import Version
from registry.store import Store, StoreFile

GRACE = timedelta(days=1)
"""How old an object must be before it can be removed, by default."""

WRITING = timedelta(hours=1)
"""How old an unfinished object must be at least: another process may be writing it still."""

_AT_ONCE = 200  # files removed in one transaction, during which all other writers wait
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def stored_manifest(store: Store, version: Version) -> BundleManifest:
    """Reads the manifest of a version.

    Raises:
        StoreLost: the store holds no object at all.
        ObjectMissing: it is not in the store.
        ObjectCorrupt: it was altered.
    """
    with _explained(store, version, MANIFEST_FILE):
        content = store.get(version.digest)
    try:
        return read_manifest(content)
    except BundleError as error:
        raise ObjectCorrupt(f"{MANIFEST_FILE} of {_title(version)} cannot be used: {error}") from error


def stored_bundle(store: Store, version: Version) -> Bundle:
    """Reads the bundle of a version; raises as `stored_manifest`."""
    manifest = stored_manifest(store, version)
    with _explained(store, version, MODEL_FILE):
        return Bundle(manifest, store.get(manifest.file.sha256), version.digest)


def check_stored(store: Store, version: Version) -> BundleManifest:
    """Verifies both files of a version, the model a piece at a time; raises as `stored_manifest`."""
    manifest = stored_manifest(store, version)
    with _explained(store, version, MODEL_FILE):
        store.require(manifest.file.sha256)
    return manifest


@contextmanager
def stored_model(store: Store, version: Version) -> Iterator[tuple[BundleManifest, Path]]:
    """The manifest of a version, and a copy of its model; both verified; raises as `stored_manifest`."""
    manifest = stored_manifest(store, version)
    with _explained(store, version, MODEL_FILE), store.local(manifest.file.sha256) as path:
        yield manifest, path


def fetch_bundle(store: Store, version: Version, folder: Path) -> Bundle:
    """Writes the bundle of a version to a new folder, byte for byte as it was added; returns it.

    Raises:
        ObjectMissing: a file is not in the store.
        ObjectCorrupt: a file was altered.
        FolderError: something else is in the folder, or the disk refuses.
    """
    bundle = stored_bundle(store, version)
    write_bundle_files(folder, store.get(version.digest), bundle.model)
    return bundle


@contextmanager
def _explained(store: Store, version: Version, name: str) -> Iterator[None]:
    try:
        yield
    except (ObjectMissing, ObjectCorrupt) as error:
        if isinstance(error, ObjectMissing) and store.is_empty():
            raise _lost(store, f"{name} of {_title(version)} is to be there") from error
        raise type(error)(
            f"{error}. It is {name} of {_title(version)}: add the bundle again to put it right, with "
            "`dermfed-registry add BUNDLE_DIR`"
        ) from error


def _title(version: Version) -> str:
    return f"version {version.number} of {version.model} ({version.subgroup.name})"


def require_not_lost(connection: Connection, store: Store) -> str | None:
    """Checks that a registry with versions has a store with objects.

    Returns:
        the digest of the newest version's bundle; None where there is no version.

    Raises:
        StoreLost: there is not one object.
    """
    newest = connection.scalar(select(VersionRow.digest).order_by(VersionRow.id.desc()).limit(1))
    if newest is not None and not store.has(newest) and store.is_empty():
        count = version_count(connection, None)
        raise _lost(store, f"the database {url_text(connection.engine.url)} has {count:,} versions")
    return newest


def _lost(store: Store, known: str) -> StoreLost:
    return StoreLost(
        f"the store was looked for in {store.location}, which is not there or holds no object, and {known}: "
        "it was lost, or lies elsewhere. Name it with --store or DERMFED_STORE, or restore a copy of it"
    )


@dataclass(frozen=True)
class Collected:
    """The result of garbage collection: what was removed, or would be.

    Attributes:
        files: each object, and each file that a killed process left.
        removed: whether they are gone; False after a dry run.
    """

    files: tuple[StoreFile, ...]
    removed: bool

    @property
    def bytes(self) -> int:
        """The bytes of all these files."""
        return sum(file.size for file in self.files)


def collect_garbage(
    engine: Engine,
    store: Store,
    context: AuditContext,
    *,
    older_than: timedelta = GRACE,
    dry_run: bool = False,
) -> Collected:
    """Removes what nothing refers to and is older than this, and records it in events.

    A file is left whose filesystem does not say when it was written, and an unfinished one for an hour. There
    is an event for each transaction that removed something, that is for every 200 files.

    Raises:
        InvalidName: a negative age.
        PersonRefused: an operator has to sign it.
        StoreLost: the database has versions and the store no object.
        StoreError: the newest version is not in the store, which may be another registry's; or the store
            cannot be listed or refuses: what was removed before stays removed.
    """
    if older_than < timedelta(0):
        raise InvalidName(f"an age of {older_than} is none; give 0 or more, such as 24h")
    _require_own(engine, store, context, dry_run=dry_run)
    with reading(engine) as connection:
        used = _digests_in_use(connection)
    before = datetime.now(UTC) - older_than
    unused = (file for file in store.files() if _is_garbage(file, used, before))
    if dry_run:
        return Collected(tuple(unused), removed=False)
    removed: list[StoreFile] = []
    while batch := list(islice(unused, _AT_ONCE)):
        removed += _remove(engine, store, context, batch, before)
    return Collected(tuple(removed), removed=True)


def _require_own(engine: Engine, store: Store, context: AuditContext, *, dry_run: bool) -> None:
    """Checks that the store is there and holds this database's newest version: else all may be another's."""
    with reading(engine) as connection:
        newest = require_not_lost(connection, store)
        if (newest is None and not store.is_empty()) or (newest is not None and not store.has(newest)):
            raise StoreError(
                f"the newest version of the database {url_text(engine.url)} is not in {store.location}: what "
                "is there may be another registry's, and nothing is removed. Name the store of this database "
                "with --store or DERMFED_STORE, or add the version again"
            )
        if not dry_run:
            acting_person(connection, "collected", context.signatory)


def restore_collected(store: Store, objects: Mapping[str, bytes | Path]) -> None:
    """Restores objects that were collected meanwhile; call it in the transaction that refers to them.

    Args:
        store: where they were put.
        objects: the bytes of each, or the file that they were put from, by digest.

    Raises:
        StoreError: the store refuses, or a file holds other bytes by now.
    """
    for digest, source in objects.items():
        if not store.has(digest) and (found := store.put(source)) != digest:
            raise StoreError(
                f"{source!s:.200} has changed while it was added: it had {digest} and has {found}; add it "
                "once it changes no more"
            )


def _remove(
    engine: Engine, store: Store, context: AuditContext, files: Sequence[StoreFile], before: datetime
) -> list[StoreFile]:
    failure = None
    with writing(engine) as connection:
        used = _digests_in_use(connection)
        removed = []
        for listed in files:
            try:
                now = store.look(listed.name)
                if now is not None and _is_garbage(now, used, before):
                    store.remove(now.name)
                    removed.append(now)
            except StoreError as error:
                failure = error  # raised after the event of what is gone already
                break
        if removed:
            details = {"objects": len(removed), "bytes": sum(file.size for file in removed)}
            insert_event(connection, "collected", "", context, details=details)
    if failure is not None:
        raise failure
    return removed


def _is_garbage(file: StoreFile, used: frozenset[str], before: datetime) -> bool:
    if file.digest is None:
        before = min(before, datetime.now(UTC) - WRITING)
    return file.digest not in used and file.written is not None and file.written <= before


def _digests_in_use(connection: Connection) -> frozenset[str]:
    """Every digest that a version, a signature or an event refers to."""
    columns = (VersionRow.digest, VersionRow.model_digest, SignatureRow.object)
    named = {digest for column in columns for digest in connection.scalars(select(column))}
    recorded = connection.scalars(select(cast(EventRow.details, String)).where(EventRow.details.is_not(None)))
    return frozenset(named.union(*(_DIGEST.findall(text) for text in recorded)))
