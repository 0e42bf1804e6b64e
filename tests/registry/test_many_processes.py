"""Many processes add and promote at once; nothing that one of them was told is lost."""

import json
from collections import Counter

import pytest

MODEL = "skin-lesion"

# Everything is imported once and before the processes part: that takes longer than their work.
WORK = """
import json, os, sys, time
from pathlib import Path
import alembic.autogenerate
import registry.bundle.model
from registry.bundle.evaluation import Decided, Evaluation, GroupCounts
from registry.bundle.folder import Bundle, bundle_digest, read_bundle
from registry.bundle.labels import Subgroup, TonePatients
from registry.errors import AliasMoved
from registry.registry import Registry
from registry.releases import add, promote

add.probe_model = promote.probe_model = lambda *given: None  # it takes longest
url, store, folder, told, processes, seconds = sys.argv[1:]
begin = time.time()
for worker in range(int(processes)):
    if os.fork() == 0:
        break
else:
    sys.exit(sum(os.wait()[1] != 0 for _ in range(int(processes))))

given = read_bundle(Path(folder))
model = given.manifest.model
own = Subgroup(name=f"group-{worker}", scale="ours", values=(str(worker),))
counted = {"ours": {str(worker): 40}}
seen = TonePatients(calibration=counted, test=counted)
decided = Decided(covered=10, set_classes=10, answered=10, reported=10, reported_wrong=0)
row = GroupCounts(n=10, right=9, decided=decided)
tested = Evaluation(by_subgroup={own.name: row})

def draw(seed, **parts):
    lineage = given.manifest.lineage.model_copy(update={"seed": seed})
    manifest = given.manifest.model_copy(update={"lineage": lineage, **parts})
    return Bundle(manifest, given.model, bundle_digest(manifest))

added, promoted, rounds = [], [], 0
with Registry.open(url, store, actor=f"worker {worker}") as registry:
    while time.time() < begin + float(seconds) or rounds < 2:
        rounds += 1
        mine = draw(1000 * worker + rounds, subgroup=own, evaluation=tested, patients_by_tone=seen)
        everybody = draw(1000 * worker + rounds)  # a version that is added and never released
        shared = draw(rounds)  # every process adds this one
        versions = registry.add([mine, everybody, shared])
        added += [[version.number, version.digest] for version in versions]
        event = None
        while event is None:
            try:
                event = registry.promote(model, [versions[0].number], to="production")
            except AliasMoved:  # another process was faster: compare anew
                continue
        promoted.append([event.id, event.release, event.before, versions[0].number])
(Path(told) / f"{worker}.json").write_text(json.dumps({"added": added, "promoted": promoted}))
"""


# Two rounds each at least, so with 0 seconds two.
@pytest.mark.parametrize(("processes", "seconds"), [(4, 0), pytest.param(16, 60, marks=pytest.mark.long)])
def test_nothing_is_lost(places, start, folders, bundle, tmp_path, processes, seconds):
    with places.open() as registry:
        registry.add([bundle(seed=-1)])
        first = registry.promote(MODEL, [1], to="production")
    (folder,) = folders(bundle())
    (tmp_path / "told").mkdir()
    process = start(WORK, places.url, places.store, folder, tmp_path / "told", processes, seconds)
    printed, errors = process.communicate(timeout=400)
    assert (process.returncode, printed, errors) == (0, "", "")
    told = [json.loads(path.read_text()) for path in (tmp_path / "told").iterdir()]
    assert len(told) == processes

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

    ids = [event.id for event in history]
    assert ids == list(range(1, len(history) + 1))
    assert [event.previous for event in history[1:]] == [event.hash for event in history[:-1]]
    assert places.rows("SELECT events, hash FROM audit_head") == [(len(history), history[-1].hash)]

    last = {event.actor: event.versions[0] for event in promotions[1:]}
    assert len(last) == processes
    assert {version.number for version in release.versions} == {1, *last.values()}
    assert len(places.rows("SELECT * FROM releases")) == len(promotions)
    assert len(promotions) >= processes * 2
