import sqlite3
import threading

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from registry.database.connection import open_database, reading
from registry.database.tables import SCHEMA, SCHEMA_TABLE, Table
from registry.errors import DatabaseError, OtherSchema

pytestmark = pytest.mark.both_databases

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


def test_the_baseline_makes_the_tables_of_the_code(registry, places):
    engine = open_database(places.url)
    with reading(engine) as connection:
        context = MigrationContext.configure(connection, opts={"version_table": SCHEMA_TABLE})
        assert compare_metadata(context, Table.metadata) == []
    engine.dispose()
    assert places.rows(f"SELECT * FROM {SCHEMA_TABLE}") == [(SCHEMA,)]


def test_opening_again_changes_nothing(places):
    places.open().close()
    before = places.content()
    places.open().close()
    assert places.content() == before


@pytest.mark.long
def test_eight_processes_open_a_fresh_database_at_once(places, start):
    process = start(OPEN, places.url, places.store)
    printed, errors = process.communicate(timeout=120)
    assert (process.returncode, printed, errors) == (0, "0\n" * 8, "")
    assert places.rows(f"SELECT * FROM {SCHEMA_TABLE}") == [(SCHEMA,)]


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


@pytest.mark.parametrize("schema", ["0005", "2"])
def test_another_schema_is_refused(places, command, schema):
    places.open().close()
    places.tamper(f"UPDATE {SCHEMA_TABLE} SET version_num = '{schema}'")
    with pytest.raises(OtherSchema, match=f"has schema {schema}; this dermfed reads {SCHEMA} alone"):
        places.open()
    ended = command("list")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("OtherSchema: ")


def test_a_database_of_something_else_is_left_alone(places):
    places.tamper("CREATE TABLE patients (name TEXT)")
    with pytest.raises(DatabaseError, match=r"other tables \(patients\)"):
        places.open()
    assert list(places.content()) == ["patients"]
