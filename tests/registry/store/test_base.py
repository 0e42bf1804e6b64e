"""The store in a folder, in memory as object stores are, on a disk as file servers are, and on bad ones."""

import hashlib
import os
import stat
import time
import tracemalloc
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from registry import store as base
from registry.errors import InvalidName, ObjectCorrupt, ObjectMissing, StoreError
from registry.store import Store, object_name, open_store

CONTENT = bytes(range(256)) * 20_000  # 5 MB: several pieces
HEX = hashlib.sha256(CONTENT).hexdigest()
DIGEST = f"sha256:{HEX}"
NAME = f"objects/{HEX[:2]}/{HEX}"


@pytest.fixture(params=["folder", "memory", "local"])
def address(request, tmp_path):
    """The address of a folder, of a store that puts, and of one that moves."""
    places = {"folder": "", "memory": f"memory://{uuid.uuid4().hex}/", "local": f"local://{tmp_path}/"}
    return (places[request.param] or f"{tmp_path}/") + "store"


@pytest.fixture
def store(address):
    return open_store(address)


@pytest.fixture
def folder(tmp_path):
    """A store in a folder, and the path of its object."""
    return open_store(str(tmp_path / "store")), tmp_path / "store" / NAME


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    return path


def on_disk(root):
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def spoil(address, content):
    files, root = fsspec.core.url_to_fs(address)
    if "://" not in address or address.startswith("local"):
        Path(root, NAME).chmod(0o644)
    files.pipe_file(f"{root}/{NAME}", content)


def test_a_file_becomes_the_object_of_its_bytes(store, file):
    assert store.is_empty()
    assert store.put(file) == DIGEST == store.put(CONTENT)
    assert store.get(DIGEST) == CONTENT
    assert [(one.name, one.digest, one.size) for one in store.files()] == [(NAME, DIGEST, len(CONTENT))]
    with store.local(DIGEST) as path:
        assert path.read_bytes() == CONTENT


def test_every_address_of_a_folder_has_the_same_layout(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "a store"
    open_store("a store").put(CONTENT)
    for address in (str(place), place.as_uri(), f"file://localhost{place.as_uri()[7:]}", f"local://{place}"):
        assert open_store(address).get(DIGEST) == CONTENT


def test_another_process_is_seen(address):
    first, second = open_store(address), open_store(address)
    first.put(CONTENT)
    assert second.has(DIGEST)
    first.remove(NAME)
    assert not second.has(DIGEST)
    assert second.look(NAME) is None


def test_a_missing_object_is_named(store):
    assert store.check(DIGEST) == "missing"
    for read in (store.get, store.require, lambda digest: store.local(digest).__enter__()):
        with pytest.raises(ObjectMissing, match=DIGEST):
            read(DIGEST)


@pytest.mark.parametrize("broken", [CONTENT[:-1], b"", b"X" + CONTENT[1:], CONTENT + b"\0"])
def test_an_altered_object_is_refused_and_repaired(store, address, broken):
    store.put(CONTENT)
    spoil(address, broken)
    assert store.check(DIGEST) == "altered"
    for read in (store.get, store.require, lambda digest: store.local(digest).__enter__()):
        with pytest.raises(ObjectCorrupt, match=DIGEST):
            read(DIGEST)
    store.put(CONTENT)
    assert store.get(DIGEST) == CONTENT


def test_a_copy_that_is_not_kept_is_gone(store, file):
    with store.staged(file) as copy:
        file.write_bytes(b"changed meanwhile")
        assert (copy.digest, copy.size, copy.path.read_bytes()) == (DIGEST, len(CONTENT), CONTENT)
    assert not copy.path.exists()
    assert list(store.files()) == []


def test_what_cannot_be_copied_is_refused(store, file, tmp_path):
    with pytest.raises(StoreError, match="has more than 99,999 bytes"), store.staged(file, 99_999):
        pytest.fail("it was copied")
    with pytest.raises(StoreError, match="nothing cannot be copied"):
        store.put(tmp_path / "nothing")


def test_no_file_is_held_in_memory(folder, file):
    store, _ = folder
    tracemalloc.start()
    try:
        store.put(file)
        store.require(DIGEST)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000


def test_putting_it_again_makes_it_young(folder):
    store, path = folder
    store.put(CONTENT)
    os.utime(path, (1000, 1000))
    store.put(CONTENT)
    assert path.stat().st_mtime > time.time() - 60
    assert on_disk(path.parents[2]) == [NAME]


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_an_object_is_read_only_for_all(folder, umask):
    store, path = folder
    before = os.umask(umask)
    try:
        store.put(CONTENT)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o444 & ~umask


def test_an_object_is_flushed_before_it_gets_its_name_and_its_folders_after(folder, monkeypatch):
    store, _ = folder
    steps, fsync, rename = [], os.fsync, os.rename

    def flush(handle):
        steps.append(Path(f"/proc/self/fd/{handle}").readlink().name)
        fsync(handle)

    def move(*arguments, **options):
        steps.append("moved")
        return rename(*arguments, **options)

    monkeypatch.setattr(base.os, "fsync", flush)
    monkeypatch.setattr(os, "rename", move)
    store.put(CONTENT)
    assert steps[0].startswith(".")
    assert steps[1:] == ["moved", HEX[:2], "objects", "store"]


def test_a_full_disk_leaves_nothing_and_says_so(folder, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    store, path = folder
    monkeypatch.setattr(base.os, "fsync", full)
    with pytest.raises(StoreError, match="No space left"):
        store.put(CONTENT)
    assert on_disk(path.parents[2]) == []


def test_many_put_the_same_at_once(folder):
    store, path = folder
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: store.put(CONTENT), range(32))) == {DIGEST}
    assert on_disk(path.parents[2]) == [NAME]


