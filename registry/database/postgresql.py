"""The PostgreSQL backend: one writer at a time by an advisory lock.

A writing transaction reads what is committed, and takes the lock first of all: what it reads after is what
the writer before it has left. A reading one is of one moment (REPEATABLE READ) and can write nothing.
"""

from importlib.util import find_spec
from typing import Final

from sqlalchemy import URL, Connection, Engine, create_engine, inspect

from registry.errors import DatabaseError

LOCK: Final = int.from_bytes(b"dermfed")
"""The advisory lock that a writing transaction holds."""

WAIT_SECONDS = 30  # how long a transaction waits for the lock
CONNECT_SECONDS = 10

ALIVE: Final = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
"""How soon a server that is silently gone is given up (libpq's parameters; seconds, the last one ms)."""


def open_engine(url: URL) -> Engine:
    """The engine for the database that `url` names.

    Raises:
        DatabaseError: the driver is not installed.
    """
    if find_spec("psycopg") is None:
        raise DatabaseError(
            "a PostgreSQL database needs the driver psycopg; install it with `pip install dermfed[postgres]`"
        )
    ours = {"connect_timeout": CONNECT_SECONDS, **ALIVE}
    given = {name: value for name, value in ours.items() if name not in url.query}
    return create_engine(
        url.set(drivername="postgresql+psycopg"),
        connect_args={"application_name": "dermfed", **given},
        hide_parameters=True,  # of rows in errors, and so in logs
        pool_pre_ping=True,  # a server may have been started anew since
    )


def begin(connection: Connection, *, writes: bool) -> None:
    """Sets up a transaction that begins: read-only, or writing under the lock."""
    if not writes:
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        return
    connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL READ COMMITTED READ WRITE")
    connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{WAIT_SECONDS}s'")
    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK})")


def is_without_tables(cause: BaseException) -> bool:
    """Whether an error of the driver says that a table is not there."""
    return getattr(cause, "sqlstate", None) == "42P01"


def integrity_failures(connection: Connection) -> list[str]:
    """Pages with a wrong checksum, and foreign keys that lead nowhere."""
    failures = connection.exec_driver_sql(
        "SELECT checksum_failures FROM pg_stat_database WHERE datname = current_database()"
    ).scalar()
    pages = (
        [f"{failures} pages were read whose checksum is wrong; check the server's disk"] if failures else []
    )
    return pages + _loose_references(connection)


def advice(cause: BaseException) -> str:
    """The advice for an error of the driver."""
    state = getattr(cause, "sqlstate", None)
    if state == "55P03":
        return "others are writing all the time"
    if "recovery" in str(cause):
        return "it is a standby, which only reads; name the server that is written to"
    if state in ("42501", "25006"):
        return "let a user open it who may write"
    return "check the server, the address and the user's rights"


def _loose_references(connection: Connection) -> list[str]:
    found = []
    schema = inspect(connection)
    for table in sorted(schema.get_table_names()):
        for reference in schema.get_foreign_keys(table):
            (column,), (to,) = reference["constrained_columns"], reference["referred_columns"]
            other = reference["referred_table"]
            loose = connection.exec_driver_sql(
                f'SELECT DISTINCT a."{column}" FROM "{table}" a LEFT JOIN "{other}" b '
                f'ON a."{column}" = b."{to}" WHERE a."{column}" IS NOT NULL AND b."{to}" IS NULL ORDER BY 1'
            )
            found += [
                f"table {table}, {column} {row[0]}: it refers to a row of {other} that is not there"
                for row in loose
            ]
    return found
