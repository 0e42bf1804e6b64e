import subprocess
import sys
import threading
import time

import pytest
from sqlalchemy import text

from registry.database import connection as database
from registry.database.connection import open_database, reading, writing
from registry.errors import DatabaseError, InvalidName
from registry.registry import Registry

pytestmark = pytest.mark.both_databases


@pytest.fixture
def engine(places):
    engine = open_database(places.url)
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


@pytest.mark.sqlite
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


def test_a_reader_sees_one_moment_and_keeps_no_writer_waiting(engine):
    with reading(engine) as reader:
        assert count(reader) == 0
        with writing(engine) as writer:
            writer.execute(text("INSERT INTO one VALUES (1, NULL)"))
        assert count(reader) == 0
    with reading(engine) as reader:
        assert count(reader) == 1


def test_a_writer_has_the_lock_from_its_beginning(engine, monkeypatch):
    monkeypatch.setattr(database, "WAIT_SECONDS", 0.2)
    impatient = open_database(engine.url.render_as_string(hide_password=False))
    with writing(engine):
        began = time.monotonic()
        with pytest.raises(DatabaseError, match="others are writing all the time"), writing(impatient):
            pass
        assert time.monotonic() - began > 0.15
    with writing(impatient) as connection:
        assert count(connection) == 0
    impatient.dispose()


@pytest.mark.parametrize(
    "url",
    ["mysql://user:secret@host/db", "postgres://user:secret@host/db", "postgresql://user:secret@host",
     "postgresql+asyncpg://user:secret@host/db", "://user:secret@host/db?password=secret",
     "mysql://host/db", "registry.db", "", "sqlite://", "sqlite:///:memory:",
     "sqlite:///a.db?mode=ro", "sqlite://host/a.db"],
)  # fmt: skip
def test_other_databases_are_refused_with_what_is_allowed(url):
    with pytest.raises(InvalidName, match=r"sqlite:///path/to/registry\.db") as refused:
        open_database(url)
    assert "secret" not in str(refused.value)


@pytest.mark.sqlite
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


def test_commands_start_without_the_slow_libraries():
    slow = ("onnxruntime", "alembic", "torch")
    program = f"import sys, registry.cli.app; print([name for name in {slow} if name in sys.modules])"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"


@pytest.fixture
def server_engine(empty_database):
    """An engine on a PostgreSQL database, of one table `one`."""
    engine = open_database(empty_database)
    with writing(engine) as connection:
        connection.execute(text("CREATE TABLE one (n INTEGER PRIMARY KEY)"))
    yield engine
    engine.dispose()


def test_a_reading_transaction_can_write_nothing_on_a_server(server_engine):
    with pytest.raises(DatabaseError, match="read-only transaction"), reading(server_engine) as connection:
        connection.execute(text("INSERT INTO one VALUES (1)"))


def test_a_connection_that_ends_within_a_transaction_leaves_nothing(server_engine, empty_database):
    other = open_database(empty_database)

    def insert_and_be_ended():
        with writing(server_engine) as connection:
            connection.execute(text("INSERT INTO one VALUES (1)"))
            process = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar()
            with reading(other) as killer:
                killer.exec_driver_sql(f"SELECT pg_terminate_backend({process})")
            count(connection)

    with pytest.raises(DatabaseError, match="check the server"):
        insert_and_be_ended()
    with writing(other) as connection:  # the lock is free, too
        assert count(connection) == 0
    other.dispose()


@pytest.mark.parametrize("more", ["", "?password=secret", "?sslmode=disable&connect_timeout=2"])
def test_no_message_tells_a_password(more):
    pytest.importorskip("psycopg")
    engine = open_database(f"postgresql://anna:secret@127.0.0.1:1/skin{more}")
    with pytest.raises(DatabaseError) as told, reading(engine):
        pass
    assert "postgresql://anna@127.0.0.1:1/skin cannot be used" in str(told.value)
    assert "secret" not in str(told.value)


def test_without_the_driver_the_way_to_install_it_is_told(monkeypatch):
    monkeypatch.setattr(database, "find_spec", lambda name: None)
    with pytest.raises(DatabaseError, match=r"pip install dermfed\[postgres\]"):
        open_database("postgresql://host/db")


def test_a_database_that_is_not_there_is_told(empty_database):
    with pytest.raises(DatabaseError, match="does not exist"):
        Registry.open(empty_database.replace("/dermfed_", "/no_such_"), "unused")


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