def test_files_are_objects_and_unfinished_ones_and_nothing_else(folder):
    store, path = folder
    store.put(CONTENT)
    left = path.with_name(f".{HEX}.0123456789abcdef")
    left.write_bytes(b"half")
    for name in ("notes.txt", ".nfs0001", "0" * 64, "f" * 63):
        path.with_name(name).write_text("another's")
    path.with_name(f"{HEX[:-1]}{'0' if HEX[-1] != '0' else '1'}").symlink_to(left)
    found = {one.name: one for one in store.files()}
    assert {name: (one.digest, one.size) for name, one in found.items()} == {
        NAME: (DIGEST, len(CONTENT)),
        f"objects/{HEX[:2]}/{left.name}": (None, 4),
    }
    assert all(abs(one.written.timestamp() - time.time()) < 60 for one in found.values())
    assert [store.look(name) for name in found] == list(found.values())
    path.unlink()
    assert store.check(DIGEST) == "missing"  # what is unfinished is never read


class Disk(LocalFileSystem):
    """A file server that notes what it is sent, and fails where it is set to; not one to flush."""

    cachable = False
    fault = None

    def __init__(self):
        super().__init__()
        self.calls = []

    def put_file(self, lpath, rpath, **options):
        self.calls.append(("put", rpath))
        value = Path(lpath).read_bytes()
        if self.fault == "refuses":
            raise RuntimeError("SlowDown: please reduce your request rate")
        if self.fault == "full":
            super().pipe_file(rpath, value[: len(value) // 2])
            raise OSError(28, "No space left on device")
        super().pipe_file(rpath, value[:-1] if self.fault == "keeps half" else value)

    def mv(self, path1, path2, **options):
        self.calls.append(("move", path1, path2))
        if self.fault == "move refused":
            raise ValueError("no such share")
        if self.fault == "move is half a copy":
            super().pipe_file(path2, b"half")
            raise OSError(5, "Input/output error")
        if self.fault == "move keeps half":
            super().pipe_file(path2, b"half")
        elif self.fault != "move does nothing":
            super().mv(path1, path2)


def remote(root, *, moves=True, address="sftp://host/store"):
    disk = Disk()
    store = Store(disk, str(root), address, moves=moves)
    store._local = False
    return store, disk


def test_where_a_move_is_atomic_an_object_is_put_under_another_name_and_moved(tmp_path):
    store, disk = remote(tmp_path)
    store.put(CONTENT)
    (_, first), (_, moved, last) = disk.calls
    assert (moved, last) == (first, f"{tmp_path}/{NAME}")
    assert first.startswith(f"{tmp_path}/objects/{HEX[:2]}/.{HEX}.")


def test_where_only_a_put_is_atomic_it_is_put_once_under_its_name(tmp_path):
    (tmp_path / NAME).parent.mkdir(parents=True)
    store, disk = remote(tmp_path, moves=False)
    store.put(CONTENT)
    assert disk.calls == [("put", f"{tmp_path}/{NAME}")]


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("refuses", "RuntimeError: SlowDown"),
        ("full", "No space left"),
        ("keeps half", "keeps other bytes"),
        ("move refused", "no such share"),
        ("move is half a copy", "Input/output error"),
        ("move keeps half", "keeps other bytes"),
        ("move does nothing", "FileNotFoundError"),
    ],
)
def test_a_disk_that_fails_leaves_what_was_there_and_says_so(tmp_path, fault, said, before):
    store, disk = remote(tmp_path)
    if before:
        store.put(CONTENT)
    disk.fault = fault
    if before and fault == "move does nothing":
        store.put(CONTENT)  # the object was there already
        return
    with pytest.raises(StoreError, match=said) as caught:
        store.put(CONTENT)
    assert "sftp://host/store" in str(caught.value)
    whole = before and fault not in ("move is half a copy", "move keeps half")
    assert on_disk(tmp_path) == ([NAME] if whole else [])
    assert store.check(DIGEST) == ("intact" if whole else "missing")
    disk.fault = None
    store.put(CONTENT)
    assert store.get(DIGEST) == CONTENT


