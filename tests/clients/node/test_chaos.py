"""A run survives what networks and people do, and calls nobody: the short form of `benchmarks/chaos.py`.

One federation, disturbed once; every process of it writes down whom it calls.
"""

import os
import re
import socket
import ssl
from ipaddress import ip_address
from pathlib import Path

import psutil
import pytest

from benchmarks.loopback.federated import ROOT, SERVER
from benchmarks.loopback.processes import family
from clients.federation.federation_file import Federation
from clients.federation.provision import provision

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
    job = own_job(net, rounds=16, network={"silence": 20})
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


@pytest.mark.parametrize("name", [SERVER, "north", "south"])
def test_what_a_node_keeps_is_its_owners_alone(net, job, name):
    kit = net.kits / name
    open_ = [path for path in (kit, *kit.rglob("*")) if path.stat().st_mode & 0o077]
    assert open_ == []


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


def test_a_hospital_listens_on_this_machine_alone(net, job):
    for name in net.hospitals:
        ends = [
            end.laddr.ip
            for process in family(net.nodes[name].pid)
            for end in process.net_connections()
            if end.status == psutil.CONN_LISTEN
        ]
        assert ends != []
        assert all(ip_address(end).is_loopback for end in ends)


def test_a_hospitals_log_stays_there(net, job):
    said = b"none of them leaves this node"
    assert said in b"".join(path.read_bytes() for path in net.kits.glob("north/*/log.txt"))
    for place in (net.kits / SERVER, net.folder / "there"):
        assert not any(said in path.read_bytes() for path in place.rglob("*") if path.is_file())


def speak(port, kit, authority):
    """The first bytes that the coordinator says to whoever comes with this certificate, if any."""
    context = ssl.create_default_context(cafile=str(authority / "startup" / "rootCA.pem"))
    context.set_alpn_protocols(["h2"])
    context.load_cert_chain(kit / "startup" / "client.crt", kit / "startup" / "client.key")
    with (
        socket.create_connection(("127.0.0.1", port), timeout=60) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as line,
    ):
        try:
            line.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
            return line.recv(9)
        except (ssl.SSLError, ConnectionError):
            return b""


def test_a_certificate_of_another_authority_is_refused(net, tmp_path):
    strangers = {**net.federation, "hospitals": [{"name": "north"}]}
    provision(Federation.model_validate(strangers), tmp_path, tmp_path / "kits")
    ours = net.kits / "north"
    assert len(speak(net.port, ours, ours)) == 9
    assert speak(net.port, tmp_path / "kits" / "north", ours) == b""
