"""`gc`: removes from the store what nothing refers to and nobody can be about to refer to.

An object is in use while a version, a signature or an event names its digest: events name what history
needs for ever, such as the list of an import. A writer puts objects first and refers to them in a
transaction afterwards, so three things keep one from losing what it has just put:

- an object younger than a grace period is spared, and putting one that is there makes it young again;
- objects are removed within a writing transaction, after looking again at what is in use and how old
  each is, and writing transactions are one at a time;
- whoever adds looks, within the writing transaction, whether its objects are still there (`keep`).
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice

from sqlalchemy import Connection, Engine, String, cast, select

from registry.bundle.schema import sha256
from registry.changes import Note, insert_event
from registry.database import reading, writing
from registry.errors import InvalidName, StoreError
from registry.store import Store, StoreFile
from registry.tables import EventRow, SignatureRow, VersionRow

GRACE = timedelta(days=1)
"""How old an object must be before it can be removed, unless said otherwise."""

WRITING = timedelta(hours=1)
"""How old an unfinished object must be at least: somebody may be writing it still."""

_AT_ONCE = 200  # files removed in one transaction, during which nobody else writes
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True)
class Collection:
    """What was removed from the store, or would be.

    Attributes:
        files: each object, and each file that a killed process left.
        removed: whether they are gone; False after a dry run.
    """

    files: tuple[StoreFile, ...]
    removed: bool

    @property
    def bytes(self) -> int:
        """How much they take up."""
        return sum(file.size for file in self.files)


def collect_garbage(
    engine: Engine, store: Store, actor: str, *, older_than: timedelta = GRACE, dry_run: bool = False
) -> Collection:
    """Removes what nothing refers to and is older than this; history tells of it.

    A file whose place does not say when it was written is left, and an unfinished one for an hour. There
    is an event for each transaction that removed something, that is for every 200 files.

    Raises:
        InvalidName: a negative age.
        StoreError: the store cannot be listed or refuses; what was removed before stays removed.
    """
    if older_than < timedelta(0):
        raise InvalidName(f"an age of {older_than} is none; give 0 or more, such as 24h")
    with reading(engine) as connection:
        used = digests_in_use(connection)
    before = datetime.now(UTC) - older_than
    unused = (file for file in store.files() if _is_garbage(file, used, before))
    if dry_run:
        return Collection(tuple(unused), removed=False)
    removed: list[StoreFile] = []
    while batch := list(islice(unused, _AT_ONCE)):
        removed += _remove(engine, store, actor, batch, before)
    return Collection(tuple(removed), removed=True)


def digests_in_use(connection: Connection) -> frozenset[str]:
    """Every digest that a version, a signature or an event names."""
    columns = (VersionRow.digest, VersionRow.model_digest, SignatureRow.object)
    named = {digest for column in columns for digest in connection.scalars(select(column))}
    told = connection.scalars(select(cast(EventRow.details, String)).where(EventRow.details.is_not(None)))
    return frozenset(named.union(*(_DIGEST.findall(text) for text in told)))


def keep(store: Store, contents: Iterable[bytes]) -> None:
    """Puts back what `gc` removed since it was put; for a writing transaction that refers to these.

    Raises:
        StoreError: the store refuses.
    """
    for content in contents:
        if not store.has(sha256(content)):
            store.put(content)


def _remove(
    engine: Engine, store: Store, actor: str, files: Sequence[StoreFile], before: datetime
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
                failure = error  # raised when history tells of what is gone already
                break
        if removed:
            details = {"objects": len(removed), "bytes": sum(file.size for file in removed)}
            insert_event(connection, "collected", "", Note(actor), details=details)
    if failure is not None:
        raise failure
    return removed


def _is_garbage(file: StoreFile, used: frozenset[str], before: datetime) -> bool:
    if file.digest is None:
        before = min(before, datetime.now(UTC) - WRITING)
    return file.digest not in used and file.written is not None and file.written <= before
