"""Reads the bundles of versions back from the store, their digests verified."""

from pathlib import Path

from registry.bundle.errors import BundleError
from registry.bundle.folder import MANIFEST_FILE, MODEL_FILE, Bundle, write_bundle_files
from registry.bundle.manifest.schema import BundleManifest
from registry.bundle.manifest.text import read_manifest
from registry.errors import ObjectCorrupt, ObjectMissing
from registry.records import Version
from registry.store.base import Store


def stored_manifest(store: Store, version: Version) -> BundleManifest:
    """Reads the manifest of a version.

    Raises:
        ObjectMissing: it is not in the store.
        ObjectCorrupt: it was altered.
    """
    content = _file(store, version, MANIFEST_FILE, version.digest)
    try:
        return read_manifest(content)
    except BundleError as error:
        raise ObjectCorrupt(f"{MANIFEST_FILE} of {_title(version)} cannot be used: {error}") from error


def stored_bundle(store: Store, version: Version) -> Bundle:
    """Reads the bundle of a version.

    Raises:
        ObjectMissing: a file is not in the store.
        ObjectCorrupt: a file was altered.
    """
    manifest = stored_manifest(store, version)
    return Bundle(manifest, _file(store, version, MODEL_FILE, manifest.file.sha256), version.digest)


def fetch_bundle(store: Store, version: Version, folder: Path) -> Bundle:
    """Writes the bundle of a version to a new folder, byte for byte as it was added; returns it.

    Raises:
        ObjectMissing: a file is not in the store.
        ObjectCorrupt: a file was altered.
        FolderError: something else is in the folder, or the disk refuses.
    """
    bundle = stored_bundle(store, version)
    write_bundle_files(folder, _file(store, version, MANIFEST_FILE, version.digest), bundle.model)
    return bundle


def _file(store: Store, version: Version, name: str, digest: str) -> bytes:
    try:
        return store.get(digest)
    except (ObjectMissing, ObjectCorrupt) as error:
        raise type(error)(
            f"{error}. It is {name} of {_title(version)}: add the bundle again to put it right, with "
            "`dermfed-registry add BUNDLE_DIR`"
        ) from error


def _title(version: Version) -> str:
    return f"version {version.number} of {version.model} ({version.subgroup.name})"
