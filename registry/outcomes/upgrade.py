"""The tables of a database of outcomes: made where there are none, and brought up from the schema before.

A database of the schema before is upgraded by whoever opens it first and may write: what was added is beside
what was there, and no row is changed. An older dermfed refuses it from then on.
"""

import uuid

from sqlalchemy import Connection, Engine, insert, inspect, select, update

from registry.database.connection import reading, url_text, writing
from registry.errors import DatabaseError, SchemaTooNew
from registry.outcomes.tables import SCHEMA, AlarmRow, IdentityRow, SchemaRow, Table


def ensure_tables(engine: Engine, *, create: bool) -> None:
    """Brings a database to the schema of this dermfed.

    Args:
        engine: of the database.
        create: whether an empty one gets its tables; else it is refused.

    Raises:
        SchemaTooNew: a newer dermfed made it.
        DatabaseError: it is empty, holds other tables, or cannot be read or upgraded.
    """
    with reading(engine) as connection:
        found = _schema(connection)
    if found is None and not create:
        raise DatabaseError(
            f"the database {url_text(engine.url)} is empty; name the one that the service writes to"
        )
    if found == SCHEMA:
        return
    with writing(engine) as connection:
        found = _schema(connection)  # another process may have been first
        if found is None:
            Table.metadata.create_all(connection)
            connection.execute(insert(SchemaRow).values(number=SCHEMA))
            _name(connection)
        elif found < SCHEMA:
            Table.metadata.create_all(connection, [IdentityRow.__table__, AlarmRow.__table__])  # type: ignore[list-item]
            _name(connection)
            connection.execute(update(SchemaRow).values(number=SCHEMA))


def _name(connection: Connection) -> None:
    connection.execute(insert(IdentityRow).values(number=1, identity=uuid.uuid4().hex))


def _schema(connection: Connection) -> int | None:
    """The number of the schema; None of an empty database."""
    tables = inspect(connection).get_table_names()
    if not tables:
        return None
    if SchemaRow.__tablename__ not in tables:
        raise DatabaseError(
            f"the database {url_text(connection.engine.url)} holds other tables ({', '.join(tables[:5])}); "
            "name one for outcomes alone"
        )
    found = connection.scalar(select(SchemaRow.number))
    if found is None:
        raise DatabaseError(f"the database {url_text(connection.engine.url)} does not say its schema")
    if found > SCHEMA:
        raise SchemaTooNew(
            f"the database {url_text(connection.engine.url)} has schema {found} of outcomes; this dermfed "
            f"reads up to {SCHEMA}: install a newer dermfed"
        )
    return int(found)