def test_half_an_object_in_an_object_store_is_noticed_and_removed():
    class Bucket(MemoryFileSystem):
        cachable = False

        def put_file(self, lpath, rpath, **options):
            self.pipe_file(rpath, Path(lpath).read_bytes()[:-1])

    store = Store(Bucket(), f"/{uuid.uuid4().hex}", "s3://bucket/models", moves=False)
    with pytest.raises(StoreError, match="keeps other bytes"):
        store.put(CONTENT)
    assert store.check(DIGEST) == "missing"


@pytest.mark.parametrize("action", ["get", "has", "look", "files", "remove", "put"])
def test_secrets_of_the_address_are_in_no_message(tmp_path, monkeypatch, action):
    uri = "sftp://anna:pass%20word@host/models?token=t0ken"
    store, disk = remote(tmp_path, address=uri)

    def fail(*_, **__):
        raise ValueError(f"cannot connect to {uri} with 'pass word', 'pass%20word' and t0ken")

    for call in ("open", "info", "find", "rm_file", "put_file"):
        monkeypatch.setattr(disk, call, fail)
    given = {"put": (CONTENT,), "files": (), "get": (DIGEST,), "has": (DIGEST,)}.get(action, (NAME,))
    with pytest.raises(StoreError) as caught:
        list(getattr(store, action)(*given) or ())
    assert "sftp://***@host/models" in str(caught.value)
    assert not [secret for secret in ("anna", "pass%", "pass w", "t0ken") if secret in str(caught.value)]


@pytest.mark.parametrize(
    "address",
    [
        "https://key:secret@host/models",
        "simplecache::s3://key:secret@bucket/models",
        "zip://models.zip",
        "nonsense://key:secret@bucket/models",
        "memory://",
        "file://host/models",
        "s3:/key:secret@bucket",
    ],
)
def test_other_addresses_are_refused_with_what_is_allowed(address):
    with pytest.raises(InvalidName, match="s3://bucket/models") as caught:
        open_store(address)
    assert "secret" not in str(caught.value)


MOMENT = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("facts", "written"),
    [
        ({"LastModified": MOMENT.astimezone(timezone(timedelta(hours=2)))}, MOMENT),
        ({"LastModified": MOMENT.replace(tzinfo=None)}, MOMENT),
        ({"updated": "2026-03-01T12:00:00Z"}, MOMENT),
        ({"mtime": MOMENT.timestamp()}, MOMENT),
        ({"mtime": None, "created": MOMENT}, MOMENT),
        ({}, None),
        ({"mtime": "last week"}, None),
    ],
)
def test_the_time_of_a_file_in_each_filesystem(tmp_path, monkeypatch, facts, written):
    store, disk = remote(tmp_path)
    monkeypatch.setattr(disk, "info", lambda _: {"name": f"/x/{NAME}", "type": "file", "size": 3, **facts})
    assert store.look(object_name(DIGEST)).written == written
