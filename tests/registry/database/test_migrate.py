import json
import shutil
import sqlite3
import threading
from contextlib import closing

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

from registry.database import migrate
from registry.database.connection import open_database, reading, writing
from registry.database.guards import weak_guards
from registry.database.hash_chain import GENESIS, event_hash
from registry.database.tables import SCHEMA, SCHEMA_TABLE, Table
from registry.errors import DatabaseError, SchemaTooNew, SchemaTooOld
from registry.records import SCOPES_AT_FIRST
from registry.registry import Registry, upgrade
from registry.store.owner_file import OWNER_FILE

MODEL = "skin-lesion"

AFTER = f"{int(SCHEMA) + 1:04}"  # the schema of a dermfed to come
NEXT = f"""
import sqlalchemy as sa
from alembic import op
revision, down_revision = "{AFTER}", "{SCHEMA}"
def upgrade():
    op.add_column("api_keys", sa.Column("colour", sa.String(10)))
"""

OPEN = """
import os, sys
import alembic.config, alembic.runtime.environment, alembic.script
from registry.registry import Registry
for _ in range(8):
    if os.fork() == 0:
        break
else:
    sys.exit(sum(os.wait()[1] != 0 for _ in range(8)))
with Registry.open(*sys.argv[1:]) as registry:
    os.write(1, f"{len(registry.versions())}\\n".encode())  # in one piece
"""

# What the first dermfed kept, and in which order it can be written.
FIRST = {
    "versions": "id, model, number, digest, model_digest, subgroup, scale, tones, created",
    "releases": "id, model, created",
    "release_members": "release_id, subgroup, version_id",
    "aliases": "model, alias, release_id",
    "events": "id, time, actor, kind, model, alias, versions, release_id, before_id, reason, gates, "
    "overridden",
    "api_keys": "id, name, sha256, created, revoked",
}
# What the next one kept, beside its chain's end; and what its events said of keys.
SECOND = {
    **FIRST,
    "events": FIRST["events"] + ", host, details, previous, hash",
    "gate_sets": "id, model, number, created, actor, content",
}
JSON = ("versions", "gates", "details")
KEY_FACTS = ("id", "name", "sha256", "created", "revoked")


def shape(places):
    """Every column of every table."""
    if places.is_sqlite:
        return places.rows("SELECT sql FROM sqlite_master")
    query = "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns "
    return places.rows(query + "WHERE table_schema = 'public' ORDER BY 1, 2")


@pytest.fixture
def filled(places, tmp_path, bundle, dark):
    """A database of this dermfed with all that an older one could hold; gives its file and what it holds."""
    file = tmp_path / "new.db"
    with Registry.open(f"sqlite:///{file}", str(places.store), actor="before") as registry:
        registry.add([bundle(), bundle(dark), bundle(seed=2)])
        registry.promote(MODEL, [1, 2], to="production", override_gates=True, reason="the first")
        registry.promote(MODEL, [3], to="production", override_gates=True, reason="quoted 'é'")
        registry.rollback(MODEL, alias="production")
        key, _ = registry.create_key("ward", scopes=SCOPES_AT_FIRST)
        registry.create_key("office", scopes=SCOPES_AT_FIRST)
        registry.revoke_key(key.id)
        held = registry.versions(), registry.aliases(MODEL), registry.history(MODEL), registry.keys()
    (places.store / OWNER_FILE).unlink()  # stores of then did not say whose they are
    return file, held


def write_schema(monkeypatch, places, schema, tables):
    """Makes a database of an older schema and writes these rows, by table."""
    with monkeypatch.context() as old:
        old.setattr(migrate, "SCHEMA", schema)
        engine = open_database(places.url)
        migrate.ensure_schema(engine)
    with writing(engine) as connection:
        for table, rows in tables.items():
            for row in rows:
                marks = ", ".join(f":{name}" for name in row)
                values = {**row, "overridden": bool(row["overridden"])} if "overridden" in row else row
                connection.execute(text(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})"), values)
        if not places.is_sqlite:  # as if the server had given out these numbers
            for table in ("versions", "releases", "events"):
                count = f"setval(pg_get_serial_sequence('{table}', 'id'), max(id))"
                connection.execute(text(f"SELECT {count} FROM {table}"))
    engine.dispose()


def rows_of(file, columns):
    """The rows of each table, these columns alone."""
    with closing(sqlite3.connect(file)) as connection:
        return {
            table: [
                dict(zip(names.split(", "), row, strict=True))
                for row in connection.execute(f"SELECT {names} FROM {table}")
            ]
            for table, names in columns.items()
        }


