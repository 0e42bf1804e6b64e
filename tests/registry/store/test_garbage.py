"""What `gc` removes and what it leaves, on both databases; and while others add."""

import os
import re
import time
import uuid
from datetime import timedelta

import pytest

from registry import stored_bundles as bundles
from registry.database.connection import writing
from registry.errors import StoreError
from registry.registry import Registry
from registry.store import Store, object_name, open_store
from registry.stored_bundles import restore_collected

MODEL = "skin-lesion"
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
WORDS = [b"nobody's", b"nobody's either"]


def age(store, digest_or_name, by):
    """Makes a file older, as time would."""
    path = store.folder / (digest_or_name if "/" in digest_or_name else object_name(digest_or_name))
    then = time.time() - by.total_seconds()
    os.utime(path, (then, then))


@pytest.fixture
def store(places, bundle, graph):
    """The store of a registry that has a version of another model."""
    with places.open() as registry:
        registry.add([bundle(model="other", graph=graph(name="other"))])
    opened = open_store(str(places.store))
    opened.folder = places.store
    opened.known = {file.digest for file in opened.files()}
    return opened


def present(store):
    return {file.digest or file.name for file in store.files()} - store.known


@pytest.mark.parametrize("versions", [0, 1])
@pytest.mark.parametrize("dry_run", [False, True])
def test_another_database_collects_nothing(registry, store, bundle, tmp_path, versions, dry_run):
    """What it took for garbage were the objects of released models."""
    age_all(store, 2 * DAY)
    with Registry.open(f"sqlite:///{tmp_path / 'another.db'}", str(tmp_path / "another")) as other:
        other.add([bundle(seed=number) for number in range(versions)])
    other = Registry.open(f"sqlite:///{tmp_path / 'another.db'}", str(store.folder))
    with other, pytest.raises(StoreError, match="may be another registry's"):
        other.collect(dry_run=dry_run)
    assert store.known == {file.digest for file in store.files()}


def age_all(store, by):
    for file in list(store.files()):
        age(store, file.name, by)


def test_only_what_nothing_refers_to_and_is_old_goes(registry, bundle, store, places):
    (version,) = registry.add([bundle()])
    old, young = (store.put(word) for word in WORDS)
    age_all(store, 2 * DAY)
    age(store, young, HOUR)
    used = {version.digest, registry.manifest(version).file.sha256}
    collection = registry.collect()
    assert [(file.digest, file.size) for file in collection.files] == [(old, len(WORDS[0]))]
    assert (collection.removed, collection.bytes) == (True, len(WORDS[0]))
    assert present(store) == {*used, young}
    (told,) = [one for one in registry.audit() if one["kind"] == "collected"]
    assert (told["model"], told["actor"]) == ("", "tester")
    assert told["details"] == {"objects": 1, "bytes": len(WORDS[0])}
    assert registry.verify() == ()


def test_a_dry_run_lists_the_same_and_removes_nothing(registry, store):
    for word in WORDS:
        age(store, store.put(word), 2 * DAY)
    before = present(store)
    planned = registry.collect(dry_run=True)
    assert (present(store), planned.removed) == (before, False)
    assert [one for one in registry.audit() if one["kind"] == "collected"] == []
    assert registry.collect().files == planned.files
    assert present(store) == set()


def test_what_is_being_written_stays_whatever_age_is_asked(registry, store):
    digest = store.put(WORDS[0])
    left = (store.folder / object_name(digest)).with_name(f".{digest[7:]}.0123456789abcdef")
    left.write_bytes(b"half")
    age(store, left.relative_to(store.folder).as_posix(), timedelta(minutes=59))
    assert [file.digest for file in registry.collect(older_than=timedelta(0)).files] == [digest]
    age(store, left.relative_to(store.folder).as_posix(), timedelta(minutes=61))
    assert [file.digest for file in registry.collect(older_than=timedelta(0)).files] == [None]


def test_what_an_event_or_a_signature_names_stays(registry, bundle, store, places):
    registry.add([bundle()])
    signature, named, other = (store.put(word) for word in (b"signature", b"named", b"other"))
    places.tamper(
        "INSERT INTO signatures (version_id, object, identity, created) VALUES "
        f"(1, '{signature}', 'anna', '2026-01-01T00:00:00.000000+00:00')",
        f'UPDATE events SET details = \'{{"deep": [{{"list": "{named}"}}]}}\'',
    )
    age_all(store, 2 * DAY)
    assert [file.digest for file in registry.collect().files] == [other]
    assert {signature, named} < present(store)


