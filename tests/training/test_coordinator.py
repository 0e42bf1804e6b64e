"""What a coordinator leaves of a job that ended, also where its disk is full."""

import errno
import json
import os
import shutil

import pytest

from training import coordinator
from training.coordinator import DONE, FULL, OUTCOME, RESULTS, WRONG, leave_results, outcome_of
from training.errors import CheckpointError
from training.jobs.run_folder import RunFolder

WELL = {"state": DONE, "error": "", "text": ""}
NO_ROOM = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def run(tmp_path):
    """A run that has something to fetch, and where FLARE takes results from."""
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    folder.metrics.write_text('{"round": 1}\n')
    folder.report.write_text("<html>")
    (tmp_path / "place").mkdir()
    return folder, tmp_path / "place"


def left(place):
    """The outcome, and what else may be fetched."""
    names = {path.name for path in (place / RESULTS).iterdir()} - {OUTCOME}
    return json.loads((place / RESULTS / OUTCOME).read_text()), names


def test_what_may_be_fetched_is_there_with_how_it_ended(run):
    folder, place = run
    leave_results(place, folder, "s", WELL)
    assert left(place) == (WELL, {"metrics.jsonl", "report.html"})


def test_a_run_whose_results_have_no_room_has_not_ended_well(run, monkeypatch):
    """It is sent again, and leaves all of them; else it would be done, and the report missing."""
    folder, place = run
    real = shutil.copyfile

    def copyfile(source, target):
        if source == folder.report:
            target.write_text("<ht")
            raise NO_ROOM
        return real(source, target)

    monkeypatch.setattr(coordinator.shutil, "copyfile", copyfile)
    leave_results(place, folder, "s", WELL)
    outcome, names = left(place)
    assert outcome["state"] == FULL
    assert "No space left on device" in outcome["text"]
    assert names == set()


def test_what_is_no_full_disk_is_not_called_one(run, monkeypatch):
    folder, place = run

    def refuse(source, target):
        raise PermissionError(errno.EACCES, "refused")

    monkeypatch.setattr(coordinator.shutil, "copyfile", refuse)
    with pytest.raises(PermissionError):
        leave_results(place, folder, "s", WELL)
    assert not (place / RESULTS / OUTCOME).exists()


def test_a_checkpoint_that_had_no_room_is_told_from_one_that_is_damaged():
    def failed(cause):
        error = CheckpointError("cannot write it")
        error.__cause__ = cause
        return outcome_of(error)["state"]

    assert failed(NO_ROOM) == FULL
    assert failed(OSError(errno.EROFS, "read-only")) == WRONG
    assert failed(None) == WRONG
