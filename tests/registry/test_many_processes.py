"""Eight processes add and promote at once; nothing that one of them was told is lost."""

import json
import sqlite3
import time
from collections import Counter
from contextlib import closing

import pytest

MODEL = "skin-lesion"

WORK = """
import json, sys, time
from pathlib import Path
from registry.bundle.folder import Bundle, bundle_digest, read_bundle
from registry.bundle.schema import Subgroup
from registry.registry import Registry

url, store, folder, worker, begin, seconds = sys.argv[1:]
worker, begin, seconds = int(worker), float(begin), float(seconds)
given = read_bundle(Path(folder))
model = given.manifest.model
own = Subgroup(name=f"group-{worker}", scale="ours", values=(str(worker),))
figures = {"by_subgroup": {own.name: {"n": 10, "accuracy": 0.9}}}

def draw(seed, **parts):
    lineage = given.manifest.lineage.model_copy(update={"seed": seed})
    manifest = given.manifest.model_copy(update={"lineage": lineage, **parts})
    return Bundle(manifest, given.model, bundle_digest(manifest))

added, promoted, rounds = [], [], 0
with Registry.open(url, store, actor=f"worker {worker}") as registry:
    time.sleep(max(0, begin - time.time()))
    while time.time() < begin + seconds or rounds < 3:
        rounds += 1
        mine = draw(1000 * worker + rounds, subgroup=own, metrics=figures)
        everybody = draw(1000 * worker + rounds)  # a version that is added and never released
        shared = draw(rounds)  # every process adds this one
        versions = registry.add([mine, everybody, shared])
        added += [[version.number, version.digest] for version in versions]
        event = registry.promote(model, [versions[0].number], to="production")
        promoted.append([event.id, event.release, event.before, versions[0].number])
print(json.dumps({"added": added, "promoted": promoted}))
"""


def rows(places, query):
    with closing(sqlite3.connect(places.database)) as connection:
        return connection.execute(query).fetchall()


@pytest.mark.parametrize("seconds", [3, pytest.param(30, marks=pytest.mark.long)])
def test_nothing_is_lost(places, start, folders, bundle, seconds):
    with places.open() as registry:
        registry.add([bundle(seed=-1)])
        first = registry.promote(MODEL, [1], to="production")
    (folder,) = folders(bundle())
    begin = time.time() + 6
    arguments = [(places.url, places.store, folder, worker, begin, seconds) for worker in range(8)]
    ended = [process.communicate(timeout=240) for process in [start(WORK, *one) for one in arguments]]
    assert [errors for _, errors in ended] == [""] * 8
    told = [json.loads(printed) for printed, _ in ended]

    with places.open() as registry:
        versions, history = registry.versions(MODEL), registry.history(MODEL)
        release = registry.release(MODEL, "production")
        assert registry.verify() == ()

    assert [version.number for version in versions] == list(range(1, len(versions) + 1))
    by_digest = {version.digest: version.number for version in versions}
    assert len(by_digest) == len(versions)
    for worker in told:
        assert all(by_digest[digest] == number for number, digest in worker["added"])
    assert set(by_digest.values()) == {1} | {number for worker in told for number, _ in worker["added"]}

    events = Counter(number for event in history if event.kind == "added" for number in event.versions)
    assert events == Counter(by_digest.values())
    promotions = [event for event in history if event.kind == "promoted"]
    given = sorted(tuple(event) for worker in told for event in worker["promoted"])
    assert [(event.id, event.release, event.before, *event.versions) for event in promotions[1:]] == given
    assert [event.before for event in promotions] == [None, *(event.release for event in promotions[:-1])]
    assert promotions[0] == first
    assert release.id == promotions[-1].release

    last = {event.actor: event.versions[0] for event in promotions[1:]}
    assert len(last) == 8
    assert {version.number for version in release.versions} == {1, *last.values()}
    assert len(rows(places, "SELECT * FROM releases")) == len(promotions)
    assert len(promotions) >= 8 * 3
