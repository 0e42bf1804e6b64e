"""Garbage collection: removes from the store what nothing refers to and nobody can be about to refer to.

An object is in use while a version, a signature or an event names its digest: events name what history
needs for ever, such as the index of an import. A writer puts objects first and refers to them in a
transaction afterwards, so three things keep one from losing what it has just put:

- an object younger than a grace period is spared, and putting one that is there makes it young again;
- objects are removed within a writing transaction, after looking again at what is in use and how old
  each is, and writing transactions are one at a time;
- a writer restores, within its writing transaction, what was collected meanwhile (`restore_collected`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

from sqlalchemy import Connection, Engine

from registry.database.changes import AuditContext, insert_event
from registry.database.connection import reading, url_text, writing
from registry.database.queries import acting_person
from registry.errors import InvalidName, StoreError
from registry.store.bundles import digests_in_use, newest_digest, require_not_lost
from registry.store.objects import Store, StoreFile, named

GRACE = timedelta(days=1)
"""How old an object must be before it can be removed, by default."""

WRITING = timedelta(hours=1)
"""How old an unfinished object must be at least: somebody may be writing it still."""

_AT_ONCE = 200  # files removed in one transaction, during which nobody else writes


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
        used = digests_in_use(connection)
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
        require_not_lost(connection, store)
        newest = newest_digest(connection)
        if (newest is None and not store.is_empty()) or (newest is not None and not store.has(newest)):
            raise StoreError(
                f"the newest version of the database {url_text(engine.url)} is not in {store.location}: what "
                "is there may be another registry's, and nothing is removed. Name the store of this database "
                "with --store or DERMFED_STORE, or add the version again"
            )
        if not dry_run:
            acting_person(connection, "collected", context.signatory)


def restore_collected(connection: Connection, store: Store, objects: Mapping[str, bytes | Path]) -> None:
    """Restores objects that were collected meanwhile; call it in the transaction that refers to them.

    Every writer must, before it refers to what it has put: `gc` removes within transactions of its own.

    Args:
        connection: the transaction.
        store: where they were put.
        objects: the bytes of each, or the file that they were put from, by digest.

    Raises:
        StoreError: the store refuses, or a file holds other bytes by now.
    """
    for digest, source in objects.items():
        if store.has(digest):
            continue
        with store.staged(source) as copy:
            if copy.digest != digest:
                raise StoreError(
                    f"{named(source)} has changed while it was added: it had {digest} and has "
                    f"{copy.digest}; add it once it changes no more"
                )
            store.keep(copy)


def _remove(
    engine: Engine, store: Store, context: AuditContext, files: Sequence[StoreFile], before: datetime
) -> list[StoreFile]:
    failure = None
    with writing(engine) as connection:
        used = digests_in_use(connection)
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
