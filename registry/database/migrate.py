"""Makes the tables of an empty database, and refuses one of another schema."""

import threading
from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text

import registry.database.migrations
from registry.database.action import registry_id
from registry.database.connection import keep_to, open_database, reading, url_text, writing
from registry.database.tables import SCHEMA, SCHEMA_TABLE, Table
from registry.errors import DatabaseError, OtherSchema

MIGRATIONS = Path(registry.database.migrations.__file__).parent

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
