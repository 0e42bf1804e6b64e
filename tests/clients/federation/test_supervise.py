"""Supervision of a run: sent again when something returns, and never twice at once."""

import json

import pytest

from clients.federation.errors import ConnectionLostError, FederationError
from clients.federation.federation_file import Federation
from clients.federation.kit import Kit, KitFacts
from clients.federation.supervise import Supervisor
from training.errors import CheckpointError
from training.job import Job

DONE = {"state": "done", "error": "", "text": ""}


class Script:
    """A link that plays a script: what each look at each job sees."""

    def __init__(self, *jobs, connected=("north", "south")):
        self.jobs = list(jobs)
        self.here = set(connected)
        self.running = {}
        self.sent, self.stopped, self.looks = [], [], 0
        self.lost = 0

    def submit(self, folder):
        self.sent.append(json.loads((folder / "app" / "config" / "config_fed_server.json").read_text()))
        return f"job-{len(self.sent)}"

    def state(self, job):
        if self.lost:
            self.lost -= 1
            raise ConnectionLostError("gone")
        looks, _ = self.jobs[int(job[-1]) - 1]
        if job in self.stopped or not looks:
            return "FINISHED:COMPLETED"
        state = looks.pop(0)
        if callable(state):
            return state(self)
        return state

    def follow(self, job, start, known):
        return {
            "text": f"line {start}",
            "next": start + 1,
            "away": {"south": "killed"} if "south" not in self.here or self.running else {},
        }

    def connected(self):
        return tuple(self.here)

    def jobs_at(self, names):
        return {name: self.running.get(name, ()) for name in names if name in self.here}

    def stop(self, job):
        self.stopped.append(job)

    def fetch(self, job, out):
        _, outcome = self.jobs[int(job[-1]) - 1]
        if outcome is not None:
            (out / "outcome.json").write_text(json.dumps(outcome))


@pytest.fixture
def follow(tmp_path, tiny):
    def run(link, *, resume=False, out="out"):
        federation = Federation.model_validate(
            {
                "name": "skin",
                "coordinator": {"host": "x"},
                "hospitals": [{"name": "north"}, {"name": "south"}],
            }
        )
        facts = KitFacts(role="admin", name="admin", identity="a", organisation="o")
        said, now = [], [0.0]

        def sleep(seconds):
            now[0] += seconds
            link.looks += 1
            assert link.looks < 500

        supervisor = Supervisor(
            Kit(tmp_path / "kit", facts, federation),
            link,
            Job.model_validate(tiny),
            tmp_path / out,
            said.append,
            sleep=sleep,
            clock=lambda: now[0],
        )
        return supervisor.run(resume=resume), said

    return run


def test_a_run_that_nothing_disturbs_is_sent_once_and_its_lines_are_shown(follow):
    link = Script((["SUBMITTED", "RUNNING", "RUNNING"], DONE))
    outcome, said = follow(link)
    assert outcome == DONE
    assert len(link.sent) == 1
    assert said[1:] == ["line 0", "line 1"]


def test_it_waits_for_all_hospitals_before_it_sends(follow):
    link = Script(([], DONE), connected=("north",))
    plain = link.connected

    def connected():
        if link.looks == 3:
            link.here.add("south")
        return plain()

    link.connected = connected
    _, said = follow(link)
    assert "waiting for south" in said
    assert link.looks == 3


def test_a_coordinator_that_lost_its_job_gets_it_again_with_the_same_run(follow):
    link = Script((["RUNNING", "", "RUNNING", *[""] * 5], DONE), (["RUNNING"], DONE))
    link.lost = 4
    follow(link)
    runs = [sent["components"][0]["args"]["run"] for sent in link.sent]
    assert len(runs) == 2
    assert runs[0] == runs[1]


def test_a_hospital_that_returns_is_taken_up_once_it_has_settled(follow):
    link = Script((["RUNNING"] * 100, DONE), (["RUNNING"], DONE))
    link.running = {"south": ("job-0",)}  # it is back, with another life than this job's
    follow(link)
    assert link.stopped == ["job-1"]
    assert len(link.sent) == 2
    assert 10 <= link.looks < 20


def test_a_hospital_that_is_still_in_the_job_is_left_alone(follow):
    link = Script((["RUNNING"] * 50, DONE))
    link.running = {"south": ("job-1",)}
    follow(link)
    assert link.stopped == []
    assert len(link.sent) == 1


def test_a_job_that_flare_ends_before_it_begins_is_given_up_in_the_end(follow):
    link = Script(*[([], None)] * 5)
    with pytest.raises(FederationError, match="5 times before it began"):
        follow(link)
    assert len(link.sent) == 5


def test_a_site_that_was_away_at_the_beginning_is_waited_for(follow):
    link = Script(([], {"state": "away", "error": "AwayError", "text": "south is away"}), ([], DONE))
    outcome, said = follow(link)
    assert outcome == DONE
    assert "south is away" in said


def test_another_folder_another_job_and_a_second_start_are_refused(follow, tmp_path):
    follow(Script(([], DONE)))
    with pytest.raises(CheckpointError, match="continue it with --resume"):
        follow(Script(([], DONE)))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    with pytest.raises(CheckpointError, match="is not empty"):
        follow(Script(([], DONE)), out="full")


def test_what_is_sent_brings_no_code_and_names_every_site(follow, tmp_path):
    follow(Script(([], DONE)))
    folder = tmp_path / "kit" / "private" / "job" / "tiny"
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    assert files == ["app/config/config_fed_client.json", "app/config/config_fed_server.json", "meta.json"]
    assert json.loads((folder / "meta.json").read_text())["deploy_map"] == {
        "app": ["server", "north", "south"]
    }


def test_a_hospital_that_missed_the_door_is_taken_up_although_its_process_runs(follow):
    link = Script((["RUNNING"] * 100, DONE), (["RUNNING"], DONE))
    link.running = {"south": ("job-1",)}
    plain = link.follow
    link.follow = lambda job, start, known: {**plain(job, start, known), "outside": ["south"]}
    follow(link)
    assert link.stopped == ["job-1"]


def test_a_run_that_was_refused_is_sent_again_when_it_is_resumed(follow):
    refused = {"state": "refused", "error": "QuorumError", "text": "east cannot train"}
    link = Script(([], refused), ([], DONE))
    assert follow(link)[0] == refused
    assert follow(link, resume=True)[0] == DONE
    assert [sent["components"][0]["args"]["run"] for sent in link.sent] == [
        link.sent[0]["components"][0]["args"]["run"]
    ] * 2


def test_who_has_not_answered_for_a_minute_is_told_now_and_then(follow):
    link = Script((["RUNNING"] * 100, DONE))
    told = {"asking": "0-federate 1 canary", "answered": ["north"], "pending": ["south"]}
    link.follow = lambda job, start, known: {**told, "seconds": float(link.looks)}
    _, said = follow(link)
    assert said[1:] == ["0-federate 1 canary: 1 of 2 answered; 61 s, not yet south"]