def test_many_are_removed_a_transaction_at_a_time(registry, store, monkeypatch):
    monkeypatch.setattr(bundles, "_AT_ONCE", 2)
    for number in range(5):
        age(store, store.put(b"%d" % number), 2 * DAY)
    assert len(registry.collect().files) == 5
    told = [one["details"]["objects"] for one in registry.audit() if one["kind"] == "collected"]
    assert told == [2, 2, 1]


def test_history_tells_of_what_went_before_the_disk_refused(registry, store, monkeypatch):
    for word in (*WORDS, b"third"):
        age(store, store.put(word), 2 * DAY)
    remove, asked = Store.remove, []

    def refuse(self, name):
        asked.append(name)
        if len(asked) == 2:
            raise StoreError(f"{name} cannot be removed")
        remove(self, name)

    monkeypatch.setattr(Store, "remove", refuse)
    with pytest.raises(StoreError, match="cannot be removed"):
        registry.collect()
    assert len(present(store)) == 2
    (told,) = [one["details"]["objects"] for one in registry.audit() if one["kind"] == "collected"]
    assert told == 1


def test_one_that_is_put_again_between_listing_and_removing_stays(registry, store, monkeypatch):
    digest = store.put(WORDS[0])
    age(store, digest, 2 * DAY)
    files = Store.files

    def list_and_put(self):
        listed = list(files(self))
        store.put(WORDS[0])  # another process: its transaction is still to come
        yield from listed

    monkeypatch.setattr(Store, "files", list_and_put)
    assert registry.collect().files == ()
    assert store.get(digest) == WORDS[0]


@pytest.mark.both_databases
def test_one_that_becomes_a_version_between_listing_and_removing_stays(
    registry, bundle, store, places, monkeypatch
):
    given = bundle()
    files = Store.files

    def list_and_add(self):
        listed = list(files(self))
        with places.open() as other:
            other.add([given])
        yield from listed

    registry.add([bundle(seed=1)])  # the model's bytes are there already
    monkeypatch.setattr(Store, "files", list_and_add)
    store.put(b"nobody's")
    registry.collect(older_than=timedelta(0))
    assert registry.verify() == ()
    assert registry.bundle(registry.version(MODEL, 2)) == given


@pytest.fixture
def collect_before_writing(store, places, monkeypatch):
    """Collects all that nothing refers to right before a writer's transaction begins, in the module named."""

    def at(module):
        def collect_first(engine):
            with places.open() as other:
                other.collect(older_than=timedelta(0))
            return writing(engine)

        monkeypatch.setattr(f"registry.{module}.writing", collect_first)

    return at


def test_a_file_that_has_changed_since_is_not_kept_under_its_old_name(registry, store, tmp_path):
    (tmp_path / "file").write_bytes(b"another")
    with pytest.raises(StoreError, match="has changed while it was added"):
        restore_collected(store, {"sha256:" + 64 * "0": tmp_path / "file"})


def test_a_file_of_unknown_age_stays(tmp_path, bundle, monkeypatch):
    address = f"memory://{uuid.uuid4().hex}/store"
    with Registry.open(f"sqlite:///{tmp_path / 'registry.db'}", address) as registry:
        registry.add([bundle()])
        open_store(address).put(WORDS[0])
        monkeypatch.setattr("registry.store._TIMES", ())
        assert registry.collect(older_than=timedelta(0)).files == ()
        monkeypatch.undo()
        assert len(registry.collect(older_than=timedelta(0)).files) == 1
        assert len(list(open_store(address).files())) == 2


def test_a_whole_registry_on_an_object_store(tmp_path, bundle):
    address = f"memory://{uuid.uuid4().hex}/store"
    with Registry.open(f"sqlite:///{tmp_path / 'registry.db'}", address) as registry:
        (version,) = registry.add([bundle()])
        assert registry.bundle(version) == bundle()
        assert registry.verify() == ()
        open_store(address).remove(f"objects/{version.digest[7:9]}/{version.digest[7:]}")
        (problem,) = registry.verify()
        assert f"object {version.digest} is missing in {address}" in problem.text
        assert registry.add_and_report([bundle()]).repaired == (version.digest,)
        assert registry.verify() == ()


