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
        self.forgotten, self.asked_from = [], []
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
        self.asked_from.append(start)
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

    def forget(self, job):
        self.forgotten.append(job)

    def fetch(self, job, out):
        _, outcome = self.jobs[int(job[-1]) - 1]
        if outcome is not None:
            (out / "outcome.json").write_text(json.dumps(outcome))


@pytest.fixture
def follow(tmp_path, tiny):
    def run(link, *, resume=False, out="out", without=(), engine=None):
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
            Job.model_validate({**tiny, "engine": engine or {}}),
            tmp_path / out,
            said.append,
            sleep=sleep,
            clock=lambda: now[0],
        )
        return supervisor.run(resume=resume, without=without), said

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
    link = Script((["RUNNING", "RUNNING", ""], DONE), (["RUNNING"], DONE))
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
    with pytest.raises(FederationError, match="5 times before it got any further"):
        follow(link)
    assert len(link.sent) == 5


STOPPED = {"state": "stopped", "error": "StoppedError", "text": "the run was stopped"}


def test_a_job_that_flare_ends_because_a_process_ended_is_taken_up_again(follow):
    link = Script((["RUNNING"], STOPPED), (["RUNNING"], DONE))
    outcome, said = follow(link)
    assert outcome == DONE
    assert len(link.sent) == 2
    assert "FLARE ended the job, as it does when a hospital's process ends; it is taken up again" in said


def test_a_process_that_ends_every_time_is_not_tried_for_ever_unless_the_run_gets_further(follow):
    link = Script(*[(["RUNNING"], STOPPED)] * 5)
    with pytest.raises(FederationError, match="run out of memory"):
        follow(link)
    further = Script(*[(["RUNNING"], STOPPED) for _ in range(8)], (["RUNNING"], DONE))
    fetch = further.fetch

    def fetched(job, out):
        fetch(job, out)
        (out / "metrics.jsonl").write_text("a round\n" * int(job[-1]))

    further.fetch = fetched
    assert follow(further, out="further")[0] == DONE


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


def dismissed(link):
    """What each job that was sent tells the coordinator."""
    return [sent["components"][0]["args"]["without"] for sent in link.sent]


def test_a_dismissed_hospital_is_sent_no_job_and_waited_for_no_longer(follow, tmp_path):
    """The run went on meanwhile and waits: its job ends, and is sent again without the hospital."""
    link = Script((["RUNNING"] * 100, DONE), (["RUNNING"], DONE))

    def interrupted(job, start, known):
        raise KeyboardInterrupt

    follows, link.follow = link.follow, interrupted
    with pytest.raises(KeyboardInterrupt):
        follow(link)
    link.follow = follows
    link.here.discard("south")
    outcome, said = follow(link, resume=True, without=("south",))
    assert outcome == DONE
    assert link.stopped == ["job-1"]
    assert dismissed(link) == ["", "south"]
    assert said[0].startswith("south dismissed from run tiny-")
    meta = tmp_path / "kit" / "private" / "job" / "tiny" / "meta.json"
    assert json.loads(meta.read_text())["deploy_map"] == {"app": ["server", "north"]}


def test_who_was_dismissed_stays_so_when_the_run_is_taken_up_again(follow):
    follow(Script(([], DONE), connected=("north",)), without=("south",))
    link = Script(([], DONE), ([], DONE), connected=("north",))
    link.sent.append({"components": [{"args": {"without": ""}}]})  # the first job's
    follow(link, resume=True, without=("south",))
    assert link.stopped == []
    follow(Script(([], DONE), connected=("north",)), resume=True)


def test_a_job_that_was_lost_with_its_coordinator_is_not_waited_for_before_a_dismissal(follow):
    link = Script((["RUNNING", ""], DONE), (["RUNNING"], DONE))
    real, link.follow = link.follow, None
    with pytest.raises(TypeError):
        follow(link)
    link.follow = real
    link.stop = lambda job: None
    follow(link, resume=True, without=("south",))
    assert dismissed(link) == ["", "south"]


