"""Adding bundles as versions: objects first, then one transaction that refers to them.

A model's bytes are never held in memory where they come from a folder. Each is copied into the store by
pieces, under a name that nobody reads, and hashed meanwhile; what is checked is the copy, and the copy
becomes the object once all bundles are found sound. So whoever changes the folder meanwhile changes nothing.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine

from registry.bundle.folder import MODEL_FILE, Bundle, check_model_file
from registry.bundle.manifest import BundleManifest, ModelFile
from registry.database.changes import AuditContext, insert_event, insert_version
from registry.database.connection import reading, writing
from registry.database.queries import acting_person, version_by_digest, withdrawals
from registry.records import Added, EventKind
from registry.releases.labels import shared_files
from registry.releases.probe import probe_file
from registry.releases.validate_bundle import (
    check_file,
    check_manifest,
    largest_model,
    read_folder_manifest,
    title_of,
)
from registry.store.base import Staged, Store
from registry.store.bundles import require_not_lost, restore_collected

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Incoming:
    """One bundle that is to be added.

    Attributes:
        manifest: what its `bundle.json` says.
        digest: of `bundle.json`.
        text: the bytes of `bundle.json`.
        model: where its model is read from, or the model's bytes.
    """

    manifest: BundleManifest
    digest: str
    text: bytes
    model: Path | bytes


def add_bundles(engine: Engine, store: Store, context: AuditContext, bundles: Iterable[Bundle]) -> Added:
    """Adds bundles as versions, all of them or none.

    Raises:
        BundleRefused: a bundle could not answer.
        InvalidName: a model has a name that the registry cannot take.
        PersonRefused: a bundle is new, and nobody who may do this signs it.
        StoreError: the store cannot be written, or is not ours.
    """
    incoming = []
    for bundle in bundles:
        text = check_manifest(bundle.manifest, bundle.digest, len(bundle.model))
        incoming.append(Incoming(bundle.manifest, bundle.digest, text, bundle.model))
    return _add(engine, store, context, incoming)


def add_folders(engine: Engine, store: Store, context: AuditContext, folders: Iterable[Path]) -> Added:
    """Adds the bundle in each folder as a version, as `add_bundles`, with no model in memory.

    Raises:
        BundleError: a folder holds no sound bundle.
        BundleRefused: a folder holds more than a bundle, or one that could not answer.
        InvalidName: a model has a name that the registry cannot take.
        PersonRefused: a bundle is new, and nobody who may do this signs it.
        StoreError: the store cannot be written, or is not ours.
    """
    incoming = []
    for folder in folders:
        manifest, digest = read_folder_manifest(folder)
        text = check_manifest(manifest, digest, (folder / MODEL_FILE).stat().st_size)
        incoming.append(Incoming(manifest, digest, text, folder / MODEL_FILE))
    return _add(engine, store, context, incoming)


def put_contents(
    engine: Engine,
    store: Store,
    context: AuditContext,
    contents: Mapping[str, bytes],
    bundles: Sequence[tuple[str, str]],
) -> None:
    """Puts contents into the store.

    Args:
        engine: the database.
        store: where they are put.
        context: who imports them.
        contents: the bytes of each object, by digest.
        bundles: the model and digest of each bundle that they belong to.

    Raises:
        PersonRefused: new versions are to be added, and nobody who may do this signs it.
        StoreError: the store cannot be written, or is lost and new versions are to be added.
    """
    _known(engine, store, context, "imported", bundles)
    for content in contents.values():
        store.put(content)


def _add(engine: Engine, store: Store, context: AuditContext, incoming: Sequence[Incoming]) -> Added:
    bundles = [(one.manifest.model, one.digest) for one in incoming]
    known = _known(engine, store, context, "added", bundles)
    staged: dict[str, Staged] = {}
    sources: dict[str, bytes | Path] = {}
    with ExitStack() as copies:
        for one in incoming:
            copy = staged.get(one.manifest.file.sha256)
            if copy is None or sources[copy.digest] is not one.model:
                copy = copies.enter_context(store.staged(one.model, largest_model()))
                _check_file(one, ModelFile(sha256=copy.digest, size=copy.size))
                staged[copy.digest], sources[copy.digest] = copy, one.model
            probe_file(copy.path, one.manifest, title_of(one.manifest, one.digest))
        damaged = _damaged(store, [incoming[place] for place in known])
        for copy in staged.values():
            store.keep(copy)
    for one in incoming:
        store.put(one.text)
    for digest in damaged:
        logger.warning("object %s was missing or altered, and is right again", digest)
    with writing(engine) as connection:
        restore_collected(store, sources | {one.digest: one.text for one in incoming})
        inserted = [insert_version(connection, one.manifest, one.digest) for one in incoming]
        new = tuple(version for version, is_new in inserted if is_new)
        for model in dict.fromkeys(version.model for version in new):
            numbers = [version.number for version in new if version.model == model]
            insert_event(connection, "added", model, context, versions=numbers)
        versions = tuple(version for version, _ in inserted)
        withdrawn = {(one.model, one.number): one for one in withdrawals(connection)}
        warnings = [
            f"version {one.number} of {one.model} is {withdrawn[one.model, one.number]}"
            for one in versions
            if (one.model, one.number) in withdrawn
        ]
        for model in dict.fromkeys(version.model for version in versions):
            warnings += shared_files(connection, [one for one in versions if one.model == model])
    return Added(versions, new, damaged, tuple(warnings))


def _known(
    engine: Engine, store: Store, context: AuditContext, kind: EventKind, bundles: Sequence[tuple[str, str]]
) -> tuple[int, ...]:
    """The places of those bundles, by model and digest, that are versions already.

    Where others are new, whoever adds them is looked at before anything of them is put into the store.

    Raises:
        PersonRefused: some are new, and nobody who may do this signs it.
        StoreLost: some are new, and the store has lost those that there are.
    """
    with reading(engine) as connection:
        known = tuple(
            place for place, one in enumerate(bundles) if version_by_digest(connection, *one) is not None
        )
        if len(known) < len(bundles):
            acting_person(connection, kind, context.signatory)
            require_not_lost(connection, store)
        return known


def _check_file(one: Incoming, actual: ModelFile) -> None:
    if isinstance(one.model, bytes):
        check_file(one.manifest, one.digest, actual)
    else:
        check_model_file(one.model, actual, one.manifest)


def _damaged(store: Store, known: Iterable[Incoming]) -> tuple[str, ...]:
    """The digests of known bundles' objects that are missing or altered."""
    digests = [digest for one in known for digest in (one.digest, one.manifest.file.sha256)]
    return tuple(digest for digest in dict.fromkeys(digests) if store.check(digest) != "intact")
