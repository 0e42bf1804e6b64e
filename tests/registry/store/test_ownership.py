"""Two databases and one store: whose it is, and who is refused."""

import shutil
import uuid
from datetime import timedelta
from threading import Barrier, Thread

import fsspec
import pytest

from registry.errors import StoreError, StoreLost, StoreNotOurs
from registry.registry import Registry
from registry.store.base import FolderStore
from registry.store.open import open_store

MODEL = "skin-lesion"
AT_ONCE = timedelta(0)
WORD = b"nobody's"


@pytest.fixture(params=["folder", "memory"])
def address(request, tmp_path):
    """The address of a store."""
    return str(tmp_path / "store") if request.param == "folder" else f"memory://{uuid.uuid4().hex}/store"


@pytest.fixture
def opened(tmp_path, address):
    """Opens the registry of a database of this name, on the one store."""
    made = []

    def call(name):
        registry = Registry.open(f"sqlite:///{tmp_path / name}.db", address, actor="tester")
        made.append(registry)
        return registry

    yield call
    for registry in made:
        registry.close()


def forget(address):
    """Takes away the name of the store's registry."""
    filesystem, root = fsspec.core.url_to_fs(address)
    filesystem.rm_file(f"{root}/registry.json")


def digests(address):
    return {file.digest for file in open_store(address).files()}


def test_the_store_names_the_registry_that_put_something_there_first(opened, bundle, address):
    registry = opened("one")
    assert open_store(address).owner() is None
    registry.add([bundle()])
    assert len(open_store(address).owner()) == 32
    assert registry.verify() == ()


def test_the_name_is_no_object_and_no_garbage(opened, bundle, address):
    registry = opened("one")
    (version,) = registry.add([bundle()])
    owner = open_store(address).owner()
    assert digests(address) == {version.digest, bundle().manifest.file.sha256}
    assert registry.collect(older_than=AT_ONCE).files == ()
    assert open_store(address).owner() == owner


@pytest.mark.parametrize("dry_run", [False, True])
def test_another_database_collects_nothing(opened, bundle, address, dry_run):
    """What it took for garbage were the objects of released models."""
    first = opened("one")
    first.add([bundle()])
    before = digests(address)
    with pytest.raises(StoreNotOurs, match="--store or DERMFED_STORE"):
        opened("other").collect(older_than=AT_ONCE, dry_run=dry_run)
    assert digests(address) == before
    assert first.verify() == ()


def write_add(registry, bundle):
    registry.add([bundle(seed=7)])


def write_sign(registry, bundle):
    pytest.importorskip("cryptography", reason="signing needs the extra sign")
    from cryptography.hazmat.primitives.asymmetric import ec

    from registry.signing.pem import Signer

    registry.sign(MODEL, [1], Signer(ec.generate_private_key(ec.SECP256R1())))


def write_promote(registry, bundle):
    registry.promote(MODEL, [1], to="production")


def write_approve(registry, bundle):
    registry.approve(MODEL, [1], to="production")


@pytest.mark.parametrize("write", [write_add, write_sign, write_promote, write_approve])
def test_whoever_writes_with_another_database_is_refused_and_whoever_reads_is_not(
    opened, bundle, address, write
):
    """The other had the store, and lost it to the first."""
    one, other = opened("one"), opened("other")
    (version,) = other.add([bundle()])
    forget(address)
    open_store(address).claim(one.head().registry)
    one.add([bundle()])
    before = digests(address)
    with pytest.raises(StoreNotOurs) as caught:
        write(other, bundle)
    for said in (address, "other.db", "one of them adds", "registry.json"):
        assert said in str(caught.value)
    assert digests(address) == before
    assert other.manifest(version) == bundle().manifest
    (problem,) = other.verify()
    assert problem.about == "the store"
    assert len(other.versions()) == 1


def test_an_import_is_refused_too(opened, bundle, tmp_path, address):
    one, other = opened("one"), opened("other")
    one.add([bundle()])
    one.promote(MODEL, [1], to="production", override_gates=True, reason="a test")
    one.export_release(MODEL, "production", tmp_path / "release")
    with pytest.raises(StoreNotOurs):
        other.import_release(tmp_path / "release")
    assert other.versions() == ()


def test_a_store_that_lost_its_name_is_taken_where_all_its_objects_are_known(opened, bundle, address):
    registry = opened("one")
    registry.add([bundle()])
    owner = open_store(address).owner()
    forget(address)
    assert registry.verify() == ()
    assert registry.collect(older_than=AT_ONCE).files == ()
    assert open_store(address).owner() == owner


