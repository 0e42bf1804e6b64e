"""Bundles of versions in a store, the digests that a registry refers to, and a store that was lost."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, String, cast, select

from registry.bundle.errors import BundleError
from registry.bundle.folder import MANIFEST_FILE, MODEL_FILE, Bundle, write_bundle_files
from registry.bundle.manifest import BundleManifest, read_manifest
from registry.database.connection import url_text
from registry.database.queries import version_count
from registry.database.tables import EventRow, SignatureRow, VersionRow
from registry.errors import ObjectCorrupt, ObjectMissing, StoreLost
from registry.records import Version
from registry.store.objects import Store

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def digests_in_use(connection: Connection) -> frozenset[str]:
    """Every digest that a version, a signature or an event refers to."""
    columns = (VersionRow.digest, VersionRow.model_digest, SignatureRow.object)
    named = {digest for column in columns for digest in connection.scalars(select(column))}
    recorded = connection.scalars(select(cast(EventRow.details, String)).where(EventRow.details.is_not(None)))
    return frozenset(named.union(*(_DIGEST.findall(text) for text in recorded)))


def newest_digest(connection: Connection) -> str | None:
    """The digest of the newest version's bundle; None where there is no version."""
    return connection.scalar(select(VersionRow.digest).order_by(VersionRow.id.desc()).limit(1))


def require_not_lost(connection: Connection, store: Store) -> None:
    """Checks that a registry with versions has a store with objects.

    Raises:
        StoreLost: there is not one object.
    """
    newest = newest_digest(connection)
    if newest is not None and not store.has(newest) and store.is_empty():
        count = version_count(connection, None)
        raise lost(store, f"the database {url_text(connection.engine.url)} has {count:,} versions")


def lost(store: Store, known: str) -> StoreLost:
    """The error for a store without any object, though something is known to be there."""
    return StoreLost(
        f"the store was looked for in {store.location}, which is not there or holds no object, and {known}: "
        "it was lost, or lies elsewhere. Name it with --store or DERMFED_STORE, or restore a copy of it"
    )


_Read = TypeVar("_Read")


def stored_manifest(store: Store, version: Version) -> BundleManifest:
    """Reads the manifest of a version.

    Raises:
        StoreLost: the store holds no object at all.
        ObjectMissing: it is not in the store.
        ObjectCorrupt: it was altered.
    """
    content = _file(store, store.get, version, MANIFEST_FILE, version.digest)
    try:
        return read_manifest(content)
    except BundleError as error:
        raise ObjectCorrupt(f"{MANIFEST_FILE} of {_title(version)} cannot be used: {error}") from error


def stored_bundle(store: Store, version: Version) -> Bundle:
    """Reads the bundle of a version.

    Raises:
        StoreLost: the store holds no object at all.
        ObjectMissing: a file is not in the store.
        ObjectCorrupt: a file was altered.
    """
    manifest = stored_manifest(store, version)
    model = _file(store, store.get, version, MODEL_FILE, manifest.file.sha256)
    return Bundle(manifest, model, version.digest)


def check_stored(store: Store, version: Version) -> BundleManifest:
    """Verifies both files of a version, the model a piece at a time, and returns the manifest.

    Raises:
        StoreLost: the store holds no object at all.
        ObjectMissing: a file is not in the store.
        ObjectCorrupt: a file was altered.
    """
    manifest = stored_manifest(store, version)
    _file(store, store.require, version, MODEL_FILE, manifest.file.sha256)
    return manifest


@contextmanager
def stored_model(store: Store, version: Version) -> Iterator[tuple[BundleManifest, Path]]:
    """The manifest of a version, and a file with its model's bytes; both verified.

    Raises:
        StoreLost: the store holds no object at all.
        ObjectMissing: a file is not in the store.
        ObjectCorrupt: a file was altered.
    """
    manifest = stored_manifest(store, version)
    with ExitStack() as open_files:

        def open_file(digest: str) -> Path:
            return open_files.enter_context(store.local(digest))

        yield manifest, _file(store, open_file, version, MODEL_FILE, manifest.file.sha256)


def fetch_bundle(store: Store, version: Version, folder: Path) -> Bundle:
    """Writes the bundle of a version to a new folder, byte for byte as it was added; returns it.

    Raises:
        ObjectMissing: a file is not in the store.
        ObjectCorrupt: a file was altered.
        FolderError: something else is in the folder, or the disk refuses.
    """
    bundle = stored_bundle(store, version)
    write_bundle_files(folder, _file(store, store.get, version, MANIFEST_FILE, version.digest), bundle.model)
    return bundle


def _file(store: Store, read: Callable[[str], _Read], version: Version, name: str, digest: str) -> _Read:
    try:
        return read(digest)
    except (ObjectMissing, ObjectCorrupt) as error:
        if isinstance(error, ObjectMissing) and store.is_empty():
            raise lost(store, f"{name} of {_title(version)} is to be there") from error
        raise type(error)(
            f"{error}. It is {name} of {_title(version)}: add the bundle again to put it right, with "
            "`dermfed-registry add BUNDLE_DIR`"
        ) from error


def _title(version: Version) -> str:
    return f"version {version.number} of {version.model} ({version.subgroup.name})"