@pytest.fixture
def first_schema(monkeypatch, places, filled):
    """A registry as the first dermfed left it; gives what it holds."""
    file, held = filled
    tables = rows_of(file, FIRST)
    # The first dermfed had no events of keys.
    tables["events"] = [one for one in tables["events"] if not one["kind"].startswith("key")]
    write_schema(monkeypatch, places, "0001", tables)
    return held


@pytest.fixture
def second_schema(monkeypatch, places, filled):
    """A registry as the dermfed before scopes left it; gives what it holds."""
    file, held = filled
    tables = rows_of(file, SECOND)
    last = GENESIS
    for event in tables["events"]:
        facts = {name: json.loads(fact) if name in JSON and fact else fact for name, fact in event.items()}
        facts["overridden"] = bool(facts["overridden"])
        if facts["kind"].startswith("key"):
            facts["details"] = {name: fact for name, fact in facts["details"].items() if name in KEY_FACTS}
        facts["previous"] = last
        last = event_hash(facts)
        event |= {"details": json.dumps(facts["details"]), "previous": facts["previous"], "hash": last}
    write_schema(monkeypatch, places, "0002", tables)
    places.tamper(f"UPDATE audit_head SET events = {len(tables['events'])}, hash = '{last}'")
    return held


def test_a_registry_of_the_first_schema_is_upgraded_and_chained(places, command, first_schema):
    versions, aliases, history, keys = first_schema
    with pytest.raises(SchemaTooOld, match=r"schema 0001.*run `dermfed-registry upgrade`"):
        places.open()
    assert command("upgrade").out == f"schema 0001 -> {SCHEMA}\n"
    with places.open() as registry:
        assert registry.verify() == ()
        assert registry.versions() == versions
        assert registry.aliases(MODEL) == aliases
        assert registry.keys() == keys
        kept = registry.history(MODEL)
        for before, after in zip(history, kept, strict=True):
            same = (
                "id",
                "time",
                "actor",
                "kind",
                "alias",
                "versions",
                "release",
                "before",
                "reason",
                "gates",
            )
            assert [getattr(after, name) for name in same] == [getattr(before, name) for name in same]
            assert after.details == before.details  # what they say now is what they would have said
            assert after.host is None
        assert [event["kind"] for event in registry.audit()] == [
            *[event.kind for event in history], "key-created", "key-revoked", "key-created",
        ]  # fmt: skip
        event = registry.promote(MODEL, [3], to="staging", override_gates=True, reason="after")
        assert event.id == len(history) + 4
        assert registry.verify() == ()


def test_a_registry_of_the_second_schema_is_upgraded_and_its_chain_left_alone(places, command, second_schema):
    versions, aliases, history, keys = second_schema
    with pytest.raises(SchemaTooOld, match=r"schema 0002.*run `dermfed-registry upgrade`"):
        places.open()
    before = places.content()
    assert len(before["api_keys"]) == 2
    assert command("upgrade").out == f"schema 0002 -> {SCHEMA}\n"
    after = places.content()
    changed = {SCHEMA_TABLE, "schema_changes", "api_keys"}
    assert {name for name in before if after[name] != before[name]} == changed
    assert after.keys() - before.keys() == {"registry_identity", "people", "withdrawals", "tags"}
    with places.open() as registry:
        assert registry.verify() == ()
        assert (registry.versions(), registry.aliases(MODEL)) == (versions, aliases)
        assert [one.details for one in registry.history(MODEL)] == [one.details for one in history]
        assert registry.keys() == keys
        assert {(one.scopes, one.expires, one.per_minute, one.replaces) for one in keys} == {
            (SCOPES_AT_FIRST, None, None, None)
        }
        done = registry.rotate_key(keys[1].id)
        assert done.key.scopes == SCOPES_AT_FIRST
        assert registry.verify() == ()
    with pytest.raises(DatabaseError, match="never change"):
        change(places, "UPDATE events SET actor = 'nobody'")


def change(places, statement):
    """Does a statement as the registry's own user."""
    engine = open_database(places.url)
    try:
        with writing(engine) as connection:
            connection.execute(text(statement))
    finally:
        engine.dispose()


@pytest.mark.parametrize("older", ["first_schema", "second_schema"])
def test_an_upgraded_database_has_the_tables_of_a_new_one(places, command, older, request):
    request.getfixturevalue(older)
    command("upgrade")
    engine = open_database(places.url)
    with reading(engine) as connection:
        assert migrate.schema_differences(connection) == []
        assert list(weak_guards(connection)) == []
    engine.dispose()


@pytest.mark.parametrize("older", ["0001", "0002"])
def test_an_empty_database_of_an_older_schema_is_upgraded(places, monkeypatch, older):
    with monkeypatch.context() as old:
        old.setattr(migrate, "SCHEMA", older)
        engine = open_database(places.url)
        migrate.ensure_schema(engine)
        engine.dispose()
    assert upgrade(places.url) == (older, SCHEMA)
    assert places.rows("SELECT id, events, hash FROM audit_head") == [(1, 0, GENESIS)]


