"""The database refuses to change what never changes, and a guard that was taken away or emptied is told."""

import re
import sqlite3
import uuid
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from registry.database import migrate
from registry.database.connection import open_database, reading, writing
from registry.database.guards import CHANGES, all_guards, weak_guards
from registry.database.tables import GUARDED, SCHEMA, Table
from registry.errors import DatabaseError
from registry.gates import GateSet, SpreadGate
from registry.registry import Registry, upgrade

MODEL = "skin-lesion"
NOW = "2026-01-01T00:00:00.000000+00:00"
ROWS = {
    "gate_sets": {"id": 1, "model": "", "number": 1, "created": NOW, "actor": "a", "content": "{}"},
    "signatures": {"version_id": 1, "object": "sha256:0", "identity": "a", "created": NOW},
    "withdrawals": {"version_id": 2, "reason": "worse", "created": NOW},
    "people": {"id": 1, "name": "anna", "fingerprint": "sha256:1", "public_key": "k", "roles": '["operator"]',
               "created": NOW},
}  # fmt: skip
NEVER = r"rows of \w+ never change"


@pytest.fixture
def filled(registry, places, bundle, dark):
    """A registry with a row in every table; gives the engine of its database."""
    registry.add([bundle(), bundle(dark)])
    registry.promote(MODEL, [1, 2], to="production", override_gates=True, reason="the first")
    engine = open_database(places.url)
    with writing(engine) as connection:
        for table, row in ROWS.items():
            names = ", ".join(row)
            marks = ", ".join(f":{name}" for name in row)
            connection.execute(text(f"INSERT INTO {table} ({names}) VALUES ({marks})"), row)
    yield engine
    engine.dispose()


def refused(engine, statement):
    with pytest.raises(DatabaseError, match=NEVER), writing(engine) as connection:
        connection.exec_driver_sql(statement)


def columns(table):
    return [column.name for column in Table.metadata.tables[table].columns]


@pytest.mark.parametrize("table", [*GUARDED, *CHANGES])
def test_no_row_of_what_never_changes_is_changed_or_removed(filled, places, table):
    before = places.content()
    assert before[table]
    for column in columns(table):
        other = {"events": "events + 2", "overridden": "NOT overridden"}.get(column, column)
        refused(filled, f"UPDATE {table} SET {column} = {other}")
    refused(filled, f"DELETE FROM {table}")
    if not places.is_sqlite:
        refused(filled, f"TRUNCATE {table} CASCADE")
    assert places.content() == before


@pytest.mark.sqlite
@pytest.mark.parametrize("verb", ["INSERT OR REPLACE", "REPLACE", "INSERT OR IGNORE", "INSERT"])
@pytest.mark.parametrize("table", [*GUARDED, *CHANGES])
def test_no_row_takes_the_place_of_another(filled, places, table, verb):
    before = places.content()
    refused(filled, f"{verb} INTO {table} SELECT * FROM {table}")
    key, *_ = [one.name for one in Table.metadata.tables[table].primary_key.columns]
    names = [name for name in columns(table) if name != key]
    for guard in all_guards():
        for unique in guard.keys if (guard.table, guard.action) == (table, "insert") else ():
            values = ", ".join(name if name in unique else f"({name} || '9')" for name in names)
            same = key if key in unique else f"({key} || '9')"
            refused(
                filled,
                f"{verb} INTO {table} ({key}, {', '.join(names)}) SELECT {same}, {values} FROM {table}",
            )
    assert places.content() == before


@pytest.mark.sqlite
@pytest.mark.parametrize("table", ["release_members", "signatures", "schema_changes"])
def test_no_row_takes_the_place_of_another_by_its_number(filled, places, table):
    before = places.content()
    names = columns(table)
    values = [f"({name} || '9')" if name in ("subgroup", "object", "revision") else name for name in names]
    row = f"SELECT rowid, {', '.join(values)} FROM {table}"
    refused(filled, f"INSERT OR REPLACE INTO {table} (rowid, {', '.join(names)}) {row}")
    assert places.content() == before


