"""Guards on PostgreSQL: triggers that call a function, which are found by all that the server knows of both.

They are enabled ALWAYS, so that a session that plays a replica (`session_replication_role`) meets them, too.
Every function has a search path of its own: no operator of another schema is called in it.
"""

from typing import Any, Final

from sqlalchemy import Connection

from registry.database.guard import Guard

_REFUSE: Final = "RAISE EXCEPTION 'rows of % never change', TG_TABLE_NAME;"
_FUNCTIONS: Final = {
    None: ("dermfed_refuse", f"BEGIN {_REFUSE} END"),
    "revocation": (
        "dermfed_revocation_alone",
        "BEGIN IF OLD.revoked IS NULL AND NEW.revoked IS NOT NULL AND "
        f"to_jsonb(NEW) - 'revoked' = to_jsonb(OLD) - 'revoked' THEN RETURN NEW; END IF; {_REFUSE} END",
    ),
    "one event more": (
        "dermfed_one_event_more",
        f"BEGIN IF NEW.events = OLD.events + 1 AND NEW.id = OLD.id THEN RETURN NEW; END IF; {_REFUSE} END",
    ),
}
_PATH: Final = "search_path=pg_catalog"

# `tgtype` of triggers: bits, see src/include/catalog/pg_trigger.h of PostgreSQL.
_EACH_ROW, _BEFORE = 1, 2
_ACTIONS: Final = {"insert": 4, "delete": 8, "update": 16, "truncate": 32}


def before_all() -> tuple[str, ...]:
    """Makes the functions that the triggers call."""
    return tuple(
        f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql SET {_PATH} AS $${source}$$"
        for name, source in _FUNCTIONS.values()
    )


def needs(guard: Guard) -> bool:
    """Whether there is such a guard here; nothing takes the place of a row but by the guard of updates."""
    return guard.action != "insert" or not guard.keys


def statements(guard: Guard) -> tuple[str, ...]:
    """Makes this guard in the place of the one that is there."""
    name, _ = _FUNCTIONS[guard.change]
    each = "STATEMENT" if guard.action == "truncate" else "ROW"
    return (
        f"DROP TRIGGER IF EXISTS {guard.name} ON {guard.table}",
        f"CREATE TRIGGER {guard.name} BEFORE {guard.action.upper()} ON {guard.table} "
        f"FOR EACH {each} EXECUTE FUNCTION {name}()",
        f"ALTER TABLE {guard.table} ENABLE ALWAYS TRIGGER {guard.name}",
    )


def expected(guard: Guard) -> tuple[Any, ...]:
    """The guard as `found` finds it."""
    each = 0 if guard.action == "truncate" else _EACH_ROW
    name, source = _FUNCTIONS[guard.change]
    kind = each | _BEFORE | _ACTIONS[guard.action]
    return (guard.table, "A", kind, True, "", name, source, "plpgsql", [_PATH], False)


def found(connection: Connection) -> dict[str, tuple[Any, ...]]:
    """Every trigger by its name, with all that decides whether and what it refuses."""
    query = """
        SELECT t.tgname, c.relname, t.tgenabled::text, t.tgtype, t.tgqual IS NULL, t.tgattr::text,
               p.proname, p.prosrc, l.lanname, p.proconfig, p.prosecdef
        FROM pg_trigger t
        JOIN pg_class c ON c.oid = t.tgrelid
        JOIN pg_proc p ON p.oid = t.tgfoid
        JOIN pg_language l ON l.oid = p.prolang
        WHERE NOT t.tgisinternal AND pg_table_is_visible(c.oid)
    """
    return {row[0]: tuple(row[1:]) for row in connection.exec_driver_sql(query)}
