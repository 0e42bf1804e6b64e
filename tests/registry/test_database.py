import sqlite3
import subprocess
import sys
import threading

import pytest
from sqlalchemy import text

from registry.database import open_database, reading, writing
from registry.errors import DatabaseError, InvalidName
from registry.registry import Registry


@pytest.fixture
def engine(tmp_path):
    engine = open_database(f"sqlite:///{tmp_path / 'test.db'}")
    with writing(engine) as connection:
        connection.execute(text("CREATE TABLE one (n INTEGER PRIMARY KEY, other INTEGER REFERENCES one (n))"))
    yield engine
    engine.dispose()


def count(connection):
    return connection.scalar(text("SELECT count(*) FROM one"))


def execute_and_fail(engine, statement):
    with writing(engine) as connection:
        connection.execute(text(statement))
        _ = 1 / 0


def test_every_connection_is_prepared(engine):
    with reading(engine) as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "foreign_keys", "busy_timeout", "synchronous")
        }
    assert pragmas == {"journal_mode": "wal", "foreign_keys": 1, "busy_timeout": 30_000, "synchronous": 2}


def test_a_failed_transaction_leaves_nothing(engine):
    with pytest.raises(ZeroDivisionError):
        execute_and_fail(engine, "INSERT INTO one VALUES (1, NULL)")
    with reading(engine) as connection:
        assert count(connection) == 0


def test_tables_are_made_in_the_transaction_too(engine):
    with pytest.raises(ZeroDivisionError):
        execute_and_fail(engine, "CREATE TABLE two (n INTEGER)")
    with pytest.raises(DatabaseError, match="no such table"), reading(engine) as connection:
        connection.execute(text("SELECT * FROM two"))


def test_references_must_hold(engine):
    with pytest.raises(DatabaseError, match="FOREIGN KEY"), writing(engine) as connection:
        connection.execute(text("INSERT INTO one VALUES (1, 99)"))


def test_a_reader_sees_one_moment_and_keeps_no_writer_waiting(engine):
    with reading(engine) as reader:
        assert count(reader) == 0
        with writing(engine) as writer:
            writer.execute(text("INSERT INTO one VALUES (1, NULL)"))
        assert count(reader) == 0
    with reading(engine) as reader:
        assert count(reader) == 1


def test_a_writer_has_the_lock_from_its_beginning(engine):
    with writing(engine):
        other = sqlite3.connect(engine.url.database, isolation_level=None, timeout=0)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
        other.close()


def test_writers_wait_for_each_other(engine):
    def add():
        for _ in range(20):
            with writing(engine) as connection:
                n = count(connection)
                connection.execute(text("INSERT INTO one VALUES (:n, NULL)"), {"n": n})

    threads = [threading.Thread(target=add) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with reading(engine) as connection:
        assert count(connection) == 120


@pytest.mark.parametrize(
    "url",
    ["postgresql://user:secret@host/db", "mysql://host/db", "registry.db", "", "sqlite://", "sqlite:///:memory:",
     "sqlite:///a.db?mode=ro", "sqlite://host/a.db"],
)  # fmt: skip
def test_other_databases_are_refused_with_what_is_allowed(url):
    with pytest.raises(InvalidName, match=r"sqlite:///path/to/registry\.db") as refused:
        open_database(url)
    assert "secret" not in str(refused.value)


def test_a_file_that_is_no_database_is_refused(places):
    places.database.parent.mkdir()
    places.database.write_bytes(b"not a database at all" * 100)
    with pytest.raises(DatabaseError, match="not a database"):
        places.open()


def test_a_place_that_cannot_be_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DatabaseError, match="cannot be made"):
        Registry.open(f"sqlite:///{tmp_path / 'file' / 'registry.db'}", str(tmp_path))


def test_places_come_from_the_environment_or_the_users_data_folder(tmp_path, monkeypatch, bundle):
    monkeypatch.delenv("DERMFED_REGISTRY_URL", raising=False)
    monkeypatch.delenv("DERMFED_STORE", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with Registry.open() as registry:
        registry.add([bundle()])
    assert (tmp_path / "data" / "dermfed" / "registry.db").is_file()
    assert (tmp_path / "data" / "dermfed" / "store" / "objects").is_dir()

    monkeypatch.setenv("DERMFED_REGISTRY_URL", f"sqlite:///{tmp_path / 'named.db'}")
    monkeypatch.setenv("DERMFED_STORE", str(tmp_path / "named"))
    with Registry.open() as registry:
        assert registry.versions() == ()
        registry.add([bundle()])
    assert (tmp_path / "named" / "objects").is_dir()


def test_a_folder_may_have_any_name(tmp_path, bundle):
    place = tmp_path / "100 % ours #1 é"
    with Registry.open(f"sqlite:///{place / 'registry.db'}", str(place / "store")) as registry:
        registry.add([bundle()])
    assert sorted(path.name for path in place.iterdir())[:1] == ["registry.db"]


def test_a_relative_place_stays_where_it_was(tmp_path, monkeypatch, bundle):
    monkeypatch.chdir(tmp_path)
    with Registry.open("sqlite:///registry.db", "store") as registry:
        monkeypatch.chdir("/")
        assert registry.manifest(registry.add([bundle()])[0]) == bundle().manifest
    assert (tmp_path / "registry.db").is_file()


def test_commands_start_without_the_slow_libraries():
    slow = ("onnxruntime", "alembic", "torch")
    program = f"import sys, registry.cli; print([name for name in {slow} if name in sys.modules])"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"
