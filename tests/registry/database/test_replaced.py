"""What is put in the place of an open registry's database, or answers at its address instead."""

import shutil
import sqlite3
import uuid
from contextlib import closing

import pytest
from sqlalchemy import text

from registry.database.connection import open_database, open_registry, reading, writing
from registry.errors import DatabaseError, DatabaseLost
from registry.registry import Registry

pytestmark = pytest.mark.both_databases


def copy_of(database, to):
    """A copy of a SQLite database as its own backup makes it."""
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(to)) as target:
        source.backup(target)
    return to


def all_keys(registry):
    return registry.keys()


def ids(registry):
    return {one.id for one in all_keys(registry)}


def revoke(database, store, key):
    """Revokes a key in a database beside the one that is open."""
    with Registry.open(f"sqlite:///{database}", str(store), actor="tester") as opened:
        opened.revoke_key(key.id)


def is_revoked(registry, key):
    return next(one.revoked is not None for one in all_keys(registry) if one.id == key.id)


def by_copying_over(new, database):
    shutil.copyfile(new, database)


def with_a_gap(new, database):
    database.unlink()
    new.replace(database)


@pytest.mark.sqlite
@pytest.mark.parametrize("put", [by_copying_over, with_a_gap])
def test_a_file_in_the_place_of_another_is_read(places, registry, put):
    key, _ = registry.create_key("app")
    assert not is_revoked(registry, key)
    new = copy_of(places.database, places.database.with_name("new.db"))
    revoke(new, places.store, key)
    if put is by_copying_over:  # nothing is left in the log that would be of another file
        with closing(sqlite3.connect(places.database)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    put(new, places.database)
    assert is_revoked(registry, key)
    other, _ = registry.create_key("another")  # and is the one that is written to
    with places.open() as again:
        assert ids(again) == {key.id, other.id}
        assert again.verify() == ()


@pytest.mark.sqlite
def test_a_file_that_is_gone_is_told_and_never_made_anew(places, registry):
    key, _ = registry.create_key("app")
    elsewhere = places.database.with_name("elsewhere.db")
    places.database.rename(elsewhere)
    for _ in range(2):
        with pytest.raises(DatabaseLost, match="is not there any more"):
            registry.keys()
        with pytest.raises(DatabaseLost, match="is not there any more"):
            registry.create_key("late")
        assert not places.database.exists()
    elsewhere.rename(places.database)
    assert ids(registry) == {key.id}


def swap(places, postgres, tmp_path, *, copied):
    """Puts another database in the place of an open one: a copy of it, or another registry's."""
    if places.is_sqlite:
        new = tmp_path / "other.db"
        if copied:
            copy_of(places.database, new)
        else:
            Registry.open(f"sqlite:///{new}", str(tmp_path / "other store")).close()
        return lambda: new.replace(places.database)
    name = places.url.partition("?")[0].rpartition("/")[2]
    other = f"dermfed_{uuid.uuid4().hex[:16]}"
    ended = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
    postgres(ended)
    postgres(f"CREATE DATABASE {other} TEMPLATE {name if copied else 'template0'}")
    if not copied:
        Registry.open(places.url.replace(name, other), str(tmp_path / "other store")).close()

    def put():
        postgres(ended)
        postgres(f"ALTER DATABASE {name} RENAME TO {other}_before")
        postgres(f"ALTER DATABASE {other} RENAME TO {name}")

    return put


@pytest.fixture
def server(kind, request):
    """Does statements on the server, where the database is on one."""
    return None if kind == "sqlite" else request.getfixturevalue("postgres")


def test_another_registry_is_neither_read_nor_written(places, registry, server, tmp_path):
    registry.create_key("app")
    put = swap(places, server, tmp_path, copied=False)
    put()
    for ask in (registry.keys, registry.standing, registry.models, lambda: registry.create_key("late")):
        with pytest.raises(DatabaseLost, match=r"holds the registry [0-9a-f]{32}, and was the registry"):
            ask()
    with places.open() as other:
        assert other.keys() == ()


def test_an_older_copy_of_the_same_registry_is_read(places, registry, server, tmp_path):
    key, _ = registry.create_key("app")
    put = swap(places, server, tmp_path, copied=True)
    registry.revoke_key(key.id)
    newest = registry.standing().newest
    assert is_revoked(registry, key)
    put()
    assert not is_revoked(registry, key)
    assert registry.standing().events == 1
    assert not registry.has_event(newest)
    assert registry.has_event(registry.standing().newest)


def test_an_empty_database_is_no_registry(places, registry, server, tmp_path):
    registry.create_key("app")
    if places.is_sqlite:
        for path in places.database.parent.glob("registry.db*"):
            path.unlink()
        with closing(sqlite3.connect(places.database)) as connection:
            connection.execute("CREATE TABLE other (n INTEGER)")
    else:
        places.tamper("DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    with pytest.raises(DatabaseLost, match="holds no registry"):
        registry.keys()


def test_a_registry_of_a_known_id_is_opened_before_it_can_be_read(places, registry):
    known = registry.head().registry
    key, _ = registry.create_key("app")
    with places.open(identity=known) as opened:
        assert ids(opened) == {key.id}
    with places.open(identity="0" * 32) as opened, pytest.raises(DatabaseLost, match=known):
        opened.keys()


@pytest.mark.sqlite
def test_where_a_known_registry_is_missing_nothing_is_made(places, tmp_path):
    with places.open(identity="0" * 32) as opened, pytest.raises(DatabaseLost, match="not there"):
        opened.keys()
    assert not places.database.exists()


def test_connections_that_a_server_ends_are_made_anew(places, registry, server):
    if server is None:
        pytest.skip("a file ends no connections")
    key, _ = registry.create_key("app")
    name = places.url.partition("?")[0].rpartition("/")[2]
    for _ in range(3):
        server(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
        assert ids(registry) == {key.id}


def test_a_transaction_within_the_wrong_database_writes_nothing(places, registry):
    engine = open_registry(places.url, "0" * 32)
    with pytest.raises(DatabaseError), writing(engine) as connection:
        connection.execute(text("DELETE FROM api_keys"))
    engine.dispose()


@pytest.mark.sqlite
def test_a_reader_is_not_disturbed_and_the_next_one_sees_the_new_file(places, registry):
    registry.create_key("app")
    new = copy_of(places.database, places.database.with_name("new.db"))
    with Registry.open(f"sqlite:///{new}", str(places.store)) as opened:
        opened.create_key("more")
    engine = open_database(places.url)
    query = text("SELECT count(*) FROM api_keys")
    with reading(engine) as reader:
        assert reader.scalar(query) == 1
        new.replace(places.database)
        with reading(engine) as other:
            assert other.scalar(query) == 2
        assert reader.scalar(query) == 1
    for _ in range(3):  # the old connection went back to the pool, and is not used again
        with reading(engine) as reader:
            assert reader.scalar(query) == 2
    engine.dispose()


def test_a_server_that_only_reads_is_read(places, registry, server):
    if server is None:
        pytest.skip("a file has no standby")
    key, _ = registry.create_key("app")
    name = places.url.partition("?")[0].rpartition("/")[2]
    server(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    server(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
    assert ids(registry) == {key.id}
    assert registry.standing().events == 1
