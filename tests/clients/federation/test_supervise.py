"""Supervision of a run: sent again when something returns, and never twice at once."""

import json

import pytest

from clients.federation.errors import ConnectionLostError, FederationError
from clients.federation.kit import Federation, Kit, KitFacts
from clients.federation.supervise import ROOM, Supervisor
from training.errors import CheckpointError
from training.jobs.job import Job

DONE = {"state": "done", "error": "", "text": ""}


class Script:
    """A link that plays a script: what each look at each job sees."""

    def __init__(self, *jobs, connected=("north", "south")):
        self.jobs = list(jobs)
        self.here = set(connected)
        self.running = {}
        self.sent, self.stopped, self.looks, self.slept = [], [], 0, []
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
            "offline": {"south": "killed"} if "south" not in self.here or self.running else {},
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
    def run(admin, *, resume=False, out="out", without=(), engine=None):
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
            admin.looks += 1
            admin.slept.append(seconds)
            assert admin.looks < 500

        supervisor = Supervisor(
            Kit(tmp_path / "kit", facts, federation),
            admin,
            Job.model_validate({**tiny, "engine": engine or {}}),
            tmp_path / out,
            said.append,
            sleep=sleep,
            clock=lambda: now[0],
        )
        return supervisor.run(resume=resume, without=without), said

    return run


def test_a_run_that_nothing_disturbs_is_sent_once_and_its_lines_are_shown(follow):
    admin = Script((["SUBMITTED", "RUNNING", "RUNNING"], DONE))
    outcome, said = follow(admin)
    assert outcome == DONE
    assert len(admin.sent) == 1
    assert said[1:] == ["line 0", "line 1"]


def test_a_job_of_which_nothing_is_heard_is_said_to_begin_once_and_one_that_speaks_is_not(follow):
    _, said = follow(Script((["SUBMITTED"] * 20 + ["RUNNING"] * 20, DONE)))
    assert [line for line in said if "hospitals that are connected" in line] == [
        "the coordinator has the job, and gives it to the hospitals that are connected (3 s)"
    ]
    assert not any("start their processes" in line for line in said), "it speaks from its first look on"


def test_what_a_job_printed_after_the_last_look_at_it_is_said(follow):
    """The last rounds of a short job were missing: it ends between two looks."""
    admin = Script((["RUNNING"], DONE))
    fetch = admin.fetch
    admin.follow = lambda job, start, known: {"text": "round 1\n", "next": 8}

    def results(job, out):
        fetch(job, out)
        (out / "progress.log").write_text("round 1\nround 2\nround 3\n")

    admin.fetch = results
    _, said = follow(admin)
    assert said[1:] == ["round 1", "round 2", "round 3"]


def test_a_coordinator_whose_disk_is_full_gets_the_job_again_a_while_later(follow):
    full = {"state": "full", "error": "CheckpointError", "text": "cannot write round-4.safetensors"}
    admin = Script((["RUNNING"], full), (["RUNNING"], full), (["RUNNING"], DONE))
    outcome, said = follow(admin)
    assert outcome == DONE
    assert len(admin.sent) == 3
    assert admin.slept.count(ROOM) == 2
    assert said.count("cannot write round-4.safetensors") == 2
    assert said.count("the coordinator's disk is full; the run waits, and is taken up in 120 s") == 2


def test_it_waits_for_all_hospitals_before_it_sends(follow):
    admin = Script(([], DONE), connected=("north",))
    plain = admin.connected

    def connected():
        if admin.looks == 3:
            admin.here.add("south")
        return plain()

    admin.connected = connected
    _, said = follow(admin)
    assert "waiting for south" in said
    assert admin.looks == 3


def test_a_coordinator_that_lost_its_job_gets_it_again_with_the_same_run(follow):
    admin = Script((["RUNNING", "RUNNING", ""], DONE), (["RUNNING"], DONE))
    admin.lost = 4
    follow(admin)
    runs = [sent["components"][0]["args"]["run"] for sent in admin.sent]
    assert len(runs) == 2
    assert runs[0] == runs[1]


