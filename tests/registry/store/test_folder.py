import hashlib
import os
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from registry.errors import ObjectCorrupt, StoreError
from registry.store import objects as store_module
from registry.store.objects import FolderStore, open_store

CONTENT = b"all of it" * 1000
HEX = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def store(tmp_path):
    return FolderStore(tmp_path / "store")


def files(store):
    return sorted(path for path in store.folder.rglob("*") if path.is_file())


def test_putting_it_again_renews_its_time_and_nothing_else(store):
    path = store.path(store.put(CONTENT))
    os.utime(path, (1000, 1000))
    before = path.stat()
    store.put(CONTENT)
    assert path.stat().st_ino == before.st_ino
    assert path.stat().st_mtime > time.time() - 60
    assert path.read_bytes() == CONTENT
    assert files(store) == [path]


def test_an_object_of_another_user_is_written_anew(store, monkeypatch):
    path = store.path(store.put(CONTENT))
    os.utime(path, (1000, 1000))
    before = path.stat()

    def refuse(of):
        if of == path:
            raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(store_module.os, "utime", refuse)
    store.put(CONTENT)
    assert path.stat().st_ino != before.st_ino
    assert path.stat().st_mtime > time.time() - 60
    assert store.get(f"sha256:{HEX}") == CONTENT
    assert files(store) == [path]


@pytest.mark.parametrize("broken", [CONTENT[:-1], b"", b"X" + CONTENT[1:], CONTENT + b"\0"])
def test_an_altered_object_is_refused_and_put_right(store, broken):
    digest = store.put(CONTENT)
    store.path(digest).chmod(0o644)
    store.path(digest).write_bytes(broken)
    assert store.check(digest) == "altered"
    with pytest.raises(ObjectCorrupt, match=digest):
        store.get(digest)
    assert store.put(CONTENT) == digest
    assert store.get(digest) == CONTENT


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_nobody_writes_to_an_object_by_accident(store, umask):
    before = os.umask(umask)
    try:
        path = store.path(store.put(CONTENT))
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o444 & ~umask
    for folder in (path.parent, path.parent.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o755 & ~umask


def test_what_a_killed_process_left_is_never_read(store):
    digest = store.put(CONTENT)
    left = store.path(digest).with_name(f".{HEX}.0123456789abcdef")
    left.write_bytes(b"half of i")
    assert store.get(digest) == CONTENT
    store.path(digest).unlink()
    assert store.check(digest) == "missing"
    store.put(CONTENT)
    assert store.get(digest) == CONTENT


def test_a_full_disk_leaves_nothing_and_says_so(store, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store_module.os, "fsync", full)
    with pytest.raises(StoreError, match="No space left"):
        store.put(CONTENT)
    assert files(store) == []


def test_an_object_is_flushed_before_it_gets_its_name_and_its_folders_after(store, monkeypatch):
    steps = []
    fsync, replace = os.fsync, Path.replace

    def flush(handle):
        steps.append(Path(f"/proc/self/fd/{handle}").readlink().name)
        fsync(handle)

    def move(path, target):
        steps.append("moved")
        return replace(path, target)

    monkeypatch.setattr(store_module.os, "fsync", flush)
    monkeypatch.setattr(Path, "replace", move)
    store.put(CONTENT)
    assert steps[0].startswith(".")
    assert steps[1:] == ["moved", HEX[:2], "objects", "store"]


def test_many_put_the_same_at_once(store):
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: store.put(CONTENT), range(64))) == {f"sha256:{HEX}"}
    assert files(store) == [store.path(f"sha256:{HEX}")]


def test_a_store_is_a_path_or_a_file_address(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "a store"
    for address in (str(place), "a store", place.as_uri(), f"file://localhost{place.as_uri()[7:]}"):
        assert open_store(address).folder == place


def test_files_are_objects_and_unfinished_ones_and_nothing_else(store):
    digest = store.put(CONTENT)
    folder = store.path(digest).parent
    left = folder / f".{HEX}.0123456789abcdef"
    left.write_bytes(b"half")
    (folder / "notes.txt").write_text("somebody's")
    (folder / ".nfs0001").write_text("the network file system's")
    (folder / ("0" * 64)).write_text("an object's name in another's folder")
    (folder / ("f" * 63)).write_text("too short")
    (folder / f"{HEX[:-1]}{'0' if HEX[-1] != '0' else '1'}").symlink_to(left)
    found = {one.name: one for one in store.files()}
    assert {name: (one.digest, one.size) for name, one in found.items()} == {
        f"objects/{HEX[:2]}/{HEX}": (digest, len(CONTENT)),
        f"objects/{HEX[:2]}/.{HEX}.0123456789abcdef": (None, 4),
    }
    assert all(abs(one.written.timestamp() - time.time()) < 60 for one in found.values())
    assert [store.look(name) for name in found] == list(found.values())
