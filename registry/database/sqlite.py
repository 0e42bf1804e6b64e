"""The SQLite backend: a file with a write-ahead log, and one writer at a time by `BEGIN IMMEDIATE`.

Every transaction opens the file that is at the path then, and closes it: one that was restored from a copy is
read at once, and one that is gone is never made again.
"""

import sqlite3
import time
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine

from registry.errors import DatabaseError, DatabaseLost

BUSY_SECONDS = 30  # how long a process waits for the write lock


def open_engine(url: URL, *, create: bool = True) -> Engine:
    """The engine for the file that `url` names; its folder is made, where the file may be.

    Raises:
        DatabaseError: the folder cannot be made.
    """
    path = Path(str(url.database)).absolute()
    try:
        if create:
            path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DatabaseError(
            f"the folder {path.parent} for the database cannot be made ({error.strerror}); "
            "name another place with --url"
        ) from error
    return create_engine(
        URL.create("sqlite", database=str(path)),
        creator=_Opener(path, create=create),
        poolclass=NullPool,
        hide_parameters=True,
    )


class _Opener:
    """Opens a database file, and makes it once at most."""

    def __init__(self, path: Path, *, create: bool) -> None:
        self._path, self._create = path, create

    def __call__(self) -> sqlite3.Connection:
        """A connection to the file that is at the path.

        Raises:
            DatabaseLost: there was a file, and it is not there any more.
            sqlite3.Error: it cannot be opened.
        """
        if not self._create and not self._path.exists():
            raise DatabaseLost(
                f"the database {self._path} is not there any more, or its folder is not mounted; put it "
                "back, with its -wal file if it has one"
            )
        connection = sqlite3.connect(
            f"{self._path.as_uri()}?mode={'rwc' if self._create else 'rw'}",
            timeout=BUSY_SECONDS,
            isolation_level=None,  # transactions begin with our own BEGIN, so the driver must not begin any
            check_same_thread=False,
            uri=True,
        )
        try:
            _prepare(connection)
        except BaseException:
            connection.close()
            raise
        self._create = False
        return connection


def begin(connection: Connection, *, writes: bool) -> None:
    """Begins a transaction; one that writes takes the write lock."""
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def integrity_failures(connection: Connection) -> list[str]:
    """The failures of SQLite's integrity check, and foreign keys that lead nowhere."""
    pages = [row[0] for row in connection.exec_driver_sql("PRAGMA integrity_check") if row[0] != "ok"]
    references = [
        f"table {row[0]}, row {row[1]}: it refers to a row of {row[2]} that is not there"
        for row in connection.exec_driver_sql("PRAGMA foreign_key_check")
    ]
    return pages + references


def advice(cause: BaseException) -> str:
    """The advice for an error of the driver."""
    if "locked" in str(cause):
        return "others are writing all the time"
    if "readonly" in str(cause):
        return (
            "let a user open it who may write to the file and its folder, for SQLite keeps its log there "
            "even for readers; of a copy that must not change, read a copy"
        )
    return "check the file and its disk"


def is_without_tables(cause: BaseException) -> bool:
    """Whether an error of the driver says that a table is not there."""
    return "no such table" in str(cause)


def _prepare(connection: sqlite3.Connection) -> None:
    """Sets the pragmas of a new connection, and opens its log by reading."""
    _write_ahead(connection)
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Turns on the write-ahead log, so that readers read while somebody writes.

    Turning it on needs the file alone, and SQLite does not wait for that as it waits elsewhere.
    """
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
            continue
        if mode != "wal":
            raise sqlite3.OperationalError(
                f"its disk allows the journal mode {mode!r} only; keep the database on a local disk"
            )
        return