@pytest.fixture
def next_schema(monkeypatch, tmp_path):
    """Makes this dermfed one that needs one more migration."""

    def advance():
        folder = tmp_path / "migrations"
        shutil.copytree(migrate.MIGRATIONS, folder)
        (folder / "versions" / f"{AFTER}_colour.py").write_text(NEXT)
        monkeypatch.setattr(migrate, "MIGRATIONS", folder)
        monkeypatch.setattr(migrate, "SCHEMA", AFTER)

    return advance


def test_the_migrations_make_the_tables_of_the_code(registry, places):
    engine = open_database(places.url)
    with reading(engine) as connection:
        context = MigrationContext.configure(connection, opts={"version_table": SCHEMA_TABLE})
        assert compare_metadata(context, Table.metadata) == []
    engine.dispose()


def test_the_newest_migration_is_the_one_the_code_needs():
    config = Config()
    config.set_main_option("script_location", str(migrate.MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_heads() == [SCHEMA]


def test_a_difference_between_tables_and_code_is_found(registry, places):
    places.tamper("ALTER TABLE events DROP COLUMN reason")
    assert ["reason" in problem.text for problem in registry.verify()] == [True]


def test_opening_again_changes_nothing(places):
    places.open().close()
    before = places.rows("SELECT * FROM schema_changes")
    places.open().close()
    assert places.rows("SELECT * FROM schema_changes") == before
    assert [row[:2] for row in before] == [(SCHEMA, "0.1.0")]


def test_eight_processes_open_a_fresh_database_at_once(places, start):
    process = start(OPEN, places.url, places.store)
    printed, errors = process.communicate(timeout=120)
    assert (process.returncode, printed, errors) == (0, "0\n" * 8, "")
    assert places.rows(f"SELECT * FROM {SCHEMA_TABLE}") == [(SCHEMA,)]
    assert len(places.rows("SELECT * FROM schema_changes")) == 1


@pytest.mark.sqlite
def test_a_database_that_another_one_is_writing_is_waited_for(places):
    places.database.parent.mkdir()
    other = sqlite3.connect(places.database, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")  # SQLite turns on its write-ahead log at once or not at all
    later = threading.Timer(0.5, lambda: other.execute("COMMIT"))
    later.start()
    places.open().close()
    later.join()
    other.close()


def test_a_newer_schema_is_refused_with_the_dermfed_it_needs(places, command):
    places.open().close()
    places.tamper("UPDATE dermfed_schema SET version_num = '0107'")
    places.tamper("INSERT INTO schema_changes VALUES ('0107', '3.2.1', '2030-01-01T00:00:00+00:00')")
    for ask in (places.open, lambda: upgrade(places.url)):
        with pytest.raises(SchemaTooNew, match=r"schema 0107.*Install dermfed 3\.2\.1 or newer"):
            ask()
    ended = command("list")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("SchemaTooNew: ")
    places.tamper("DROP TABLE schema_changes")
    with pytest.raises(SchemaTooNew, match="Install a newer dermfed"):
        places.open()


def test_an_older_schema_is_refused_until_it_is_upgraded(places, command, bundle, next_schema):
    with places.open() as registry:
        versions = registry.add([bundle()])
    next_schema()
    with pytest.raises(SchemaTooOld, match="run `dermfed-registry upgrade`"):
        places.open()
    ended = command("list")
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "dermfed-registry upgrade" in ended.err

    assert command("upgrade").out == f"schema {SCHEMA} -> {AFTER}\n"
    assert command("upgrade").out == f"schema {AFTER} already\n"
    with places.open() as registry:
        assert registry.versions() == versions
    assert places.rows("SELECT colour FROM api_keys") == []
    assert [row[0] for row in places.rows("SELECT revision FROM schema_changes")] == [SCHEMA, AFTER]


def test_a_migration_that_fails_leaves_the_database_as_it_was(places, next_schema):
    places.open().close()
    before = shape(places)
    next_schema()
    broken = NEXT + '    op.drop_table("no_such_table")\n'
    (migrate.MIGRATIONS / "versions" / f"{AFTER}_colour.py").write_text(broken)
    with pytest.raises(DatabaseError, match="no_such_table"):
        upgrade(places.url)
    assert shape(places) == before


def test_upgrade_makes_a_new_database(places):
    assert upgrade(places.url) == (None, SCHEMA)
    places.open().close()


def test_a_database_of_something_else_is_left_alone(places):
    places.tamper("CREATE TABLE patients (name TEXT)")
    for ask in (places.open, lambda: upgrade(places.url)):
        with pytest.raises(DatabaseError, match=r"other tables \(patients\)"):
            ask()
    assert list(places.content()) == ["patients"]