def test_a_hospital_that_returns_is_taken_up_once_it_has_settled(follow):
    admin = Script((["RUNNING"] * 100, DONE), (["RUNNING"], DONE))
    admin.running = {"south": ("job-0",)}  # it is back, with another life than this job's
    follow(admin)
    assert admin.stopped == ["job-1"]
    assert len(admin.sent) == 2
    assert 10 <= admin.looks < 20


def test_a_hospital_that_is_still_in_the_job_is_left_alone(follow):
    admin = Script((["RUNNING"] * 50, DONE))
    admin.running = {"south": ("job-1",)}
    follow(admin)
    assert admin.stopped == []
    assert len(admin.sent) == 1


def test_a_job_that_flare_ends_before_it_begins_is_given_up_in_the_end(follow):
    admin = Script(*[([], None)] * 5)
    with pytest.raises(FederationError, match="5 times before it got any further"):
        follow(admin)
    assert len(admin.sent) == 5


STOPPED = {"state": "stopped", "error": "StoppedError", "text": "the run was stopped"}


def test_a_job_that_flare_ends_because_a_process_ended_is_taken_up_again(follow):
    admin = Script((["RUNNING"], STOPPED), (["RUNNING"], DONE))
    outcome, said = follow(admin)
    assert outcome == DONE
    assert len(admin.sent) == 2
    assert "FLARE ended the job, as it does when a hospital's process ends; it is taken up again" in said


def test_a_process_that_ends_every_time_is_not_tried_for_ever_unless_the_run_gets_further(follow):
    admin = Script(*[(["RUNNING"], STOPPED)] * 5)
    with pytest.raises(FederationError, match="run out of memory"):
        follow(admin)
    further = Script(*[(["RUNNING"], STOPPED) for _ in range(8)], (["RUNNING"], DONE))
    fetch = further.fetch

    def fetched(job, out):
        fetch(job, out)
        (out / "metrics.jsonl").write_text("a round\n" * int(job[-1]))

    further.fetch = fetched
    assert follow(further, out="further")[0] == DONE


def test_a_site_that_was_away_at_the_beginning_is_waited_for(follow):
    admin = Script(
        ([], {"state": "offline", "error": "OfflineError", "text": "south is offline"}), ([], DONE)
    )
    outcome, said = follow(admin)
    assert outcome == DONE
    assert "south is offline" in said


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
    admin = Script((["RUNNING"] * 100, DONE), (["RUNNING"], DONE))
    admin.running = {"south": ("job-1",)}
    plain = admin.follow
    admin.follow = lambda job, start, known: {**plain(job, start, known), "outside": ["south"]}
    follow(admin)
    assert admin.stopped == ["job-1"]


def dismissed(admin):
    """What each job that was sent tells the coordinator."""
    return [sent["components"][0]["args"]["without"] for sent in admin.sent]


def test_a_dismissed_hospital_is_sent_no_job_and_waited_for_no_longer(follow, tmp_path):
    """The run went on meanwhile and waits: its job ends, and is sent again without the hospital."""
    admin = Script((["RUNNING"] * 100, DONE), (["RUNNING"], DONE))

    def interrupted(job, start, known):
        raise KeyboardInterrupt

    follows, admin.follow = admin.follow, interrupted
    with pytest.raises(KeyboardInterrupt):
        follow(admin)
    admin.follow = follows
    admin.here.discard("south")
    outcome, said = follow(admin, resume=True, without=("south",))
    assert outcome == DONE
    assert admin.stopped == ["job-1"]
    assert dismissed(admin) == ["", "south"]
    assert said[0].startswith("south dismissed from run tiny-")
    meta = tmp_path / "kit" / "private" / "job" / "tiny" / "meta.json"
    assert json.loads(meta.read_text())["deploy_map"] == {"app": ["server", "north"]}


def test_who_was_dismissed_stays_so_when_the_run_is_taken_up_again(follow):
    follow(Script(([], DONE), connected=("north",)), without=("south",))
    admin = Script(([], DONE), ([], DONE), connected=("north",))
    admin.sent.append({"components": [{"args": {"without": ""}}]})  # the first job's
    follow(admin, resume=True, without=("south",))
    assert admin.stopped == []
    follow(Script(([], DONE), connected=("north",)), resume=True)


