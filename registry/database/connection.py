"""Opening the database, making its tables, and its read and write transactions.

A writing transaction is the only one of its time from its beginning on, so that nothing it has read can
change before it writes; a reading one sees one snapshot.

- SQLite: a file with a write-ahead log. A writer begins by `BEGIN IMMEDIATE`. Every transaction opens the
  file that is at the path then: one restored from a copy is read at once, and one that is gone is never
  made again.
- PostgreSQL: a writer takes an advisory lock first and reads what is committed; a reader is REPEATABLE READ
  and can write nothing.

The engine of a registry belongs to that one: every transaction first checks that the database is still that
registry's, whatever was put in its place or answers at its address.
"""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    NullPool,
    create_engine,
    event,
    inspect,
    make_url,
    select,
    text,
)
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

import registry.database
from registry.database.tables import SCHEMA, SCHEMA_TABLE, IdentityRow, Table, registry_id
from registry.environment import masked, without_secrets
from registry.errors import DatabaseError, DatabaseLost, InvalidName, OtherSchema

WAIT_SECONDS = 30  # how long a process waits for the write lock
LOCK: Final = int.from_bytes(b"dermfed")
"""PostgreSQL's advisory lock that a writing transaction holds."""

_WRITES = "dermfed_writes"
_REGISTRY = "dermfed_registry"
_ALLOWED = (
    "use sqlite:///path/to/registry.db, sqlite:////absolute/path/registry.db, "
    "or postgresql://user@host/database"
)
# How soon a server that is silently gone is given up: libpq's parameters, seconds, the last one ms.
_ALIVE: Final = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
MIGRATIONS = Path(registry.database.__file__).parent

_lock = threading.Lock()  # Alembic keeps the migration that runs in a global


def open_database(url: str, *, create: bool = True) -> Engine:
    """Opens the engine for a database URL.

    A SQLite file's folder is made, and the file by the first transaction, unless `create` is False; a
    database of a PostgreSQL server must be there, and may be empty.

    Raises:
        InvalidName: the address is not one of a SQLite file or a PostgreSQL database.
        DatabaseError: the folder cannot be made, or PostgreSQL's driver is not installed.
    """
    shown = masked(url)
    try:
        parts = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise InvalidName(f"the database {shown!r} is no address; {_ALLOWED}") from error
    kind, database = parts.drivername, parts.database or ""
    if kind in ("sqlite", "sqlite+pysqlite"):
        if database in ("", ":memory:") or parts.host or parts.query:
            raise InvalidName(f"the database {shown!r} does not name a file; {_ALLOWED}")
        misplaced = "@" in database and ":" in database and not Path(database).exists()
        opener = _open_sqlite
    elif kind in ("postgresql", "postgresql+psycopg"):
        if not database:
            raise InvalidName(f"the address {shown!r} does not name a database; {_ALLOWED}")
        misplaced = "@" in f"{parts.host or ''}{database}"
        opener = _open_postgresql
    else:
        raise InvalidName(f"a database of kind {kind!r} is not supported; {_ALLOWED}")
    if misplaced:
        raise InvalidName(
            f"the database {shown!r} has a user or a password where there can be none; write %40 for an @ "
            f"and %2F for a / within a password, better keep it in PGPASSWORD or ~/.pgpass, and {_ALLOWED}"
        )
    engine = opener(parts, create)
    event.listen(engine, "begin", _begin)
    return engine


def _open_sqlite(url: URL, create: bool) -> Engine:
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
        creator=_sqlite_opener(path, create),
        poolclass=NullPool,
        hide_parameters=True,
    )


def _sqlite_opener(path: Path, create: bool) -> Callable[[], sqlite3.Connection]:
    """A function that opens a database file, and makes it once at most."""

    def connect() -> sqlite3.Connection:
        nonlocal create
        if not create and not path.exists():
            raise DatabaseLost(
                f"the database {path} is not there any more, or its folder is not mounted; put it back, with "
                "its -wal file if it has one"
            )
        connection = sqlite3.connect(
            f"{path.as_uri()}?mode={'rwc' if create else 'rw'}",
            timeout=WAIT_SECONDS,
            isolation_level=None,  # transactions begin with our own BEGIN, so the driver must not begin any
            check_same_thread=False,
            uri=True,
        )
        try:
            _write_ahead(connection)
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # opens the log
        except BaseException:
            connection.close()
            raise
        create = False
        return connection

    return connect


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Turns on the write-ahead log; that needs the file alone, and SQLite's own time-out does not apply."""
    deadline = time.monotonic() + WAIT_SECONDS
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


def _open_postgresql(url: URL, create: bool) -> Engine:
    if find_spec("psycopg") is None:
        raise DatabaseError(
            "a PostgreSQL database needs the driver psycopg; install it with `pip install dermfed[postgres]`"
        )
    given = {name: value for name, value in _ALIVE.items() if name not in url.query}
    return create_engine(
        url.set(drivername="postgresql+psycopg"),
        connect_args={"application_name": "dermfed", **given},
        hide_parameters=True,  # of rows in errors, and so in logs
        pool_pre_ping=True,  # a server may have been started again since
    )


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES, False)
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
    elif writes:
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL READ COMMITTED READ WRITE")
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{WAIT_SECONDS}s'")
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK})")
    else:
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """A read transaction, which sees one snapshot.

    Raises:
        DatabaseError: the database cannot be read.
        DatabaseLost: it is not there any more, or not that of the registry.
    """
    with _explained(engine), engine.connect() as connection, connection.begin():
        _require_registry(connection)
        yield connection


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """A write transaction: serialised with all others, and atomic.

    Raises:
        DatabaseError: the database cannot be written, or others kept it for half a minute.
        DatabaseLost: it is not there any more, or not that of the registry.
    """
    with (
        _explained(engine),
        engine.connect().execution_options(**{_WRITES: True}) as connection,
        connection.begin(),
    ):
        _require_registry(connection)
        yield connection


