"""Guards: triggers by which the database refuses to change what never changes.

Rows of most tables never change; a person may be revoked, once; the head of the chain moves by one event at a
time. On SQLite an insertion that would take the place of a row (`INSERT OR REPLACE`) fires no trigger of
deletions, so there insertions are guarded by every unique key.

Each guard is compared as a whole with the one that dermfed makes, so that one that is there and does nothing
is found too. Whoever owns the database can take a guard away, change rows and put it back: that is for the
hash chain to find, and for a head that was kept elsewhere (`registry.audit.checkpoint`).
"""

from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Final

from sqlalchemy import Connection, UniqueConstraint, inspect, text

from registry.database import postgresql_guards, sqlite_guards
from registry.database.guard import Change, Guard
from registry.database.tables import GUARDED, Table

SINGLE: Final = ("registry_identity", "audit_head")
"""Tables of one row, which the migrations insert."""

CHANGES: Final[Mapping[str, tuple[Change, frozenset[str]]]] = {
    "people": ("revocation", frozenset({"revoked"})),
    "audit_head": ("one event more", frozenset({"events", "hash"})),
}
"""Tables beside `GUARDED`, and the one change that they take, of these columns."""


def all_guards() -> tuple[Guard, ...]:
    """Every guard; a database has those that it needs, see `needs`."""
    found = []
    for name in (*GUARDED, *CHANGES):
        table = Table.metadata.tables[name]
        keys = [tuple(column.name for column in table.primary_key.columns)]
        keys += sorted(
            tuple(column.name for column in one.columns)
            for one in table.constraints
            if isinstance(one, UniqueConstraint)
        )
        change, columns = CHANGES.get(name, (None, frozenset()))
        fixed = tuple(column.name for column in table.columns if column.name not in columns) if change else ()
        found += [
            Guard(name, "insert", () if name in SINGLE else tuple(keys)),
            Guard(name, "update", change=change, fixed=fixed),
            Guard(name, "delete"),
            Guard(name, "truncate"),
        ]
    return tuple(found)


def install_guards(connection: Connection) -> None:
    """Makes the guards of all tables that are there, in the place of those that they have."""
    on = _on(connection)
    tables = inspect(connection).get_table_names()
    for statement in on.before_all():
        connection.execute(text(statement))
    for guard in all_guards():
        if on.needs(guard) and guard.table in tables:
            for statement in on.statements(guard):
                connection.execute(text(statement))


def weak_guards(connection: Connection) -> Iterator[tuple[Guard, str]]:
    """Finds the guards that are `gone`, and those that are `not the one that dermfed makes`."""
    on = _on(connection)
    found = on.found(connection)
    for guard in all_guards():
        if not on.needs(guard):
            continue
        if guard.name not in found:
            yield guard, "gone"
        elif found[guard.name] != on.expected(guard):
            yield guard, "not the one that dermfed makes"


def _on(connection: Connection) -> ModuleType:
    return sqlite_guards if connection.dialect.name == "sqlite" else postgresql_guards
