"""Opening the database, its tables, and its read and write transactions.

A writing transaction is the only one of its time from its beginning on, so that nothing it has read can
change before it writes; a reading one sees one moment. How each database does that is in a file of its
own: `registry.database.sqlite` and `registry.database.postgresql`.

An engine may be kept to one registry (`keep_to`): then every transaction first looks whether the database is
still that one, whatever was put in its place or answers at its address.

Makes the tables of an empty database, and refuses one of another schema.
"""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from sqlalchemy import URL, Connection, Engine, event, inspect, make_url, select, text
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

import registry.database
from registry.database import postgresql, sqlite
from registry.database.tables import SCHEMA, SCHEMA_TABLE, IdentityRow, Table, registry_id
from registry.environment import holds_credentials, masked, without_secrets
from registry.errors import DatabaseError, DatabaseLost, InvalidName, OtherSchema

_WRITES = "dermfed_writes"
_REGISTRY = "dermfed_registry"
_ALLOWED = (
    "use sqlite:///path/to/registry.db, sqlite:////absolute/path/registry.db, "
    "or postgresql://user@host/database"
)


def open_database(url: str, *, create: bool = True) -> Engine:
    """Opens the engine for a database URL.

    A SQLite file's folder is made, and the file by the first transaction, unless `create` is False; a
    database of a PostgreSQL server must be there, and may be empty.

    Raises:
        InvalidName: the address is not one of a SQLite file or a PostgreSQL database.
        DatabaseError: the folder cannot be made, or PostgreSQL's driver is not installed.
    """
    try:
        parts = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise InvalidName(f"the database {masked(url)!r} is no address; {_ALLOWED}") from error
    kind = parts.drivername
    if _misplaced(parts):
        raise InvalidName(
            f"the database {masked(url)!r} has a user or a password where there can be none; write %40 for "
            "an @ and %2F for a / within a password, better keep it in PGPASSWORD or ~/.pgpass, and "
            f"{_ALLOWED}"
        )
    if kind in ("sqlite", "sqlite+pysqlite"):
        if parts.database in (None, "", ":memory:") or parts.host or parts.query:
            raise InvalidName(f"the database {masked(url)!r} does not name a file; {_ALLOWED}")
        return _with_transactions(sqlite.open_engine(parts, create=create))
    if kind in ("postgresql", "postgresql+psycopg"):
        if not parts.database:
            raise InvalidName(f"the address {masked(url)!r} does not name a database; {_ALLOWED}")
        return _with_transactions(postgresql.open_engine(parts))
    raise InvalidName(f"a database of kind {kind!r} is not supported; {_ALLOWED}")


def keep_to(engine: Engine, registry: str) -> None:
    """Keeps the engine to the registry of this id: no transaction begins in another one's database."""
    engine.update_execution_options(**{_REGISTRY: registry})


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


def integrity_failures(connection: Connection) -> list[str]:
    """The failures of the database's own integrity checks, of its pages and of foreign keys."""
    found: list[str] = _on(connection).integrity_failures(connection)
    return found


def url_text(url: URL) -> str:
    """The database in messages: a file, or an address without password and options."""
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    return URL.create(
        "postgresql", username=url.username, host=url.host, port=url.port, database=url.database
    ).render_as_string()


def _misplaced(parts: URL) -> bool:
    """Whether what was typed as a user or a password was read as a host, a database or a file."""
    database = parts.database or ""
    if parts.get_backend_name() == "sqlite":
        return holds_credentials(database) and not Path(database).exists()
    alone = parts.username is None and parts.host is not None
    return "@" in (parts.host or "") or ("@" in database and (alone or ":" in database))


def _require_registry(connection: Connection) -> None:
    """Refuses a database that is not of the registry that the engine is kept to.

    Raises:
        DatabaseLost: it is another one's, or no registry's.
    """
    if (expected := connection.get_execution_options().get(_REGISTRY)) is None:
        return
    try:
        found = connection.scalar(select(IdentityRow.identity))
    except DBAPIError as error:
        if not _on(connection).is_without_tables(error.orig or error):
            raise
        found = None
    if found != expected:
        what = f"the registry {found}" if found else "no registry that says who it is"
        raise DatabaseLost(
            f"the database {url_text(connection.engine.url)} holds {what}, and was the registry {expected}: "
            "another one is in its place, or answers at its address; put the right one back, or start anew "
            "what is to use this one"
        )


def _on(database: Engine | Connection) -> ModuleType:
    return sqlite if database.dialect.name == "sqlite" else postgresql


def _with_transactions(engine: Engine) -> Engine:
    def begin(connection: Connection) -> None:
        _on(connection).begin(connection, writes=connection.get_execution_options().get(_WRITES, False))

    event.listen(engine, "begin", begin)
    return engine


@contextmanager
def _explained(engine: Engine) -> Iterator[None]:
    try:
        yield
    except (DBAPIError, PoolTimeout, sqlite3.Error) as error:
        cause = getattr(error, "orig", None) or error
        address = engine.url.render_as_string(hide_password=False)
        text = without_secrets(" ".join(str(cause).split()), address)
        raise DatabaseError(
            f"the database {url_text(engine.url)} cannot be used ({text}); {_on(engine).advice(cause)}"
        ) from error


MIGRATIONS = Path(registry.database.__file__).parent

_lock = threading.Lock()  # Alembic keeps the migration that runs in a global


def open_registry(url: str, identity: str | None = None) -> Engine:
    """Opens the database of a registry, and keeps the engine to that one.

    Args:
        url: its address; a new database gets its tables.
        identity: the registry's id, if it is known: then nothing is read yet, and nothing made.

    Raises:
        InvalidName, DatabaseError: as `open_database` and `ensure_schema`.
    """
    engine = open_database(url, create=identity is None)
    try:
        if identity is None:
            ensure_schema(engine)
            with reading(engine) as connection:
                identity = registry_id(connection)
    except BaseException:
        engine.dispose()
        raise
    if identity:
        keep_to(engine, identity)
    return engine


def ensure_schema(engine: Engine) -> None:
    """Creates the tables of an empty database, and refuses one of another schema.

    Raises:
        OtherSchema: another version of dermfed made it.
        DatabaseError: its tables are somebody else's.
    """
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
    if SCHEMA_TABLE not in tables:
        raise DatabaseError(
            f"the database {url_text(connection.engine.url)} holds other tables ({', '.join(tables[:5])}); "
            "name a database of the registry's own with --url"
        )
    found = connection.scalar(text(f"SELECT version_num FROM {SCHEMA_TABLE}"))
    if not isinstance(found, str):
        raise DatabaseError(
            f"the database {url_text(connection.engine.url)} does not say its schema; restore a copy of it"
        )
    if found != SCHEMA:
        raise OtherSchema(
            f"the database {url_text(connection.engine.url)} has schema {found}; this dermfed reads {SCHEMA} "
            "alone: open it with the version that wrote it, or name a new one with --url"
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