def test_a_job_that_was_lost_with_its_coordinator_is_not_waited_for_before_a_dismissal(follow):
    admin = Script((["RUNNING", ""], DONE), (["RUNNING"], DONE))
    real, admin.follow = admin.follow, None
    with pytest.raises(TypeError):
        follow(admin)
    admin.follow = real
    admin.stop = lambda job: None
    follow(admin, resume=True, without=("south",))
    assert dismissed(admin) == ["", "south"]


def test_only_hospitals_are_dismissed_and_never_all(follow):
    with pytest.raises(FederationError, match=r"no hospital 'suoth' to dismiss; .*south"):
        follow(Script(([], DONE)), without=("suoth",))
    with pytest.raises(FederationError, match="no hospital would be left"):
        follow(Script(([], DONE)), without=("north", "south"))


def test_a_run_that_was_refused_is_sent_again_when_it_is_resumed(follow):
    refused = {"state": "refused", "error": "QuorumError", "text": "east cannot train"}
    admin = Script(([], refused), ([], DONE))
    assert follow(admin)[0] == refused
    assert follow(admin, resume=True)[0] == DONE
    assert [sent["components"][0]["args"]["run"] for sent in admin.sent] == [
        admin.sent[0]["components"][0]["args"]["run"]
    ] * 2


def test_a_job_that_is_done_with_is_removed_and_one_that_is_not_stays(follow):
    stopped = {"state": "stopped", "error": "StoppedError", "text": "the run was stopped"}
    admin = Script((["RUNNING", ""], None), ([], None), (["RUNNING"], stopped), (["RUNNING"], DONE))
    follow(admin)
    assert admin.forgotten == ["job-3", "job-4"], "what was lost is gone; what never began has logs to read"


def test_a_coordinator_that_is_gone_at_the_end_does_not_keep_whoever_has_the_results(follow):
    admin = Script((["RUNNING"], DONE))

    def gone(job):
        raise ConnectionLostError("gone")

    admin.forget = gone
    assert follow(admin)[0] == DONE


def test_a_job_that_is_lost_while_it_is_stopped_is_not_waited_for(follow):
    admin = Script((["RUNNING"] * 100, DONE), (["RUNNING"], DONE))
    admin.running = {"south": ("job-0",)}
    admin.stop = lambda job: admin.jobs[0][0].__setitem__(slice(None), [""])
    assert follow(admin)[0] == DONE
    assert len(admin.sent) == 2


def test_whoever_resumes_sees_what_is_new_and_the_run_goes_on(follow):
    """The run ended by an error that somebody mended."""
    wrong = {"state": "wrong", "error": "CheckpointError", "text": "the disk is full"}
    admin = Script((["RUNNING", "RUNNING"], wrong))
    assert follow(admin)[0] == wrong
    assert admin.asked_from == [0, 1]
    again = Script((["RUNNING"], DONE))
    assert follow(again, resume=True)[0] == DONE
    assert again.asked_from == [2]
    assert len(again.sent) == 1


def test_a_run_that_is_done_is_not_sent_again(follow):
    follow(Script((["RUNNING"], DONE)))
    admin = Script()
    assert follow(admin, resume=True)[0] == DONE
    assert admin.sent == []


def test_a_run_that_has_begun_goes_on_with_as_many_as_a_round_needs(follow):
    def kill(admin):
        admin.here = {"north"}
        return ""

    engine = {"min_clients": 1, "network": {"heartbeat_timeout": 30}}
    admin = Script((["RUNNING", kill], None), (["RUNNING"], DONE))
    outcome, said = follow(admin, engine=engine)
    assert outcome == DONE
    assert "the run goes on without south" in said
    assert 30 <= admin.looks < 50


def test_a_run_that_needs_everybody_waits_for_everybody(follow):
    def kill(admin):
        admin.here = {"north"}
        return ""

    admin = Script((["RUNNING", kill], None), (["RUNNING"], DONE))
    plain = admin.connected

    def connected():
        if admin.looks == 400:
            admin.here.add("south")
        return plain()

    admin.connected = connected
    assert follow(admin)[0] == DONE
    assert admin.looks > 400
