"""What ended jobs leave behind is bounded, and never what a run needs."""

import json
import os
from uuid import UUID

import pytest

from clients.federation.kit import Federation, Kit, KitFacts
from clients.federation.logs import FOLDERS, prune, prune_folders


@pytest.fixture
def kit(tmp_path):
    federation = Federation.model_validate(
        {"name": "skin", "coordinator": {"host": "x"}, "hospitals": [{"name": "north"}]}
    )
    facts = KitFacts(role="server", name="server", identity="x", organisation="o")
    return Kit(tmp_path, facts, federation)


def left(place, number, **meta):
    """The folder of a job that ended `number` seconds after the first."""
    folder = place / str(UUID(int=number))
    folder.mkdir(parents=True)
    (folder / "meta").write_text(json.dumps(meta))
    os.utime(folder, (1e9 + number, 1e9 + number))
    return folder.name


def names(place):
    return sorted(path.name for path in place.iterdir())


def test_the_newest_folders_of_jobs_stay_and_nothing_else_is_touched(kit):
    made = [left(kit.path, number) for number in range(FOLDERS + 3)]
    (kit.path / "local").mkdir()
    (kit.path / "private" / "runs" / "skin-1").mkdir(parents=True)
    prune_folders(kit)
    assert names(kit.path) == sorted([*made[3:], "local", "private"])
    assert (kit.path / "private" / "runs" / "skin-1").is_dir()


def test_a_job_that_died_with_its_coordinator_goes_and_one_that_waits_or_ended_stays(kit):
    store = kit.private / "jobs"
    dead = [left(store, number, status=status) for number, status in enumerate(("RUNNING", "DISPATCHED"))]
    there = [
        left(store, 10 + number, status=status)
        for number, status in enumerate(("SUBMITTED", "FINISHED:COMPLETED", "FINISHED:ABORTED"))
    ]
    (store / str(UUID(int=20))).mkdir()  # what cannot be read is not judged
    prune(kit)
    assert names(store) == [*there, str(UUID(int=20))]
    assert not set(dead) & set(names(store))


def test_what_nobody_fetched_is_bounded(kit):
    store = kit.private / "jobs"
    made = [left(store, number, status="FINISHED:COMPLETED") for number in range(FOLDERS + 2)]
    prune(kit)
    assert names(store) == sorted(made[2:])


def test_a_kit_that_never_had_a_job_is_left_as_it_is(kit):
    prune(kit)
    assert names(kit.path) == []
