"""`kill -9` while adding and promoting: all or nothing, and the same again works afterwards."""

import random
import signal
import time

import pytest

from tests.thorough import mostly_long

MODEL = "skin-lesion"

# Kills itself at one point of an add, given as the name of a call and how many of them come first.
AT_A_POINT = """
import os, signal, sys
from pathlib import Path
from fsspec.implementations.local import LocalFileSystem
from registry.bundle.folder import read_bundle
from registry.registry import Registry
from registry.releases import add

url, store, point, before, *folders = sys.argv[1:]
left = int(before)

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def deadly(call, after):
    def call_or_die(*arguments, **options):
        global left
        left -= 1
        if left < 0 and not after:
            die()
        result = call(*arguments, **options)
        if left < 0:
            die()
        return result
    return call_or_die

add.probe_model = lambda *given: None  # it takes longest
bundles = [read_bundle(Path(folder)) for folder in folders]
with Registry.open(url, store) as opened:
    if point == "half way through a file":
        LocalFileSystem.put_file = lambda self, source, target: (
            Path(target).write_bytes(Path(source).read_bytes()[:99]), die()
        )
    else:
        dialect = opened._engine.dialect
        owner, name, after = {
            "before a rename": (os, "rename", False),
            "after a rename": (os, "rename", True),
            "while flushing": (os, "fsync", False),
            "after inserting a version": (add, "insert_version", True),
            "before the event": (add, "insert_event", False),
            "before the commit": (dialect, "do_commit", False),
            "after the commit": (dialect, "do_commit", True),
        }[point]
        setattr(owner, name, deadly(getattr(owner, name), after))
    opened.add(bundles)
print("survived")
"""

AT_ANY_TIME = """
import sys
from pathlib import Path
from registry.bundle.folder import Bundle, bundle_digest, read_bundle
from registry.registry import Registry

url, store, first, folder = sys.argv[1:]
given = read_bundle(Path(folder))
with Registry.open(url, store) as registry:
    print("ready", flush=True)
    for seed in range(int(first), int(first) + 1_000_000, 3):
        bundles = []
        for offset in range(3):
            lineage = given.manifest.lineage.model_copy(update={"seed": seed + offset})
            manifest = given.manifest.model_copy(update={"lineage": lineage})
            bundles.append(Bundle(manifest, given.model, bundle_digest(manifest)))
        versions = registry.add(bundles)
        registry.promote(given.manifest.model, [versions[-1].number], to="production")
        print(seed, versions[-1].number, flush=True)
"""

IN_THE_STORE = [
    ("half way through a file", 0),
    ("while flushing", 5),
    ("before a rename", 0),
    ("after a rename", 0),
    ("before a rename", 2),
    ("after a rename", 4),
]
IN_THE_DATABASE = [
    # Opening reads the schema (one commit); then adding reads what is known (one) and writes (one).
    ("after inserting a version", 0, False),
    ("after inserting a version", 2, False),
    ("before the event", 0, False),
    ("before the commit", 1, False),
    ("after the commit", 1, True),
]


@pytest.fixture
def three(bundle, graph, dark, light):
    """Three bundles, each with a model file of its own."""
    return [bundle(graph=graph(name="1")), bundle(dark, graph=graph(name="2")), bundle(light)]


@pytest.fixture
def killed_at(places, start, folders, three, bundle, monkeypatch):
    """Kills an add at a point, sees whether it was made, and adds again."""
    monkeypatch.setattr("registry.releases.add.probe_model", lambda *given: None)

    def call(point, before, added):
        with places.open() as registry:
            registry.add([bundle(seed=99)])
        process = start(AT_A_POINT, places.url, places.store, point, before, *folders(*three))
        printed, errors = process.communicate(timeout=60)
        assert (process.returncode, printed, errors) == (-signal.SIGKILL, "", "")

        with places.open() as registry:
            numbers = [version.number for version in registry.versions(MODEL)]
            assert numbers == ([1, 2, 3, 4] if added else [1])
            assert registry.verify() == ()
            versions = registry.add(three)
            assert [version.number for version in versions] == [2, 3, 4]
            assert [registry.bundle(version) for version in versions] == three
            assert [event.versions for event in registry.history(MODEL)] == [(1,), (2, 3, 4)]
            assert registry.verify() == ()

    return call


@pytest.mark.sqlite  # of the store, which is the same for every database
@pytest.mark.parametrize(("point", "before"), mostly_long(IN_THE_STORE, *IN_THE_STORE[:3]))
def test_an_add_that_is_killed_in_the_store_adds_nothing(killed_at, point, before):
    killed_at(point, before, added=False)


@pytest.mark.parametrize(("point", "before", "added"), mostly_long(IN_THE_DATABASE, *IN_THE_DATABASE[1:]))
def test_an_add_that_is_killed_in_the_database_adds_all_or_nothing(killed_at, point, before, added):
    killed_at(point, before, added)


@pytest.mark.long
@pytest.mark.parametrize("kills", [200])
def test_kills_at_any_time_lose_nothing_that_was_told(places, start, folders, bundle, kills):
    (folder,) = folders(bundle())
    random.seed(7)
    told: list[int] = []
    for kill in range(kills):
        process = start(AT_ANY_TIME, places.url, places.store, 1000 * kill, folder)
        assert process.stdout.readline() == "ready\n"
        # Every other one is let through its first release, however slow the machine is.
        first = process.stdout.readline() if kill % 2 else ""
        time.sleep(random.uniform(0, 0.3))
        process.kill()
        printed, errors = process.communicate(timeout=60)
        printed = first + printed
        assert errors == ""
        told += [int(line.split()[1]) for line in printed.splitlines() if line.count(" ") == 1]
        with places.open() as registry:
            assert registry.verify() == ()
            versions = registry.versions()
            release = registry.release(MODEL, "production") if versions else None
        assert [version.number for version in versions] == list(range(1, len(versions) + 1))
        assert len(versions) % 3 == 0
        assert len(versions) >= max(told, default=0)
        if told:
            assert release.everybody.number >= max(told)
    assert told
