"""The database: opening it, and transactions that read and that write.

All that is particular to SQLite is here. A writing transaction takes the write lock when it begins,
so that nothing it has read can change before it writes; a reading one sees one moment.
"""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from registry.errors import DatabaseError, InvalidName

_BUSY_SECONDS = 30  # how long a process waits for another one's transaction
_WRITES = "dermfed_writes"


def open_database(url: str) -> Engine:
    """The engine for `url`; the file's folder is made, the file by the first transaction.

    Raises:
        InvalidName: the address is not one of a SQLite file.
        DatabaseError: the folder cannot be made.
    """
    path = _sqlite_file(url)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DatabaseError(
            f"the folder {path.parent} for the database cannot be made ({error.strerror}); "
            "name another place with --url"
        ) from error
    # Transactions begin with our own BEGIN below, so the driver must not begin any.
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        connect_args={"isolation_level": None, "timeout": _BUSY_SECONDS},
    )
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """A transaction that reads: all of it sees the same moment.

    Raises:
        DatabaseError: the database cannot be read.
    """
    with _explained(engine), engine.connect() as connection, connection.begin():
        yield connection


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """A transaction that writes: the only one of its time, and whole or not at all.

    Raises:
        DatabaseError: the database cannot be written, or others kept it for half a minute.
    """
    with (
        _explained(engine),
        engine.connect().execution_options(**{_WRITES: True}) as connection,
        connection.begin(),
    ):
        yield connection


def damages(connection: Connection) -> list[str]:
    """What the database itself finds wrong with its file and with references between tables."""
    pages = [row[0] for row in connection.exec_driver_sql("PRAGMA integrity_check") if row[0] != "ok"]
    references = [
        f"table {row[0]}, row {row[1]}: it refers to a row of {row[2]} that is not there"
        for row in connection.exec_driver_sql("PRAGMA foreign_key_check")
    ]
    return pages + references


def _sqlite_file(url: str) -> Path:
    allowed = "use sqlite:///path/to/registry.db, or sqlite:////absolute/path/registry.db"
    try:
        parts = make_url(url)
    except ArgumentError as error:
        raise InvalidName(f"the database {url!r} is no address; {allowed}") from error
    if parts.drivername not in ("sqlite", "sqlite+pysqlite"):
        raise InvalidName(f"a database of kind {parts.drivername!r} is not supported; {allowed}")
    if parts.database in (None, "", ":memory:") or parts.host or parts.query:
        raise InvalidName(f"the database {url!r} does not name a file; {allowed}")
    return Path(str(parts.database)).absolute()


def _prepare(connection: Any, _record: Any) -> None:
    """What every connection needs before its first transaction."""
    _write_ahead(connection)
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = FULL")


def _write_ahead(connection: Any) -> None:
    """Let readers read while somebody writes.

    Turning it on needs the file alone, and SQLite does not wait for that as it waits elsewhere.
    """
    deadline = time.monotonic() + _BUSY_SECONDS
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


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@contextmanager
def _explained(engine: Engine) -> Iterator[None]:
    try:
        yield
    except (DBAPIError, PoolTimeout, sqlite3.Error) as error:
        cause = getattr(error, "orig", None) or error
        hint = "others are writing all the time" if "locked" in str(cause) else "check the file and its disk"
        raise DatabaseError(f"the database {engine.url.database} cannot be used ({cause}); {hint}") from error
