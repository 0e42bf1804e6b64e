"""A hospital copies its kit to a second machine and starts both, over real processes.

The control is a federation that leaves all to FLARE: the second node takes the first one's session.
"""

import os
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.loopback.federated import ROOT, SERVER
from tests.clients.node.federated import start_another

pytestmark = pytest.mark.long
PICTURES = {"north": 26, "south": 29}
ROUNDS = 100
AS_FLARE = Path(__file__).parent / "as_flare"
TAKEN = "Client: north already registered. Re-login the client with a new token."
EVICTED = "from endpoint north for exceeding limit"


@contextmanager
def second_node(net, folder):
    """A copy of north's kit as it is, started; its folder."""
    kit = folder / "north"
    shutil.copytree(
        net.kits / "north", kit, ignore=shutil.ignore_patterns("*.log", "log.txt*", "lock", "*-*-*")
    )
    process = start_another(net, kit, net.folder / "north.csv")
    try:
        yield kit
    finally:
        process.terminate()
        process.wait(60)


def log_of(kit, name="node.log"):
    return (kit / name).read_text() if (kit / name).exists() else ""


def sent(net):
    return sum(line.startswith(("sent: run", "sent again: run")) for _, line in net.said)


def under_way(net, own_job, wait_until):
    job = own_job(net, rounds=ROUNDS, network={"silence": 30})
    net.send(job, net.folder / "there")
    wait_until(lambda: net.metrics_log("tiny"), "the first round")
    return job


@pytest.fixture(scope="module")
def net(federated):
    return federated(PICTURES)


@pytest.fixture(scope="module")
def kept_out(net, own_job, tmp_path_factory, wait_until, ended):
    """A second node of north comes while a run is under way, and is stopped before that has ended."""
    job = under_way(net, own_job, wait_until)
    before = sent(net)
    with second_node(net, tmp_path_factory.mktemp("second")) as kit:
        wait_until(lambda: "keeps this node out" in log_of(kit), "the refusal")
        wait_until(lambda: "another node with this hospital's kit" in log_of(net.kits / "north"), "the news")
        wait_until(lambda: any("a second node" in line for _, line in net.said), "run.py to say so")
    ended(net)
    assert sent(net) == before, "the job went on"
    return job, kit


def test_all_three_consoles_name_it(net, kept_out):
    _, kit = kept_out
    second, first, coordinator = (log_of(each) for each in (kit, net.kits / "north", net.kits / SERVER))
    assert "another node of north was heard" in second
    assert "stop the other, or this one" in second
    assert "another node with this hospital's kit asks the coordinator to be let in" in first
    assert "north: a second node with the same kit wants to come in and is kept out" in coordinator
    assert "a second node" not in log_of(net.kits / "south")


def test_the_second_was_never_registered_nor_did_it_touch_the_firsts_connection(net, kept_out):
    _, kit = kept_out
    assert not (kit / "log.txt").exists(), "FLARE was not even started"
    told = log_of(net.kits / SERVER, "log.txt")
    assert TAKEN not in told
    assert EVICTED not in told


def test_the_run_ends_with_the_bytes_of_an_undisturbed_one(net, kept_out, same_as_here):
    lines = net.metrics_log("tiny")
    assert all(line["answered"] == line["asked"] == [*PICTURES] for line in lines)
    same_as_here(net, kept_out[0])


def test_the_control_to_flare_the_second_is_the_hospital(federated, own_job, tmp_path, wait_until):
    plain = federated(PICTURES, PYTHONPATH=os.pathsep.join([str(AS_FLARE), str(ROOT)]))
    under_way(plain, own_job, wait_until)
    with second_node(plain, tmp_path) as kit:  # each wait is for what must not be in the guarded federation
        wait_until(lambda: TAKEN in log_of(plain.kits / SERVER, "log.txt"), "the second to be taken for it")
        wait_until(lambda: EVICTED in log_of(plain.kits / SERVER, "log.txt"), "the quarrel for a connection")
    for told in (log_of(kit), log_of(plain.kits / "north"), log_of(plain.kits / SERVER)):
        assert "second node" not in told
        assert "another node" not in told
