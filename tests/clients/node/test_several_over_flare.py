"""Two hospitals over real processes, one of which trains in two: its bytes, what listens, and its end.

One of the two is killed, and then the process of the job. What one machine is to end with is computed here:
north's answers by two processes, south's by one.
"""

import json
import os
import signal
from pathlib import Path

import psutil
import pytest
import yaml
from rich.console import Console

from benchmarks.job_processes import job_processes
from benchmarks.loopback.federated import SERVER, Federated
from benchmarks.loopback.processes import family
from benchmarks.loopback.replay import Replay
from benchmarks.training_runs import digest, stage_tensors
from clients.data.prepare import prepare
from clients.federation.stale_processes import KIT_VARIABLE
from clients.store import ClientStore
from training.engines.in_process import ClientAppParts, InProcessEngine
from training.federation.server.metrics_log import MetricsLog
from training.jobs.job import read_job
from training.jobs.pipeline import run_stages

pytestmark = pytest.mark.long
PICTURES = {"north": 40, "south": 29}
PROCESSES = {"north": 2, "south": 1}
ROUNDS = 32


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    """A server and two hospitals, started as their owners do."""
    made = Federated(tmp_path_factory.mktemp("several"), PICTURES)
    (made.kits / "north" / "policy.yaml").write_text("limits: {threads: 2}\n")
    made.start(SERVER)
    made.start("south")
    made.start("north", "--processes", "2")
    yield made
    made.stop()


@pytest.fixture(scope="module")
def job(net, own_job):
    """A job whose model has no statistics of batches, which no processes of a processor divide."""
    path = own_job(net, rounds=ROUNDS, network={"silence": 30})
    written = yaml.safe_load(path.read_text())
    written["model"]["options"]["norm_layer"] = "groupnorm1"
    path.write_text(yaml.safe_dump(written))
    return path


def members(net, name):
    """The processes that train together at a node."""
    found = []
    for process in psutil.process_iter():
        try:
            ours = process.environ().get(KIT_VARIABLE) == f"{net.kits / name}"
            if ours and any("spawn_main" in word for word in process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


def listeners(processes):
    """The addresses at which any of these processes listens."""
    return {
        each.laddr.ip
        for process in processes
        for each in process.net_connections("inet")
        if each.status == psutil.CONN_LISTEN
    }


@pytest.fixture(scope="module")
def ran(net, job, wait_until, ended):
    """What was seen of the run: the processes, who listened, and what a kill of north's job process left."""
    net.send(job, net.folder / "there")
    wait_until(lambda: len(net.metrics_log("tiny")) >= 2, "the second round")
    first = members(net, "north")
    seen = {
        "first": first,
        "south": members(net, "south"),
        "of members": listeners(first),
        "of the node": listeners(family(net.nodes["north"].pid)),
        "threads": [sum(thread.user_time > 0.5 for thread in each.threads()) for each in first],
    }
    first[1].kill()  # as the kernel does where memory runs out
    wait_until(lambda: not any(each.is_running() for each in first), "the end of the other")
    wait_until(lambda: len(members(net, "north")) == 2, "two new ones")
    done = len(net.metrics_log("tiny"))
    wait_until(lambda: len(net.metrics_log("tiny")) > done + 1, "two rounds with those")
    first = members(net, "north")
    before = job_processes(net.kits)["north"]
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: not any(each.is_running() for each in first), "the end of its processes")
    wait_until(lambda: job_processes(net.kits).get("north", before) != before, "the new process")
    rounds = len(net.metrics_log("tiny"))
    wait_until(lambda: len(net.metrics_log("tiny")) > rounds + 1, "two more rounds")
    seen["second"] = members(net, "north")
    assert len(net.metrics_log("tiny")) < ROUNDS, "nothing was under way any more"
    ended(net)
    wait_until(lambda: not members(net, "north"), "the end of the last")
    return seen


class EachInItsOwn:
    """An engine that has each client answer in as many processes as it has."""

    def __init__(self, engines):
        self.engines = engines

    def run_round(self, broadcasts):
        return [self.engines[each.client].run_round([each])[0] for each in broadcasts]


def run_here(path, out, cache, lines):
    job = read_job(path)
    data = prepare(job.data, seed=job.seed, folder=path.parent, cache=cache)
    engines = {}
    for name, processes in PROCESSES.items():
        engine = job.engine.model_copy(update={"processes_per_client": processes})
        parts = ClientAppParts(job.model_copy(update={"engine": engine}), data, ClientStore(out / "clients"))
        engines[name] = InProcessEngine(parts, out / "spool" / name)
    try:
        with MetricsLog(out / "metrics.jsonl", Console(quiet=True)) as metrics_log:
            run_stages(job, data, Replay(EachInItsOwn(engines), lines), metrics_log, out)
    finally:
        for engine in engines.values():
            engine.close()


def test_one_hospital_trains_in_two_processes_within_its_threads_and_the_other_in_one(net, ran):
    assert len(ran["first"]) == len(ran["second"]) == 2
    assert not ran["south"]
    assert sum(ran["threads"]) <= 2, "limits.threads is for all of them"
    log = (net.kits / "north" / "node.log").read_text()
    assert "2 processes train together and divide each batch" in log
    assert "train together" not in (net.kits / "south" / "node.log").read_text()


def test_they_listen_to_nobody_and_the_node_on_this_machine_alone(ran):
    assert not ran["of members"]
    assert ran["of the node"] <= {"127.0.0.1", "::1"}


def test_where_one_is_killed_and_then_the_process_of_the_job_others_go_on(net, ran):
    assert not {each.pid for each in ran["first"]} & {each.pid for each in ran["second"]}
    lines = net.metrics_log("tiny")
    assert [line["round"] for line in lines] == [*range(1, ROUNDS + 1)]
    assert all(line["answered"] == line["asked"] == [*PICTURES] for line in lines)
    assert json.loads((net.folder / "there" / "summary.json").read_text())


def test_the_run_ends_with_the_bytes_of_one_machine_with_as_many_processes(net, job, ran, tmp_path):
    run_here(job, tmp_path / "here", net.folder / "cache", net.metrics_log("tiny"))
    there, here = net.results("tiny"), tmp_path / "here"
    assert digest(stage_tensors(there)) == digest(stage_tensors(here))


def test_nothing_of_it_is_left_on_the_disk(net, ran):
    left = [path for path in Path(net.kits / "north" / "private").rglob("*") if path.name == "meeting"]
    assert not left
