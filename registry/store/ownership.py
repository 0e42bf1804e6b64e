"""Whose a store is: database and store carry one id, so that nobody's objects are another's garbage.

A store names its registry in `registry.json` (`registry.store.owner_file`) before anything is put into it.
One that lost the file is taken again where it holds nothing that the database does not know.

Whoever opens with another database is refused before anything is written or removed. Whoever reads is not:
every object is what its digest says, whosever store it is.
"""

from sqlalchemy import Connection, Engine

from registry.database.action import registry_id
from registry.database.connection import reading, url_text
from registry.database.queries import version_count
from registry.errors import DatabaseError, StoreLost, StoreNotOurs
from registry.store.base import Store
from registry.store.owner_file import OWNER_FILE
from registry.store.references import digests_in_use


def take_store(engine: Engine, store: Store, *, repairs: bool = False) -> None:
    """Makes sure that this database may write to the store, and takes a store that is nobody's.

    Args:
        engine: the database.
        store: the store.
        repairs: whether what is to be written puts right what the store has lost.

    Raises:
        StoreNotOurs: the store is that of another registry, or may be.
        StoreLost: the database has versions, and the store holds nothing and names nobody.
    """
    with reading(engine) as connection:
        if require_own(connection, store):
            return
        if store.is_empty():
            if not repairs:
                check_not_lost(connection, store)
        elif _holds_unknown(connection, store):
            raise StoreNotOurs(
                f"the store {store.location} names no registry, and holds objects that this database does "
                f"not know: they may be those of another. Restore its {OWNER_FILE}, or name another store"
            )
        if not (identity := registry_id(connection)):
            raise _without_id(connection)
        _is_own(connection, store, store.claim(identity))


def require_own(connection: Connection, store: Store) -> bool:
    """Whether the store names this registry; False where it names nobody.

    Raises:
        StoreNotOurs: it names another.
    """
    return _is_own(connection, store, store.owner())


def check_not_lost(connection: Connection, store: Store) -> None:
    """Checks that a registry with versions has a store with objects.

    Raises:
        StoreLost: there is not one object.
    """
    if (count := version_count(connection, None)) and store.is_empty():
        raise lost(store, f"the database {url_text(connection.engine.url)} has {count:,} versions")


def lost(store: Store, known: str) -> StoreLost:
    """The error for a store without any object, though something is known to be there."""
    return StoreLost(
        f"the store was looked for in {store.location}, which is not there or holds no object, and {known}: "
        "it was lost, or lies elsewhere. Name it with --store or DERMFED_STORE, or restore a copy of it"
    )


def _holds_unknown(connection: Connection, store: Store) -> bool:
    known = digests_in_use(connection)
    return any(file.digest is not None and file.digest not in known for file in store.files())


def _is_own(connection: Connection, store: Store, owner: str | None) -> bool:
    if owner is None:
        return False
    if not (identity := registry_id(connection)):
        raise _without_id(connection)
    if owner != identity:
        raise StoreNotOurs(
            f"the store {store.location} is that of the registry {owner}, and the database "
            f"{url_text(connection.engine.url)} is the registry {identity}: what one of them adds, the other "
            "would remove. Name the store of this database with --store or DERMFED_STORE, or the database of "
            f"this store with --url; to part two that shared it, copy the store without its {OWNER_FILE}"
        )
    return True


def _without_id(connection: Connection) -> DatabaseError:
    return DatabaseError(
        f"the database {url_text(connection.engine.url)} has lost the id of its registry, so nobody can tell "
        "which store is its own; restore a copy of it"
    )
