"""What a registry refers to, by digest: its versions, signatures and events; and a store that has lost it."""

import re

from sqlalchemy import Connection, String, cast, select

from registry.database.connection import url_text
from registry.database.queries import version_count
from registry.database.tables import EventRow, SignatureRow, VersionRow
from registry.errors import StoreLost
from registry.store.base import Store

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
