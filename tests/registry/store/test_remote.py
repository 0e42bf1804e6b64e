"""Stores over fsspec: in memory as object stores are, on a disk as file servers are, and on bad ones."""

import hashlib
import uuid
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from registry.errors import InvalidName, StoreError
from registry.store.objects import FolderStore, Store, open_store

CONTENT = b"all of it" * 1000
HEX = hashlib.sha256(CONTENT).hexdigest()
DIGEST = f"sha256:{HEX}"
NAME = f"objects/{HEX[:2]}/{HEX}"


@pytest.fixture(params=["memory", "local"])
def address(request, tmp_path):
    """The address of a store that puts, and of one that moves."""
    if request.param == "local":
        return f"local://{tmp_path / 'store'}"
    return f"memory://{uuid.uuid4().hex}/store"


@pytest.fixture
def filesystem(address):
    """What lies at the address, seen without our code: the filesystem and the folder there."""
    return fsspec.core.url_to_fs(address)


def names(filesystem):
    files, root = filesystem
    try:
        return sorted(path.removeprefix(f"{root}/") for path in files.find(root))
    except FileNotFoundError:
        return []


def spoil(filesystem, content):
    files, root = filesystem
    files.pipe_file(f"{root}/{NAME}", content)


def test_it_is_laid_out_as_a_folder_is(tmp_path):
    open_store(f"local://{tmp_path / 'store'}").put(CONTENT)
    assert FolderStore(tmp_path / "store").get(DIGEST) == CONTENT
    assert open_store((tmp_path / "store").as_uri()).get(DIGEST) == CONTENT


def test_another_process_is_seen(address):
    first, second = open_store(address), open_store(address)
    assert not second.has(DIGEST)
    first.put(CONTENT)
    assert second.has(DIGEST)
    first.remove(NAME)
    assert not second.has(DIGEST)
    assert second.look(NAME) is None


class Disk(LocalFileSystem):
    """A disk that notes what is asked of it, and goes wrong when told to."""

    cachable = False
    fault = None

    def __init__(self):
        super().__init__()
        self.asked = []

    def put_file(self, lpath, rpath, **options):
        self.asked.append(("put", rpath))
        path, value = rpath, Path(lpath).read_bytes()
        if self.fault == "full":
            super().pipe_file(path, value[: len(value) // 2])
            raise OSError(28, "No space left on device")
        super().pipe_file(path, value[:-1] if self.fault == "keeps half" else value)

    def mv(self, path1, path2, **options):
        self.asked.append(("move", path1, path2))
        if self.fault == "move refused":
            raise ValueError("no such share")
        if self.fault == "move is half a copy":
            super().pipe_file(path2, b"half")
            raise OSError(5, "Input/output error")
        if self.fault == "move does nothing":
            return
        super().mv(path1, path2)


class Bucket(MemoryFileSystem):
    """An object store that keeps half of what it is given, or refuses all of it."""

    cachable = False
    fault = None

    def put_file(self, lpath, rpath, **options):
        if self.fault == "refuses":
            raise RuntimeError("SlowDown: please reduce your request rate")
        value = Path(lpath).read_bytes()
        self.pipe_file(rpath, value[:-1] if self.fault == "keeps half" else value)


@pytest.fixture
def disk(tmp_path):
    return Disk(), tmp_path / "store"


def on_disk(disk):
    return sorted(path.relative_to(disk[1]).as_posix() for path in disk[1].rglob("*") if path.is_file())


def test_where_a_move_is_atomic_an_object_is_written_beside_and_moved(disk):
    Store(disk[0], str(disk[1]), "sftp://host/store").put(CONTENT)
    (put, first), (move, moved, last) = disk[0].asked
    assert (put, move, moved) == ("put", "move", first)
    assert last == f"{disk[1]}/{NAME}"
    assert first.startswith(f"{disk[1]}/objects/{HEX[:2]}/.{HEX}.")


def test_where_only_a_put_is_atomic_it_is_put_once_under_its_name(disk):
    (disk[1] / "objects" / HEX[:2]).mkdir(parents=True)
    Store(disk[0], str(disk[1]), "s3://bucket/store").put(CONTENT)
    assert disk[0].asked == [("put", f"{disk[1]}/{NAME}")]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("full", "No space left"),
        ("keeps half", "keeps other bytes"),
        ("move refused", "no such share"),
        ("move is half a copy", "Input/output error"),
        ("move does nothing", "FileNotFoundError"),
    ],
)
def test_a_disk_that_goes_wrong_leaves_nothing_and_says_so(disk, fault, said):
    store = Store(disk[0], str(disk[1]), "sftp://host/store")
    disk[0].fault = fault
    with pytest.raises(StoreError, match=said) as caught:
        store.put(CONTENT)
    assert "sftp://host/store" in str(caught.value)
    assert on_disk(disk) == []
    assert not store.has(DIGEST)
    disk[0].fault = None
    store.put(CONTENT)
    assert on_disk(disk) == [NAME]


