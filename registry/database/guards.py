"""Guards: triggers by which the database refuses to change what never changes.

Rows of most tables never change; a person may be revoked, once; the head of the chain moves by one event at a
time. On SQLite an insertion that would take the place of a row (`INSERT OR REPLACE`) fires no trigger of
deletions, so there insertions are guarded by every unique key.

Each guard is compared as a whole with the one that dermfed makes, so that one that is there and does nothing
is found too. Whoever owns the database can take a guard away, change rows and put it back: that is for the
hash chain to find, and for a head that was kept elsewhere (`registry.audit.checkpoint`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Final, Literal

from sqlalchemy import Connection, UniqueConstraint, text

from registry.database import postgresql_guards, sqlite_guards
from registry.database.tables import GUARDED, Table

Action = Literal["insert", "update", "delete", "truncate"]
Change = Literal["revocation", "one event more"]

SINGLE: Final = ("registry_identity", "audit_head")
"""Tables of one row, which the migrations insert."""

CHANGES: Final[Mapping[str, tuple[Change, frozenset[str]]]] = {
    "people": ("revocation", frozenset({"revoked"})),
    "audit_head": ("one event more", frozenset({"events", "hash"})),
}
"""Tables beside `GUARDED`, and the one change that they take, of these columns."""


@dataclass(frozen=True)
class Guard:
    """One guard: against what, and on which table.

    Attributes:
        table: the table.
        action: what it refuses.
        keys: for an insertion: the columns of each unique key, of which a row that is there keeps its values;
            none where every insertion is refused.
        change: for an update: the one change that it lets pass; None for no change at all.
        fixed: for such a change: the columns that keep their values.
    """

    table: str
    action: Action
    keys: tuple[tuple[str, ...], ...] = ()
    change: Change | None = None
    fixed: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of its trigger."""
        return f"guard_{self.table}_{self.action}"


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
    """Makes every guard, in the place of those that are there."""
    on = _on(connection)
    for statement in on.before_all():
        connection.execute(text(statement))
    for guard in all_guards():
        if on.needs(guard):
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