def test_only_hospitals_are_dismissed_and_never_all(follow):
    with pytest.raises(FederationError, match=r"no hospital 'suoth' to dismiss; .*south"):
        follow(Script(([], DONE)), without=("suoth",))
    with pytest.raises(FederationError, match="no hospital would be left"):
        follow(Script(([], DONE)), without=("north", "south"))


def test_a_run_that_was_refused_is_sent_again_when_it_is_resumed(follow):
    refused = {"state": "refused", "error": "QuorumError", "text": "east cannot train"}
    link = Script(([], refused), ([], DONE))
    assert follow(link)[0] == refused
    assert follow(link, resume=True)[0] == DONE
    assert [sent["components"][0]["args"]["run"] for sent in link.sent] == [
        link.sent[0]["components"][0]["args"]["run"]
    ] * 2


def test_a_job_that_is_done_with_is_removed_and_one_that_is_not_stays(follow):
    stopped = {"state": "stopped", "error": "StoppedError", "text": "the run was stopped"}
    link = Script((["RUNNING", ""], None), ([], None), (["RUNNING"], stopped), (["RUNNING"], DONE))
    follow(link)
    assert link.forgotten == ["job-3", "job-4"], "what was lost is gone; what never began has logs to read"


def test_a_coordinator_that_is_gone_at_the_end_does_not_keep_whoever_has_the_results(follow):
    link = Script((["RUNNING"], DONE))

    def gone(job):
        raise ConnectionLostError("gone")

    link.forget = gone
    assert follow(link)[0] == DONE


def test_a_run_that_makes_progress_is_never_given_up(follow):
    link = Script(*((["RUNNING"], None) for _ in range(8)), (["RUNNING"], DONE))
    assert follow(link)[0] == DONE
    assert len(link.sent) == 9


def test_a_job_that_is_lost_while_it_is_stopped_is_not_waited_for(follow):
    link = Script((["RUNNING"] * 100, DONE), (["RUNNING"], DONE))
    link.running = {"south": ("job-0",)}
    link.stop = lambda job: link.jobs[0][0].__setitem__(slice(None), [""])
    assert follow(link)[0] == DONE
    assert len(link.sent) == 2


def test_whoever_resumes_sees_what_is_new_and_the_run_goes_on(follow):
    """The run ended by an error that somebody mended."""
    wrong = {"state": "wrong", "error": "CheckpointError", "text": "the disk is full"}
    link = Script((["RUNNING", "RUNNING"], wrong))
    assert follow(link)[0] == wrong
    assert link.asked_from == [0, 1]
    again = Script((["RUNNING"], DONE))
    assert follow(again, resume=True)[0] == DONE
    assert again.asked_from == [2]
    assert len(again.sent) == 1


def test_a_run_that_is_done_is_not_sent_again(follow):
    follow(Script((["RUNNING"], DONE)))
    link = Script()
    assert follow(link, resume=True)[0] == DONE
    assert link.sent == []


def test_a_run_that_has_begun_goes_on_with_as_many_as_a_round_needs(follow):
    def kill(link):
        link.here = {"north"}
        return ""

    engine = {"min_clients": 1, "network": {"silence": 30}}
    link = Script((["RUNNING", kill], None), (["RUNNING"], DONE))
    outcome, said = follow(link, engine=engine)
    assert outcome == DONE
    assert "the run goes on without south" in said
    assert 30 <= link.looks < 50


def test_a_run_that_needs_everybody_waits_for_everybody(follow):
    def kill(link):
        link.here = {"north"}
        return ""

    link = Script((["RUNNING", kill], None), (["RUNNING"], DONE))
    plain = link.connected

    def connected():
        if link.looks == 400:
            link.here.add("south")
        return plain()

    link.connected = connected
    assert follow(link)[0] == DONE
    assert link.looks > 400


def test_who_has_not_answered_for_a_minute_is_told_now_and_then(follow):
    link = Script((["RUNNING"] * 100, DONE))
    told = {"asking": "0-federate 1 canary", "answered": ["north"], "pending": ["south"]}
    link.follow = lambda job, start, known: {**told, "seconds": float(link.looks)}
    _, said = follow(link)
    assert said[1:] == ["0-federate 1 canary: 1 of 2 answered; 61 s, not yet south"]