def test_what_is_missing_from_the_store_of_another_is_told_with_whose_it_is(
    opened, bundle, address, tmp_path
):
    one, other = opened("one"), opened("other")
    (version,) = one.add([bundle()])
    filesystem, root = fsspec.core.url_to_fs(address)
    filesystem.rm(root, recursive=True)
    other.add([bundle(seed=1)])
    for read in (one.manifest, one.bundle, lambda _: one.fetch(MODEL, 1, tmp_path / "there")):
        with pytest.raises(StoreNotOurs):
            read(version)


@pytest.mark.sqlite
def test_a_copy_of_database_and_store_works_as_the_registry_did(registry, places, bundle, tmp_path):
    registry.add([bundle()])
    registry.close()
    shutil.copytree(places.store.parent, tmp_path / "copy")
    url, store = f"sqlite:///{tmp_path / 'copy' / 'registry.db'}", str(tmp_path / "copy" / "store")
    with Registry.open(url, store) as copied:
        copied.add([bundle(seed=1)])
        copied.collect(older_than=AT_ONCE)
        assert copied.verify() == ()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"registry": 3}', b'{"registry": "0123"}'])
def test_a_name_that_is_none_is_told_and_nothing_is_removed(opened, bundle, address, content):
    registry = opened("one")
    registry.add([bundle()])
    filesystem, root = fsspec.core.url_to_fs(address)
    filesystem.rm_file(f"{root}/registry.json")
    filesystem.pipe_file(f"{root}/registry.json", content)
    with pytest.raises(StoreError, match=r"registry\.json of the store .* does not name a registry"):
        registry.collect(older_than=AT_ONCE)


def test_of_many_that_claim_a_new_folder_at_once_exactly_one_is_named(tmp_path):
    store, ready, told = FolderStore(tmp_path / "store"), Barrier(8), []

    def claim(identity):
        ready.wait()
        told.append(store.claim(identity))

    threads = [Thread(target=claim, args=(f"{number:032x}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(told) == 8
    assert set(told) == {store.owner()}
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["registry.json"]


def test_who_comes_second_is_told_who_was_first(address):
    store = open_store(address)
    assert store.claim("1" * 32) == "1" * 32
    assert store.claim("2" * 32) == "1" * 32


def test_where_a_disk_has_no_links_the_first_is_named_too(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refuse)
    store = FolderStore(tmp_path / "store")
    assert [store.claim("1" * 32), store.claim("2" * 32)] == ["1" * 32] * 2


def test_whoever_lost_a_store_that_keeps_what_was_written_last_refers_to_nothing(
    opened, bundle, tmp_path, address, monkeypatch
):
    """The other's name arrives after ours was read back: a place that cannot create a file only once."""
    registry = opened("one")
    keep = type(open_store(address)).keep

    def overwrite(self, copy):
        keep(self, copy)
        forget(address)
        self.claim("2" * 32)

    monkeypatch.setattr(type(open_store(address)), "keep", overwrite)
    with pytest.raises(StoreNotOurs):
        registry.add([bundle()])
    assert registry.versions() == ()


def test_gc_looks_again_whose_the_store_is_before_it_removes(opened, bundle, address, monkeypatch):
    registry = opened("one")
    registry.add([bundle()])
    unknown = open_store(address).put(WORD)
    kind = type(open_store(address))
    files = kind.files

    def list_and_lose(self):
        listed = list(files(self))
        if open_store(address).owner() != "2" * 32:
            forget(address)
            self.claim("2" * 32)
        return iter(listed)

    monkeypatch.setattr("registry.store.garbage.check_not_lost", lambda *_: None)
    monkeypatch.setattr(kind, "files", list_and_lose)
    with pytest.raises(StoreNotOurs):
        registry.collect(older_than=AT_ONCE)
    assert unknown in digests(address)


def test_the_command_says_so_and_ends_with_2(command, registry, places, bundle, tmp_path):
    registry.add([bundle()])
    ended = command("--url", f"sqlite:///{tmp_path / 'other.db'}", "gc", "--older-than", "0s")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("StoreNotOurs: the store ")
    assert registry.verify() == ()


def test_a_new_version_is_not_added_where_the_store_is_lost(opened, bundle, address):
    registry = opened("one")
    registry.add([bundle()])
    filesystem, root = fsspec.core.url_to_fs(address)
    filesystem.rm(root, recursive=True)
    with pytest.raises(StoreLost):
        registry.add([bundle(seed=1)])
    assert registry.add_and_tell([bundle()]).new == ()  # what puts right is taken
    assert registry.verify() == ()


def test_a_store_without_a_name_that_holds_what_is_unknown_is_refused(opened, bundle, address):
    registry = opened("one")
    registry.add([bundle()])
    forget(address)
    unknown = open_store(address).put(WORD)
    for write in (lambda: registry.collect(older_than=AT_ONCE), lambda: registry.add([bundle(seed=1)])):
        with pytest.raises(StoreNotOurs, match="names no registry"):
            write()
    assert unknown in digests(address)
    assert len(registry.versions()) == 1
