"""A run survives what networks and people do, and calls nobody: the short form of `benchmarks/chaos.py`.

One federation, disturbed once; every process of it writes down whom it calls.
"""

import os
import re
from ipaddress import ip_address
from pathlib import Path

import pytest

from benchmarks.loopback.federated import ROOT, SERVER

pytestmark = pytest.mark.long

PEER = re.compile(r"EventEngine::Connect Peer: (ipv4:[\d.]+|ipv6:%5B[\da-f:]+%5D):(\d+)")
LOCAL = ("localhost", "127.0.0.1", "::1")


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    return tmp_path_factory.mktemp("calls")


@pytest.fixture(scope="module")
def net(federated, calls):
    return federated(
        {"north": 26, "south": 29},
        PYTHONPATH=os.pathsep.join([str(Path(__file__).parent / "on_record"), str(ROOT)]),
        DERMFED_TEST_CALLS=str(calls),
        GRPC_VERBOSITY="DEBUG",
        GRPC_TRACE="event_engine",
    )


@pytest.fixture(scope="module")
def job(net, own_job, wait_until, ended):
    """One hospital is cut off; then the coordinator and the other hospital lose their power. It ends."""
    job = own_job(net, rounds=16, network={"heartbeat_timeout": 20})
    net.send(job, net.folder / "there")
    wait_until(lambda: net.metrics_log("tiny"), "the first round")
    net.cables["south"].cut()
    for name in (SERVER, "north"):
        net.kill(name)
    assert len(net.metrics_log("tiny")) < 16, "nothing was under way any more"
    for name in (SERVER, "north"):
        net.start(name)
    wait_until(lambda: net.cables["south"].refused, "south to look for the coordinator")
    net.cables["south"].mend()
    ended(net)
    return job


def test_cut_killed_and_restarted_it_ends_with_the_same_bytes(net, job, same_as_here):
    assert any("the coordinator lost the job" in line for _, line in net.said)
    lines = net.metrics_log("tiny")
    assert [line["round"] for line in lines] == [*range(1, 17)]
    assert all(line["answered"] == line["asked"] == ["north", "south"] for line in lines)
    same_as_here(net, job)


def test_what_flare_kept_of_the_jobs_is_gone_and_their_logs_are_not(net, job):
    assert list((net.kits / SERVER / "private" / "jobs").iterdir()) == []
    assert list((net.results("tiny") / "logs").iterdir()) != []


def test_nobody_is_called_but_the_coordinator_and_this_machine(net, job, calls):
    """Python's sockets by an audit hook in every process, gRPC's by its own trace in the kits' logs."""
    heard = {tuple(line.split(" ")) for path in calls.iterdir() for line in path.read_text().splitlines()}
    assert "socket.connect" in {event for event, *_ in heard}
    strangers = {line[1:] for line in heard if line[2] not in LOCAL}
    # How FLARE finds out this machine's address: a UDP socket is connected, and nothing is sent.
    assert strangers <= {("UDP", "10.255.255.255", "1")}
    assert "socket.sendto" not in {event for event, *_ in heard}
    for name in net.hospitals:
        log = (net.kits / name / "node.log").read_text(errors="replace")
        peers = PEER.findall(log)
        assert {port for _, port in peers} == {str(net.cables[name].port)}
        hosts = {host.partition(":")[2].replace("%5B", "").replace("%5D", "") for host, _ in peers}
        assert all(ip_address(host).is_loopback for host in hosts)
    assert PEER.findall((net.kits / SERVER / "node.log").read_text(errors="replace")) == []


def test_a_hospitals_log_stays_there(net, job):
    said = b"none of them leaves this node"
    assert said in b"".join(path.read_bytes() for path in net.kits.glob("north/*/log.txt"))
    for place in (net.kits / SERVER, net.folder / "there"):
        assert not any(said in path.read_bytes() for path in place.rglob("*") if path.is_file())
