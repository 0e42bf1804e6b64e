"""Files that become objects by pieces: in a folder, in memory and on a bad disk."""

import hashlib
import tracemalloc
import uuid

import pytest

from registry.errors import ObjectCorrupt, ObjectMissing, StoreError
from registry.store.objects import Store, open_store
from tests.registry.store.test_remote import Disk

CONTENT = bytes(range(256)) * 40_000  # 10 MB: several pieces
DIGEST = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


@pytest.fixture(params=["folder", "memory", "local"])
def store(request, tmp_path):
    places = {"folder": "", "memory": f"memory://{uuid.uuid4().hex}/", "local": f"local://{tmp_path}/"}
    return open_store((places[request.param] or f"{tmp_path}/") + "store")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    return path


def test_a_file_becomes_the_object_of_its_bytes(store, file):
    assert store.put(file) == DIGEST
    assert store.get(DIGEST) == CONTENT
    assert [one.digest for one in store.files()] == [DIGEST]
    store.require(DIGEST)
    with store.local(DIGEST) as path:
        assert path.read_bytes() == CONTENT


def test_a_copy_that_is_not_kept_is_gone(store, file):
    with store.staged(file) as copy:
        assert (copy.digest, copy.size, copy.path.read_bytes()) == (DIGEST, len(CONTENT), CONTENT)
        file.write_bytes(b"changed meanwhile")
        assert copy.path.read_bytes() == CONTENT
    assert not copy.path.exists()
    assert list(store.files()) == []


def test_what_grows_is_not_copied_to_its_end(store, file):
    with pytest.raises(StoreError, match="has more than 9,999,999 bytes"), store.staged(file, 9_999_999):
        pytest.fail("it was copied")
    assert list(store.files()) == []


def test_a_file_that_cannot_be_read_is_told(store, tmp_path):
    with pytest.raises(StoreError, match="nothing cannot be copied"):
        store.put(tmp_path / "nothing")


@pytest.mark.parametrize("verify", ["require", "local", "check"])
def test_an_object_that_is_missing_is_named(store, verify):
    if verify == "check":
        assert store.check(DIGEST) == "missing"
        return
    with pytest.raises(ObjectMissing, match=DIGEST):
        store.require(DIGEST) if verify == "require" else store.local(DIGEST).__enter__()


@pytest.mark.parametrize("verify", ["require", "local"])
def test_an_object_that_was_altered_is_named(tmp_path, file, verify):
    store = open_store(str(tmp_path / "store"))
    store.put(file)
    store.path(DIGEST).chmod(0o644)
    store.path(DIGEST).write_bytes(CONTENT[:-1])
    for one in (store, open_store(f"local://{tmp_path}/store")):
        with pytest.raises(ObjectCorrupt, match=DIGEST):
            one.require(DIGEST) if verify == "require" else one.local(DIGEST).__enter__()
    assert store.check(DIGEST) == "altered"
    store.put(file)
    assert store.check(DIGEST) == "intact"


def test_a_file_that_arrives_changed_leaves_nothing(tmp_path, file):
    class HalfDisk(Disk):
        def put_file(self, lpath, rpath, **options):
            super().pipe_file(rpath, b"half")

    store = Store(HalfDisk(), str(tmp_path / "store"), "sftp://host/store")
    with pytest.raises(StoreError, match="keeps other bytes"):
        store.put(file)
    assert list(store.files()) == []


def test_no_file_is_held_in_memory(tmp_path, file):
    store = open_store(str(tmp_path / "store"))
    tracemalloc.start()
    try:
        store.put(file)
        store.require(DIGEST)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000