@pytest.mark.parametrize(
    ("table", "key"), [("events", "id"), ("versions", "model, number"), ("people", "id")]
)
def test_an_insertion_that_turns_into_a_change_is_refused(filled, places, table, key):
    before = places.content()
    where = "WHERE true " if places.is_sqlite else ""
    column = {"events": "actor", "versions": "scale", "people": "name"}[table]
    refused(
        filled,
        f"INSERT INTO {table} SELECT * FROM {table} {where}ON CONFLICT ({key}) DO UPDATE SET {column} = 'x'",
    )
    assert places.content() == before


@pytest.mark.parametrize(
    ("change", "allowed"),
    [
        (f"revoked = '{NOW}'", True),
        (f"revoked = '{NOW}', name = 'ben'", False),
        (f"revoked = '{NOW}', roles = '[\"approver\"]'", False),
        (f"revoked = '{NOW}', public_key = 'mine'", False),
        ("name = 'ben'", False),
        ("revoked = NULL", False),
    ],
)
def test_a_person_may_be_revoked_and_nothing_else(filled, change, allowed):
    statement = f"UPDATE people SET {change}"
    if not allowed:
        refused(filled, statement)
        return
    with writing(filled) as connection:
        connection.exec_driver_sql(statement)
    refused(filled, statement)  # once
    refused(filled, "UPDATE people SET revoked = NULL")


@pytest.mark.parametrize("events", ["events", "events - 1", "events + 2", "0"])
def test_the_head_moves_by_one_event_at_a_time(filled, places, events):
    refused(filled, f"UPDATE audit_head SET events = {events}, hash = 'x'")
    refused(filled, "UPDATE audit_head SET events = events + 1, id = 2")
    refused(filled, "INSERT INTO audit_head VALUES (2, 9, 'x')")


@pytest.fixture
def server(migrated_database, tmp_path, bundle):
    """The engine of a PostgreSQL database of a registry with a version, and the registry."""
    with Registry.open(migrated_database, str(tmp_path / "store"), actor="tester") as registry:
        registry.add([bundle()])
        engine = open_database(migrated_database)
        yield engine, registry
        engine.dispose()


def test_a_session_that_plays_a_replica_is_refused_too(server):
    engine, registry = server
    for change in ("UPDATE events SET actor = 'x'", "DELETE FROM versions", "TRUNCATE versions CASCADE"):
        refused(engine, f"SET session_replication_role = replica; {change}")
    assert registry.verify() == ()


def told(registry):
    return [f"{one.about}: {one.text}".split(";")[0] for one in registry.verify()]


HEAD = "CREATE TRIGGER guard_events_delete BEFORE DELETE ON events"
REFUSE = "SELECT RAISE(ABORT, 'rows of events never change')"
GONE = "table events: its guard against DELETE is gone"
OTHER = "table events: its guard against {} is not the one that dermfed makes"


