import shutil
import sqlite3
import threading
import time
from contextlib import closing

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from registry import migrate
from registry.database import open_database, reading
from registry.errors import DatabaseError, SchemaTooNew, SchemaTooOld
from registry.registry import upgrade
from registry.tables import SCHEMA, SCHEMA_TABLE, Table

SECOND = """
import sqlalchemy as sa
from alembic import op
revision, down_revision = "0002", "0001"
def upgrade():
    op.add_column("api_keys", sa.Column("scope", sa.String(10)))
"""

OPEN = """
import sys, time
from registry.registry import Registry
url, store, begin = sys.argv[1], sys.argv[2], float(sys.argv[3])
time.sleep(max(0, begin - time.time()))
with Registry.open(url, store) as registry:
    print(len(registry.versions()))
"""


def execute(places, statement, *values):
    with closing(sqlite3.connect(places.database)) as connection, connection:
        return connection.execute(statement, values).fetchall()


@pytest.fixture
def next_schema(monkeypatch, tmp_path):
    """Makes this dermfed one that needs a second migration."""

    def advance():
        folder = tmp_path / "migrations"
        shutil.copytree(migrate.MIGRATIONS, folder)
        (folder / "versions" / "0002_scope.py").write_text(SECOND)
        monkeypatch.setattr(migrate, "MIGRATIONS", folder)
        monkeypatch.setattr(migrate, "SCHEMA", "0002")

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
    execute(places, "ALTER TABLE events DROP COLUMN reason")
    assert ["reason" in problem.text for problem in registry.verify()] == [True]


def test_opening_again_changes_nothing(places):
    places.open().close()
    before = execute(places, "SELECT * FROM schema_changes")
    places.open().close()
    assert execute(places, "SELECT * FROM schema_changes") == before
    assert [row[:2] for row in before] == [(SCHEMA, "0.1.0")]


def test_eight_processes_open_a_fresh_database_at_once(places, start):
    begin = time.time() + 4
    started = [start(OPEN, places.url, places.store, begin) for _ in range(8)]
    ended = [(*process.communicate(timeout=60), process.returncode) for process in started]
    assert ended == [("0\n", "", 0)] * 8
    assert execute(places, f"SELECT * FROM {SCHEMA_TABLE}") == [(SCHEMA,)]
    assert len(execute(places, "SELECT * FROM schema_changes")) == 1


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
    execute(places, "UPDATE dermfed_schema SET version_num = '0007'")
    execute(places, "INSERT INTO schema_changes VALUES ('0007', '3.2.1', '2030-01-01T00:00:00+00:00')")
    for ask in (places.open, lambda: upgrade(places.url)):
        with pytest.raises(SchemaTooNew, match=r"schema 0007.*Install dermfed 3\.2\.1 or newer"):
            ask()
    ended = command("list")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("SchemaTooNew: ")
    execute(places, "DROP TABLE schema_changes")
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

    assert command("upgrade").out == "schema 0001 -> 0002\n"
    assert command("upgrade").out == "schema 0002 already\n"
    with places.open() as registry:
        assert registry.versions() == versions
    assert execute(places, "SELECT scope FROM api_keys") == []
    assert [row[0] for row in execute(places, "SELECT revision FROM schema_changes")] == ["0001", "0002"]


def test_a_migration_that_fails_leaves_the_database_as_it_was(places, next_schema):
    places.open().close()
    before = execute(places, "SELECT sql FROM sqlite_master")
    next_schema()
    broken = SECOND + '    op.drop_table("no_such_table")\n'
    (migrate.MIGRATIONS / "versions" / "0002_scope.py").write_text(broken)
    with pytest.raises(DatabaseError, match="no_such_table"):
        upgrade(places.url)
    assert execute(places, "SELECT sql FROM sqlite_master") == before


def test_upgrade_makes_a_new_database(places):
    assert upgrade(places.url) == (None, SCHEMA)
    places.open().close()


def test_a_database_of_something_else_is_left_alone(places):
    places.database.parent.mkdir()
    execute(places, "CREATE TABLE patients (name TEXT)")
    for ask in (places.open, lambda: upgrade(places.url)):
        with pytest.raises(DatabaseError, match=r"other tables \(patients\)"):
            ask()
    assert execute(places, "SELECT name FROM sqlite_master") == [("patients",)]
