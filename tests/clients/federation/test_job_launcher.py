"""A job's process that is killed is started again, one that ended by itself is not."""

import subprocess
import sys
import threading

import pytest
from nvflare.app_common.job_launcher.process_launcher import ProcessHandle

from clients.federation import job_launcher
from clients.federation.job_launcher import RESTARTS, RestartedProcess, name_of
from clients.federation.site_policy import hospital_resources

SLEEPS = "import time; time.sleep(600)"
KILLED = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"


@pytest.fixture
def started():
    """`started(*scripts)`: a process of each script, in turn, the last one again and again; what was said."""
    made = []

    def start(*scripts):
        def launch():
            script = scripts[min(len(made), len(scripts) - 1)]
            command = [sys.executable, "-S", "-c", script]
            made.append(subprocess.Popen(command, start_new_session=True))
            return ProcessHandle(process=made[-1])

        said = []
        return RestartedProcess(launch, said.append), made, said

    yield start
    for process in made:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("script", "code"), [("", 0), ("raise SystemExit(1)", 1), ("raise SystemExit(9)", 9)]
)
def test_one_that_ended_by_itself_is_not_started_again(started, script, code):
    process, made, said = started(script)
    process.wait()
    assert len(made) == 1
    assert process.poll() == code
    assert said == []


def test_one_that_is_killed_is_started_again_until_it_ends_by_itself(started):
    process, made, said = started(KILLED, KILLED, "")
    process.wait()
    assert len(made) == 3
    assert process.poll() == 0
    assert len(said) == 2
    assert "ended by SIGKILL, as where memory runs out; it is started again (2 of 5)" in said[1]


def test_one_that_is_killed_time_and_again_ends_the_job(started):
    process, made, said = started(KILLED)
    process.wait()
    assert len(made) == RESTARTS + 1
    assert process.poll() == 1, "which FLARE tells the coordinator as a failure"
    assert "it was the last of 6, and the job ends at all sites" in said[-1]


def test_one_that_flare_ends_is_not_started_again(started):
    process, made, said = started(SLEEPS)
    waits = threading.Thread(target=process.wait)
    waits.start()
    process.terminate()
    waits.join(60)
    assert not waits.is_alive()
    assert len(made) == 1
    assert said == []


def test_one_that_is_ended_while_another_took_its_place_is_ended_too(started):
    process, made, _ = started(KILLED, SLEEPS)
    waits = threading.Thread(target=process.wait)
    waits.start()
    while len(made) < 2:
        made[0].wait()
    process.terminate()
    waits.join(60)
    assert made[1].poll() == -9
    assert len(made) == 2


def test_hospitals_start_their_jobs_with_it():
    [path] = [each["path"] for each in hospital_resources()["components"] if each["id"] == "process_launcher"]
    assert path == f"{job_launcher.__name__}.{job_launcher.JobLauncher.__name__}"


def test_a_signal_without_a_name_is_told_by_its_number():
    assert (name_of(9), name_of(63)) == ("SIGKILL", "signal 63")