@pytest.mark.sqlite
@pytest.mark.parametrize(
    ("statement", "change", "problem"),
    [
        ("DROP TRIGGER guard_events_delete", "DELETE FROM events", GONE),
        (f"{HEAD} WHEN false BEGIN {REFUSE}; END", "DELETE FROM events", OTHER.format("DELETE")),
        (f"{HEAD} BEGIN {REFUSE} WHERE false; END", "DELETE FROM events", OTHER.format("DELETE")),
        (
            f"CREATE TRIGGER guard_events_update BEFORE UPDATE OF id ON events BEGIN {REFUSE}; END",
            "UPDATE events SET actor = 'x'",
            OTHER.format("UPDATE"),
        ),
        (
            f"CREATE TRIGGER guard_events_insert BEFORE INSERT ON events WHEN NEW.id = 0 BEGIN {REFUSE}; END",
            "REPLACE INTO events SELECT * FROM events",
            OTHER.format("INSERT"),
        ),
        (
            "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = replace(sql, 'never change'')', "
            "'never change'') WHERE false') WHERE name = 'guard_events_delete'",
            "DELETE FROM events",
            OTHER.format("DELETE"),
        ),
        (
            "PRAGMA writable_schema = ON; DELETE FROM sqlite_master WHERE name = 'guard_events_delete'",
            "DELETE FROM events",
            GONE,
        ),
    ],
)
def test_a_guard_that_was_weakened_is_told(registry, places, bundle, statement, change, problem):
    registry.add([bundle()])
    name = statement.partition("TRIGGER ")[2].partition(" ")[0]
    with closing(sqlite3.connect(places.database)) as connection:
        if statement.startswith("CREATE"):
            statement = f"DROP TRIGGER {name}; {statement}"
        connection.executescript(f"{statement};")
    assert told(registry) == [problem]
    with closing(sqlite3.connect(places.database)) as connection:
        connection.execute(change)  # what it was there to refuse


SAME = "CREATE TRIGGER guard_events_delete BEFORE DELETE ON events FOR EACH ROW"


@pytest.mark.parametrize(
    ("statements", "problems"),
    [
        (["DROP TRIGGER guard_events_delete ON events"], [GONE]),
        (["ALTER TABLE events DISABLE TRIGGER guard_events_delete"], [OTHER.format("DELETE")]),
        (["ALTER TABLE events ENABLE TRIGGER guard_events_delete"], [OTHER.format("DELETE")]),
        (["ALTER TABLE events ENABLE REPLICA TRIGGER guard_events_delete"], [OTHER.format("DELETE")]),
        (
            [
                "DROP TRIGGER guard_events_delete ON events",
                f"{SAME} WHEN (OLD.id < 0) EXECUTE FUNCTION dermfed_refuse()",
                "ALTER TABLE events ENABLE ALWAYS TRIGGER guard_events_delete",
            ],
            [OTHER.format("DELETE")],
        ),
        (
            [
                "DROP TRIGGER guard_events_update ON events",
                "CREATE TRIGGER guard_events_update BEFORE UPDATE OF id ON events FOR EACH ROW "
                "EXECUTE FUNCTION dermfed_refuse()",
                "ALTER TABLE events ENABLE ALWAYS TRIGGER guard_events_update",
            ],
            [OTHER.format("UPDATE")],
        ),
        (
            [
                "DROP TRIGGER guard_events_delete ON events",
                "CREATE SCHEMA other",
                "CREATE FUNCTION other.dermfed_refuse() RETURNS trigger LANGUAGE plpgsql "
                "SET search_path=pg_catalog AS $$BEGIN RETURN OLD; END$$",
                f"{SAME} EXECUTE FUNCTION other.dermfed_refuse()",
                "ALTER TABLE events ENABLE ALWAYS TRIGGER guard_events_delete",
            ],
            [OTHER.format("DELETE")],
        ),
        (
            [
                "CREATE OR REPLACE FUNCTION dermfed_one_event_more() RETURNS trigger LANGUAGE plpgsql "
                "SET search_path=pg_catalog AS $$BEGIN RETURN NEW; END$$"
            ],
            ["table audit_head: its guard against UPDATE is not the one that dermfed makes"],
        ),
        (
            ["ALTER FUNCTION dermfed_revocation_alone() RESET search_path"],
            ["table people: its guard against UPDATE is not the one that dermfed makes"],
        ),
    ],
)
def test_a_guard_of_a_server_that_was_weakened_is_told(server, statements, problems):
    engine, registry = server
    with writing(engine) as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
    assert told(registry) == problems


