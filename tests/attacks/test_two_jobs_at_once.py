"""A coordinator that lies has a hospital run two jobs at once, and asks both at the same moment.

Each process looks up what was told before, finds nothing, and tells: two answers whose difference is of few
patients, or two censuses. FLARE runs as many jobs at a site as its coordinator sends.
"""

import threading
from contextlib import nullcontext, suppress
from copy import copy
from dataclasses import replace
from multiprocessing import get_context

import pytest

from benchmarks.loopback.permissive import permissive
from clients.data.manifest_file import read_manifest, write_manifest
from clients.node import request_handler
from clients.node.guards import one_question
from clients.node.request_handler import RequestHandler
from tests.attacks.house import DATA, LEAST, PRIVACY, House, someone_in
from training.algorithms.client import FolderReleases
from training.errors import DataError, MessageError
from training.jobs.job import Job
from training.rounds.census import CENSUS
from training.rounds.requests import EvaluateRequest, read_blocks

FINER = {"light": ["1"], "between": ["2"], "dark": ["5", "6"]}
IN_VAIN = 2.0  # seconds for which the one process waits for the other, which has to wait for it
COMES = 300.0  # seconds after which something that is waited for will not come


@pytest.fixture
def houses(tiny, tmp_path, monkeypatch):
    """One hospital in two jobs: the second has a subgroup of its own for two patients of tone 2."""
    monkeypatch.setenv("DERMFED_CACHE", str(tmp_path / "cache"))
    finer = {**DATA, "subgroups": {"scale": "fitzpatrick", "groups": FINER}}
    jobs = [Job.model_validate({**tiny, "data": data, "privacy": PRIVACY}) for data in (DATA, finer)]
    house = House(tmp_path, jobs[0])
    drawn, read = house.drawn(), read_manifest(house.manifest)
    pinned = [replace(row, split=drawn[row.image].split) for row in read.rows]
    light = [row.patient_id for row in pinned if row.split == "test" and row.skin_tone == "1"]
    few = list(dict.fromkeys(light))[: LEAST - 1]
    house.manifest = tmp_path / "pinned.csv"
    rows = [replace(row, skin_tone="2") if row.patient_id in few else row for row in pinned]
    write_manifest(read.keep(rows), house.manifest)
    other = copy(house)
    other.job = jobs[1]
    return house, other, sum(row.patient_id in few for row in rows)


@pytest.mark.parametrize("one_at_a_time", [True, False])
def test_two_answers_at_the_same_moment_do_not_differ_by_few_patients(houses, monkeypatch, one_at_a_time):
    """Last, the control: without the lock each finds an empty account."""
    if not one_at_a_time:
        monkeypatch.setattr(request_handler, "one_question", lambda path: nullcontext())
    house, other, pictures = houses
    handlers = [house.taken_up("one"), other.taken_up("two")]
    both = threading.Barrier(2, timeout=IN_VAIN if one_at_a_time else COMES)
    all_releases = FolderReleases.all

    def looked_up(self, client):
        found = list(all_releases(self, client))
        with suppress(threading.BrokenBarrierError):  # the other one waits for its turn
            both.wait()
        return found

    monkeypatch.setattr(FolderReleases, "all", looked_up)
    told = {}

    def ask(number, asked, groups):
        request = EvaluateRequest(split="test", subgroups=groups).model_dump()
        blocks = read_blocks(asked.ask(handlers[number], "evaluate", **request).tensors)
        told[number] = {name: int(block.point.n) for name, block in blocks.items()}

    asking = [
        threading.Thread(target=ask, args=(0, house, ("light", "dark"))),
        threading.Thread(target=ask, args=(1, other, ("light", "between", "dark"))),
    ]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    apart = told[0].get("light", 0) - told[1].get("light", 0)
    if one_at_a_time:
        assert told[0].get("light") is None or told[1].get("light") is None or apart == 0
    else:
        assert told[1]["light"] > 0
        assert apart == pictures


@pytest.mark.parametrize("looked_at", [True, False])
def test_a_run_that_joined_before_another_was_told_is_held_against_it(houses, monkeypatch, looked_at):
    """Both are let in while no census was told. Last, the control: looked at when they join alone."""
    house = houses[0]
    permissive(house.folder, census_apart=True)
    one = house.taken_up("one")
    house.withdraw(someone_in(house, "train"))
    two = house.taken_up("two")
    if not looked_at:
        monkeypatch.setattr(RequestHandler, "_refuse_near_census", lambda *_: None)
    assert house.ask(one, CENSUS).tensors[CENSUS].sum() > 0
    if looked_at:
        with pytest.raises(DataError, match="differ by fewer than 3 patients"):
            house.ask(two, CENSUS)
        return
    assert house.ask(two, CENSUS).tensors[CENSUS].sum() > 0


def test_one_that_is_at_work_is_waited_for_and_not_for_ever(tmp_path):
    path = tmp_path / "private" / "lock"
    entered = threading.Event()

    def second():
        with one_question(path):
            entered.set()

    thread = threading.Thread(target=second)
    with one_question(path):
        thread.start()
        assert not entered.wait(0.2)
        with pytest.raises(MessageError, match="another process of this node"), one_question(path, 0.1):
            pass
    assert entered.wait(COMES)
    thread.join()
    assert path.stat().st_mode & 0o077 == 0


def hold(path, pipe):
    """Another process of the node, at work until it is killed."""
    with one_question(path):
        pipe.send("it is mine")
        threading.Event().wait()


def test_who_was_killed_holds_the_lock_no_more(tmp_path):
    """It is of the open file, which the system closes with the process."""
    path = tmp_path / "lock"
    ours, theirs = get_context("spawn").Pipe()
    other = get_context("spawn").Process(target=hold, args=(path, theirs), daemon=True)
    other.start()
    assert ours.recv() == "it is mine"
    with pytest.raises(MessageError), one_question(path, 0.1):
        pass
    other.kill()
    other.join()
    with one_question(path, 0.1):
        pass