ADDS = """
import sys
from pathlib import Path
from registry.bundle.folder import Bundle, bundle_digest, read_bundle
from registry.registry import Registry

url, store, folder, count = sys.argv[1:]
given = read_bundle(Path(folder))
with Registry.open(url, store) as registry:
    print("ready", flush=True)
    for seed in range(1000, 1000 + int(count)):
        lineage = given.manifest.lineage.model_copy(update={"seed": seed})
        manifest = given.manifest.model_copy(update={"lineage": lineage})
        registry.add([Bundle(manifest, given.model, bundle_digest(manifest))])
print("done", flush=True)
"""


@pytest.mark.both_databases
def test_while_another_process_adds_nothing_is_lost(registry, places, start, folders, bundle, store):
    """No grace at all, and the same model's bytes in every bundle: as bad as it gets."""
    (folder,) = folders(bundle())
    process = start(ADDS, places.url, places.store, folder, 12)
    assert process.stdout.readline() == "ready\n"
    removed = 0
    while process.poll() is None:
        store.put(uuid.uuid4().bytes)
        removed += len(registry.collect(older_than=timedelta(0)).files)
    printed, errors = process.communicate()
    assert (printed, errors) == ("done\n", "")
    assert removed > 0
    assert len(registry.versions(MODEL)) == 12
    assert registry.verify() == ()


@pytest.mark.sqlite
def test_the_command_lists_sizes_and_tells_what_went(command, registry, store):
    digest = store.put(WORDS[0])
    age(store, digest, 2 * DAY)
    listed = command("gc", "--dry-run")
    assert listed.code == 0
    assert re.search(rf"objects/{digest[7:9]}/{digest[7:]}  +{len(WORDS[0])} .* object\n", listed.out)
    assert listed.out.endswith("1 file, 8 bytes: would be removed; nothing was\n")
    assert command("gc", "--older-than", "3d").out == "nothing to remove\n"
    assert command("gc", "--older-than", "36h", "--json").out.count(digest) == 1
    assert command("gc").out == "nothing to remove\n"


@pytest.mark.parametrize("writer", ["releases.add", "signed_versions", "import_release"])
def test_what_is_collected_before_it_is_referred_to_is_restored(
    registry, bundle, collect_before_writing, tmp_path, writer
):
    """The worst moment: all objects are put, and removed before the writer's transaction begins."""
    pytest.importorskip("cryptography", reason="signing needs the extra sign")
    from registry.signing_keys import read_signer, trust_in_signer, write_key_pair

    with Registry.open(f"sqlite:///{tmp_path / 'origin.db'}", str(tmp_path / "origin")) as origin:
        origin.add([bundle()])
        origin.promote(MODEL, [1], to="production", override_gates=True, reason="a test")
        origin.export_release(MODEL, "production", tmp_path / "release")
    write_key_pair(tmp_path / "a.key", None)
    signer = read_signer(tmp_path / "a.key")
    if writer == "signed_versions":
        registry.add([bundle()])
    collect_before_writing(writer)
    if writer == "releases.add":
        registry.add([bundle()])
    elif writer == "signed_versions":
        registry.sign(MODEL, [1], signer)
        assert registry.require_signature(registry.version(MODEL, 1), trust_in_signer(signer))
    else:
        registry.import_release(tmp_path / "release")
    assert registry.bundle(registry.version(MODEL, 1)) == bundle()
    assert registry.verify() == ()


def test_an_object_goes_at_its_age_and_not_before(registry, store):
    digest = store.put(WORDS[0])
    age(store, digest, timedelta(hours=5))
    assert registry.collect(older_than=timedelta(hours=5, minutes=1)).files == ()
    assert registry.collect(older_than=timedelta(hours=4, minutes=59)).files != ()


def test_what_a_killed_process_left_goes_and_a_strangers_file_stays(registry, store):
    digest = store.put(WORDS[0])
    folder = (store.folder / object_name(digest)).parent
    left = folder / f".{digest[7:]}.0123456789abcdef"
    left.write_bytes(b"half")
    stranger = folder / ".nfs0001"
    stranger.write_bytes(b"the network file system's")
    for path in (left, stranger):
        os.utime(path, (1000, 1000))
    collection = registry.collect()
    assert [(file.digest, file.size) for file in collection.files] == [(None, 4)]
    assert (left.exists(), stranger.exists()) == (False, True)
    assert store.get(digest) == WORDS[0]


def test_objects_of_versions_whose_event_is_gone_stay(registry, bundle, store, places):
    (version,) = registry.add([bundle()])
    places.tamper("DELETE FROM events")
    age_all(store, 2 * DAY)
    assert registry.collect(dry_run=True).files == ()
    assert registry.bundle(version)