def test_a_function_of_guards_that_was_emptied_is_told_for_each(server):
    engine, registry = server
    with writing(engine) as connection:
        connection.exec_driver_sql(
            "CREATE OR REPLACE FUNCTION dermfed_refuse() RETURNS trigger LANGUAGE plpgsql "
            "AS $$ BEGIN RETURN NEW; END $$"
        )
    problems = told(registry)
    assert {problem.split(":")[0] for problem in problems} == {
        f"table {name}" for name in (*GUARDED, *CHANGES)
    }
    assert all("not the one that dermfed makes" in problem for problem in problems)


def test_guards_that_were_taken_away_from_an_older_schema_are_there_after_an_upgrade(places, monkeypatch):
    with monkeypatch.context() as old:
        old.setattr(migrate, "SCHEMA", "0004")
        engine = open_database(places.url)
        migrate.ensure_schema(engine)
    with writing(engine) as connection:
        connection.exec_driver_sql(
            "DROP TRIGGER guard_events_delete" + ("" if places.is_sqlite else " ON events")
        )
    assert upgrade(places.url) == ("0004", SCHEMA)
    with reading(engine) as connection:
        assert list(weak_guards(connection)) == []
    engine.dispose()


PAGE = (Path(__file__).parents[3] / "docs" / "registry.md").read_text()
(GRANTS,) = re.findall(r"```sql\n(GRANT.*?)```", PAGE, flags=re.DOTALL)


@pytest.fixture
def clerk(server, postgres):
    """The address of the server's database for a user who owns no table, with the rights of the docs."""
    engine, _ = server
    name = f"clerk_{uuid.uuid4().hex[:12]}"
    postgres(f"CREATE ROLE {name} LOGIN")
    with writing(engine) as connection:
        for statement in GRANTS.replace("TO dermfed", f"TO {name}").split(";"):
            if statement.strip():
                connection.exec_driver_sql(statement)
    yield engine.url.set(drivername="postgresql", username=name).render_as_string(hide_password=False)
    with writing(engine) as connection:
        connection.exec_driver_sql(f"DROP OWNED BY {name}")
    postgres(f"DROP ROLE {name}")


def test_a_user_who_owns_no_table_can_work_and_take_no_guard_away(server, clerk, bundle, dark, key, tmp_path):
    with Registry.open(clerk, str(tmp_path / "store"), actor="clerk") as registry:
        registry.add([bundle(dark)])
        registry.approve(MODEL, [1, 2], to="production")
        registry.promote(MODEL, [1, 2], to="production", override_gates=True, reason="the first")
        registry.set_gates(GateSet(gates=(SpreadGate(limit=0.2),)), reason="a try")
        registry.revoke_key(registry.create_key("ward")[0].id)
        registry.tag(MODEL, 1, ["reviewed"])
        registry.untag(MODEL, 1, ["reviewed"])
        registry.promote(MODEL, [1], to="staging", override_gates=True, reason="a try")
        registry.stop(MODEL, alias="staging", reason="a try")
        signatories = {name: key(name) for name in ("anna", "ben")}
        registry.add_person("anna", tmp_path / "anna.pub", roles=["operator"])
        signed = registry.signed_by(signatories["anna"])
        signed.add_person("ben", tmp_path / "ben.pub", roles=["approver"])
        signed.revoke_person("ben")
        assert registry.verify() == ()
    engine = open_database(clerk)
    for statement in (
        "DROP TRIGGER guard_events_delete ON events",
        "ALTER TABLE events DISABLE TRIGGER guard_events_delete",
        "CREATE OR REPLACE FUNCTION dermfed_refuse() RETURNS trigger LANGUAGE plpgsql "
        "AS 'BEGIN RETURN NEW; END'",
        "SET session_replication_role = replica",
        "UPDATE events SET actor = 'x'",
        "DELETE FROM events",
        "TRUNCATE events CASCADE",
        "ALTER TABLE events ALTER actor TYPE text USING 'x'",
    ):
        with (
            pytest.raises(DatabaseError, match=r"permission denied|must be owner"),
            writing(engine) as connection,
        ):
            connection.exec_driver_sql(statement)
    engine.dispose()