def url_text(url: URL) -> str:
    """The database in messages: a file, or an address without password and options."""
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    return URL.create(
        "postgresql", username=url.username, host=url.host, port=url.port, database=url.database
    ).render_as_string()


def _require_registry(connection: Connection) -> None:
    """Refuses a database that is not of the registry that the engine belongs to."""
    if (expected := connection.get_execution_options().get(_REGISTRY)) is None:
        return
    try:
        found = connection.scalar(select(IdentityRow.identity))
    except DBAPIError as error:
        if "no such table" not in str(error.orig) and getattr(error.orig, "sqlstate", None) != "42P01":
            raise
        found = None
    if found != expected:
        what = f"the registry {found}" if found else "no registry that says who it is"
        raise DatabaseLost(
            f"the database {url_text(connection.engine.url)} holds {what}, and was the registry {expected}: "
            "another one is in its place; put the right one back, or restart what is to use this one"
        )


@contextmanager
def _explained(engine: Engine) -> Iterator[None]:
    try:
        yield
    except (DBAPIError, PoolTimeout, sqlite3.Error) as error:
        cause = getattr(error, "orig", None) or error
        address = engine.url.render_as_string(hide_password=False)
        said = without_secrets(" ".join(str(cause).split()), address)
        raise DatabaseError(
            f"the database {url_text(engine.url)} cannot be used ({said}); {_advice(cause)}"
        ) from error


def _advice(cause: BaseException) -> str:
    """What to do about an error of the driver."""
    said, state = str(cause), getattr(cause, "sqlstate", None)
    if "locked" in said or state == "55P03":
        return "others are writing all the time"
    if "readonly" in said:
        return (
            "let a user open it who may write to the file and its folder, for SQLite keeps its log there "
            "even for readers; of a copy that must not change, read a copy"
        )
    if "recovery" in said:
        return "it is a standby, which only reads; name the server that is written to"
    if state in ("42501", "25006"):
        return "let a user open it who may write"
    if isinstance(cause, sqlite3.Error):
        return "check the file and its disk"
    return "check the server, the address and the user's rights"


def integrity_failures(connection: Connection) -> list[str]:
    """The failures of SQLite's checks of pages and foreign keys; PostgreSQL checks both by itself."""
    if connection.dialect.name != "sqlite":
        return []
    pages = [row[0] for row in connection.exec_driver_sql("PRAGMA integrity_check") if row[0] != "ok"]
    references = [
        f"table {row[0]}, row {row[1]}: it refers to a row of {row[2]} that is not there"
        for row in connection.exec_driver_sql("PRAGMA foreign_key_check")
    ]
    return pages + references


def open_registry(url: str, identity: str | None = None) -> Engine:
    """Opens the database of a registry; no transaction of the engine begins in another one's database.

    Args:
        url: its address; a new database gets its tables.
        identity: the registry's id, if it is known: then nothing is read yet, and nothing made.

    Raises:
        InvalidName, DatabaseError: as `open_database`.
        OtherSchema: another version of dermfed made its tables.
    """
    engine = open_database(url, create=identity is None)
    try:
        if identity is None:
            _ensure_schema(engine)
            with reading(engine) as connection:
                identity = registry_id(connection)
    except BaseException:
        engine.dispose()
        raise
    if identity:
        engine.update_execution_options(**{_REGISTRY: identity})
    return engine


def _ensure_schema(engine: Engine) -> None:
    """Creates the tables of an empty database, and refuses one of another schema."""
    with reading(engine) as connection:
        found = _revision(connection)
    if found is None:
        with _lock, writing(engine) as connection:
            # Another process may have been first: only what this transaction sees counts.
            if (found := _revision(connection)) is None:
                _migrate(connection)


def _revision(connection: Connection) -> str | None:
    """The schema version of the database; None where it is empty."""
    tables = inspect(connection).get_table_names()
    if not tables:
        return None
    named = f"the database {url_text(connection.engine.url)}"
    if SCHEMA_TABLE not in tables:
        raise DatabaseError(
            f"{named} holds other tables ({', '.join(tables[:5])}); name a database of the registry's own "
            "with --url"
        )
    found = connection.scalar(text(f"SELECT version_num FROM {SCHEMA_TABLE}"))
    if not isinstance(found, str):
        raise DatabaseError(f"{named} does not say its schema; restore a copy of it")
    if found != SCHEMA:
        raise OtherSchema(
            f"{named} has schema {found}; this dermfed reads {SCHEMA} alone: open it with the version that "
            "wrote it, or name a new one with --url"
        )
    return found


def _migrate(connection: Connection) -> None:
    from alembic.config import Config
    from alembic.runtime.environment import EnvironmentContext
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    scripts = ScriptDirectory.from_config(config)
    with EnvironmentContext(config, scripts, fn=lambda at, _: scripts._upgrade_revs(SCHEMA, at)) as context:
        context.configure(connection=connection, version_table=SCHEMA_TABLE)
        context.run_migrations()


def schema_differences(connection: Connection) -> list[str]:
    """The differences between the database's tables and the schema of this dermfed."""
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    context = MigrationContext.configure(connection, opts={"version_table": SCHEMA_TABLE})
    return [
        f"a table differs from what this dermfed needs ({difference}); restore a copy of the database"
        for difference in compare_metadata(context, Table.metadata)
    ]