@pytest.mark.parametrize("fault", ["full", "keeps half", "move refused"])
def test_a_disk_that_goes_wrong_leaves_the_object_that_was_there(disk, fault):
    store = Store(disk[0], str(disk[1]), "sftp://host/store")
    store.put(CONTENT)
    disk[0].fault = fault
    with pytest.raises(StoreError):
        store.put(CONTENT)
    assert on_disk(disk) == [NAME]
    assert store.get(DIGEST) == CONTENT


def test_a_disk_that_dies_leaves_only_what_is_never_read(disk, monkeypatch):
    def dead(path):
        raise OSError(5, "Input/output error")

    store = Store(disk[0], str(disk[1]), "sftp://host/store")
    disk[0].fault = "full"
    monkeypatch.setattr(disk[0], "rm_file", dead)
    with pytest.raises(StoreError, match="No space left"):
        store.put(CONTENT)
    (left,) = store.files()
    assert (left.digest, store.check(DIGEST)) == (None, "missing")


@pytest.mark.parametrize("before", [False, True])
def test_an_object_store_that_refuses_changes_nothing(before):
    bucket, root = Bucket(), f"/{uuid.uuid4().hex}"
    store = Store(bucket, root, "s3://bucket/models")
    if before:
        store.put(CONTENT)
    bucket.fault = "refuses"
    with pytest.raises(StoreError, match="RuntimeError: SlowDown"):
        store.put(CONTENT)
    assert store.check(DIGEST) == ("intact" if before else "missing")


def test_half_an_object_in_an_object_store_is_noticed_and_removed():
    bucket, root = Bucket(), f"/{uuid.uuid4().hex}"
    bucket.fault = "keeps half"
    store = Store(bucket, root, "s3://bucket/models")
    with pytest.raises(StoreError, match="keeps other bytes"):
        store.put(CONTENT)
    assert store.check(DIGEST) == "missing"


@pytest.mark.parametrize("action", ["get", "has", "look", "files", "remove", "put"])
def test_secrets_of_the_address_are_in_no_message(disk, monkeypatch, action):
    uri = "sftp://anna:pass%20word@host/models?token=t0ken"
    store = Store(disk[0], str(disk[1]), uri)

    def fail(*_, **__):
        raise ValueError(f"cannot connect to {uri} with 'pass word', 'pass%20word' and t0ken")

    for call in ("open", "info", "find", "rm_file", "put_file"):
        monkeypatch.setattr(disk[0], call, fail)
    given = {"put": (CONTENT,), "files": (), "get": (DIGEST,), "has": (DIGEST,)}.get(action, (NAME,))
    with pytest.raises(StoreError) as caught:
        list(getattr(store, action)(*given) or ())
    assert "sftp://***@host/models" in str(caught.value)
    assert not [secret for secret in ("anna", "pass", "word@", "t0ken") if secret in str(caught.value)]


@pytest.mark.parametrize(
    "address",
    [
        "https://key:secret@host/models",
        "simplecache::s3://key:secret@bucket/models",
        "zip://models.zip",
        "nonsense://key:secret@bucket/models",
        "memory://",
    ],
)
def test_other_addresses_are_refused_with_what_is_allowed(address):
    with pytest.raises(InvalidName, match="s3://bucket/models") as caught:
        open_store(address)
    assert "secret" not in str(caught.value)


MOMENT = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("told", "written"),
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
def test_the_time_of_a_file_as_each_filesystem_tells_it(disk, monkeypatch, told, written):
    monkeypatch.setattr(disk[0], "info", lambda _: {"name": f"/x/{NAME}", "type": "file", "size": 3, **told})
    assert Store(disk[0], "/x", "sftp://host/x").look(NAME).written == written
