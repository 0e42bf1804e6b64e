"""Adding bundles as versions: objects first, then one transaction that refers to them."""

import logging
from collections.abc import Sequence

from sqlalchemy import Engine

from registry.bundle.folder import Bundle
from registry.database.changes import AuditContext, insert_event, insert_version
from registry.database.connection import reading, writing
from registry.database.queries import version_by_digest, withdrawals
from registry.records import Added
from registry.releases.validate_bundle import check_bundle
from registry.releases.withdrawn import shared_files
from registry.store.base import Store
from registry.store.garbage import restore_collected

logger = logging.getLogger(__name__)


def add_bundles(engine: Engine, store: Store, context: AuditContext, bundles: Sequence[Bundle]) -> Added:
    """Adds bundles as versions, all of them or none.

    Raises:
        BundleRefused: a bundle could not answer.
        InvalidName: a model has a name that the registry cannot take.
        StoreError: the store cannot be written.
    """
    contents = [content for bundle in bundles for content in (bundle.model, check_bundle(bundle))]
    damaged = _damaged_objects(engine, store, bundles)
    for content in contents:
        store.put(content)
    for digest in damaged:
        logger.warning("object %s was missing or altered, and is right again", digest)
    with writing(engine) as connection:
        restore_collected(store, contents)
        inserted = [insert_version(connection, bundle) for bundle in bundles]
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


def _damaged_objects(engine: Engine, store: Store, bundles: Sequence[Bundle]) -> tuple[str, ...]:
    """The digests of these bundles' objects that the store should hold and that are missing or altered."""
    with reading(engine) as connection:
        known = [one for one in bundles if version_by_digest(connection, one.manifest.model, one.digest)]
    digests = [digest for bundle in known for digest in (bundle.digest, bundle.manifest.file.sha256)]
    return tuple(digest for digest in dict.fromkeys(digests) if store.check(digest) != "intact")
