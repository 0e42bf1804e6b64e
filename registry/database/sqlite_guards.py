"""Guards on SQLite: the text of each trigger, which the database keeps as it was written."""

from sqlalchemy import Connection

from registry.database.guard import Guard


def before_all() -> tuple[str, ...]:
    """Nothing: triggers need no functions here."""
    return ()


def needs(guard: Guard) -> bool:
    """Whether there is such a guard here; SQLite knows no TRUNCATE."""
    return guard.action != "truncate"


def statements(guard: Guard) -> tuple[str, ...]:
    """Makes this guard in the place of the one that is there."""
    return f"DROP TRIGGER IF EXISTS {guard.name}", _text(guard)


def expected(guard: Guard) -> tuple[str, str]:
    """The guard as `found` finds it."""
    return guard.table, _text(guard)


def found(connection: Connection) -> dict[str, tuple[str, str]]:
    """Every trigger by its name: its table and its text."""
    query = "SELECT name, tbl_name, sql FROM sqlite_master WHERE type = 'trigger'"
    return {name: (table, text) for name, table, text in connection.exec_driver_sql(query)}


def _text(guard: Guard) -> str:
    condition = _when(guard)
    when = "" if condition is None else f"WHEN {condition} "
    return (
        f"CREATE TRIGGER {guard.name} BEFORE {guard.action.upper()} ON {guard.table} {when}"
        f"BEGIN SELECT RAISE(ABORT, 'rows of {guard.table} never change'); END"
    )


def _when(guard: Guard) -> str | None:
    """When it refuses; None for always."""
    if guard.change is not None:
        same = " AND ".join(f"NEW.{name} IS OLD.{name}" for name in guard.fixed)
        return f"({_CHANGES[guard.change]} AND {same}) IS NOT TRUE"
    if not guard.keys:
        return None
    # A row has a number beside its key, by which it can be replaced as well.
    keys = [("rowid",), *guard.keys]
    taken = " OR ".join(" AND ".join(f"{name} = NEW.{name}" for name in key) for key in keys)
    return f"EXISTS (SELECT 1 FROM {guard.table} WHERE {taken})"


_CHANGES = {
    "revocation": "OLD.revoked IS NULL AND NEW.revoked IS NOT NULL",
    "one event more": "NEW.events = OLD.events + 1",
}
