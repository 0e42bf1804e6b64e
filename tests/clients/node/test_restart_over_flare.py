"""A job's process is killed at one hospital, over real processes: it alone is started again.

The control is a federation whose nodes start nothing again, as FLARE does: the job ends for all.
"""

import json
import os
import signal
from pathlib import Path

import pytest

from benchmarks.job_processes import job_processes
from benchmarks.loopback.federated import ROOT
from clients.federation.job_launcher import RESTARTS

pytestmark = pytest.mark.long
PICTURES = {"north": 26, "south": 29, "east": 32}
ROUNDS = 14
AS_FLARE = Path(__file__).parent / "as_flare"


@pytest.fixture(scope="module")
def net(federated):
    return federated(PICTURES)


def kill(net, name):
    os.kill(job_processes(net.kits)[name], signal.SIGKILL)


def others(net):
    """The processes of the job at all sites but south."""
    return {name: pid for name, pid in job_processes(net.kits).items() if name != "south"}


def sent(net):
    return sum("sent: run" in line or "sent again: run" in line for _, line in net.said)


@pytest.fixture(scope="module")
def killed_twice(net, own_job, wait_until, ended):
    """South's process is killed in two rounds; what ran meanwhile at the other sites."""
    job = own_job(net, rounds=ROUNDS, network={"silence": 30})
    net.send(job, net.folder / "there")
    wait_until(lambda: len(net.metrics_log("tiny")) >= 2, "the second round")
    before, sendings = others(net), sent(net)
    for _ in range(2):
        pid, rounds = job_processes(net.kits)["south"], len(net.metrics_log("tiny"))
        kill(net, "south")
        wait_until(lambda pid=pid: job_processes(net.kits).get("south", pid) != pid, "the new process")
        wait_until(lambda rounds=rounds: len(net.metrics_log("tiny")) > rounds + 1, "two more rounds")
    assert len(net.metrics_log("tiny")) < ROUNDS, "nothing was under way any more"
    after = others(net)
    ended(net)
    assert sent(net) == sendings, "the job went on"
    return job, before, after


def test_the_round_goes_on_and_the_others_processes_are_the_same(net, killed_twice):
    _, before, after = killed_twice
    assert before == after
    assert before.keys() == {"server", "north", "east"}
    lines = net.metrics_log("tiny")
    assert [line["round"] for line in lines] == [*range(1, ROUNDS + 1)]
    assert all(line["answered"] == line["asked"] == [*PICTURES] for line in lines)


def test_both_ends_say_so(net, killed_twice):
    south = (net.kits / "south" / "node.log").read_text()
    assert f"ended by SIGKILL, as where memory runs out; it is started again (2 of {RESTARTS})" in south
    assert south.count("goes on in the place of the one that was ended") == 2
    assert sum("south: its process was ended and started again" in line for _, line in net.said) == 2
    for name in ("north", "east"):
        assert "started again" not in (net.kits / name / "node.log").read_text()


def test_the_weights_are_those_of_an_undisturbed_run(net, killed_twice, same_as_here):
    same_as_here(net, killed_twice[0])
    assert json.loads((net.folder / "there" / "summary.json").read_text())


def test_the_control_without_the_launcher_the_job_is_taken_up_at_every_site(
    federated, own_job, wait_until, ended, same_as_here
):
    plain = federated(PICTURES, PYTHONPATH=os.pathsep.join([str(AS_FLARE), str(ROOT)]))
    job = own_job(plain, rounds=ROUNDS, network={"silence": 30})
    plain.send(job, plain.folder / "there")
    wait_until(lambda: len(plain.metrics_log("tiny")) >= 2, "the second round")
    before, sendings = others(plain), sent(plain)
    kill(plain, "south")
    wait_until(lambda: sent(plain) > sendings, "the job to be sent again")
    wait_until(lambda: len(others(plain)) == 3 and others(plain).keys() == before.keys(), "the new processes")
    assert not set(before.values()) & set(others(plain).values())
    ended(plain)
    same_as_here(plain, job)
