"""Making versions of bundles: objects first, then one transaction that refers to them."""

import logging
from collections.abc import Sequence

from sqlalchemy import Engine

from registry.bundle.folder import Bundle
from registry.changes import Note, insert_event, insert_version
from registry.collecting.garbage import keep
from registry.database import reading, writing
from registry.intake import check_bundle
from registry.queries import version_by_digest
from registry.records import Added
from registry.store import Store

logger = logging.getLogger(__name__)


def add_bundles(engine: Engine, store: Store, note: Note, bundles: Sequence[Bundle]) -> Added:
    """The version of each bundle: all of them are added, or none.

    Raises:
        BundleRefused: a bundle could not answer.
        InvalidName: a model has a name that the registry cannot take.
        StoreError: the store cannot be written.
    """
    contents = [content for bundle in bundles for content in (bundle.model, check_bundle(bundle))]
    damaged = _damaged(engine, store, bundles)
    for content in contents:
        store.put(content)
    for digest in damaged:
        logger.warning("object %s was missing or altered, and is right again", digest)
    with writing(engine) as connection:
        keep(store, contents)
        inserted = [insert_version(connection, bundle) for bundle in bundles]
        new = tuple(version for version, is_new in inserted if is_new)
        for model in dict.fromkeys(version.model for version in new):
            numbers = [version.number for version in new if version.model == model]
            insert_event(connection, "added", model, note, versions=numbers)
    return Added(tuple(version for version, _ in inserted), new, damaged)


def _damaged(engine: Engine, store: Store, bundles: Sequence[Bundle]) -> tuple[str, ...]:
    """Digests of objects that versions need and that are missing or altered, of these bundles."""
    with reading(engine) as connection:
        known = [one for one in bundles if version_by_digest(connection, one.manifest.model, one.digest)]
    digests = [digest for bundle in known for digest in (bundle.digest, bundle.manifest.file.sha256)]
    return tuple(digest for digest in dict.fromkeys(digests) if store.check(digest) != "intact")
