"""The SQLite backend: a file with a write-ahead log, and one writer at a time by `BEGIN IMMEDIATE`."""

import sqlite3
import time
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event

from registry.errors import DatabaseError

BUSY_SECONDS = 30  # how long a process waits for the write lock


def open_engine(url: URL) -> Engine:
    """The engine for the file that `url` names; its folder is made.

    Raises:
        DatabaseError: the folder cannot be made.
    """
    path = Path(str(url.database)).absolute()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DatabaseError(
            f"the folder {path.parent} for the database cannot be made ({error.strerror}); "
            "name another place with --url"
        ) from error
    # Transactions begin with our own BEGIN, so the driver must not begin any.
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        connect_args={"isolation_level": None, "timeout": BUSY_SECONDS},
    )
    event.listen(engine, "connect", _prepare)
    return engine


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


def _prepare(connection: Any, _record: Any) -> None:
    """Sets the pragmas of a new connection."""
    _write_ahead(connection)
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = FULL")


def _write_ahead(connection: Any) -> None:
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
