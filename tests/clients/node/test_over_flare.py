"""Real processes on this machine: a server and four hospitals with kits and certificates, over loopback."""

import json

import psutil
import pytest

from benchmarks.loopback.federated import SERVER
from benchmarks.loopback.processes import family
from clients.federation.errors import FederationError
from clients.federation.job_folder import write_job
from clients.federation.kit import Federation
from clients.federation.provision import provision
from clients.node.journal import FOLDER, read_journal
from tests.clients.node.federated import alike, start_another
from training.jobs.job import Job, read_job

pytestmark = pytest.mark.long
PICTURES = {"north": 26, "south": 29, "east": 32, "west": 35}


@pytest.fixture(scope="module")
def net(federated):
    return federated(PICTURES)


def test_the_same_job_ends_with_the_same_bytes(net, own_job, ended, same_as_here):
    job = own_job(net, network={"heartbeat_timeout": 6})  # a heartbeat each second, also in a run of seconds
    net.send(job, net.folder / "there")
    ended(net)
    same_as_here(net, job)
    for name in ("metrics.jsonl", "summary.json", "report.html"):
        assert (net.folder / "there" / name).exists()
    lines = [
        [json.loads(line) for line in (net.folder / run / "metrics.jsonl").read_text().splitlines()]
        for run in ("there", "here")
    ]
    assert [alike(line) for line in lines[0]] == [alike(line) for line in lines[1]]


def test_the_journals_hold_all_that_the_coordinator_got(net):
    """What the coordinator counted is the oracle; the journal counts headers, too."""
    got: dict[str, int] = {}
    for line in (net.folder / "there" / "metrics.jsonl").read_text().splitlines():
        for name, moved in json.loads(line)["bytes_by_client"].items():
            got[name] = got.get(name, 0) + moved["up"]
    assert got.keys() == PICTURES.keys()
    for name, bytes_ in got.items():
        entries = list(read_journal(net.kits / name / FOLDER))
        assert {"handshake", "properties", "roster", "answer", "heartbeats"} <= {
            each.kind for each in entries
        }
        fits = [each for each in entries if each.kind == "answer" and each.ask == "fit"]
        assert bytes_ < sum(each.bytes for each in fits) < 1.5 * bytes_
        assert not any(each.kind == "refusal" for each in entries)


def test_nodes_listen_on_this_machine_alone(net):
    nodes = [process for name, process in net.nodes.items() if name != SERVER]
    assert {address for node in nodes for address in listened(family(node.pid))} <= {"127.0.0.1", "::1"}


def listened(processes):
    """The addresses at which any of these processes listens."""
    return {
        each.laddr.ip
        for process in processes
        for each in process.net_connections("inet")
        if each.status == psutil.CONN_LISTEN
    }


def test_a_run_that_leads_out_of_a_kit_is_refused_there(net, own_job, tmp_path, wait_until):
    """A coordinator that lies sends hospitals another name than it takes itself."""
    victim = net.kits / "victim"
    (victim / "answers").mkdir(parents=True)
    (victim / "answers" / "patients.csv").write_text("smith, jane")
    link = net.link()
    try:
        folder = write_job(tmp_path / "out", read_job(own_job(net)), "out-1", net.hospitals)
        config = folder / "app" / "config" / "config_fed_client.json"
        config.write_text(config.read_text().replace('"out-1"', '"../../../victim"'))
        job = link.submit(folder)
        wait_until(lambda: link.state(job).startswith("FINISHED"), "the refusal", pause=0.5)
        link.fetch(job, tmp_path / "fetched")
    finally:
        link.close()
    assert [path.name for path in victim.rglob("*")] == ["answers", "patients.csv"]
    told = json.loads((tmp_path / "fetched" / "outcome.json").read_text())
    assert "no plain name" in told["text"]
    assert str(net.kits) not in told["text"]
    assert "no plain name" in (net.kits / "north" / "node.log").read_text()


def submitted(link, folder):
    """The FLARE job, or None where the coordinator will not have it."""
    try:
        return link.submit(folder)
    except FederationError:
        return None


def test_a_job_that_brings_code_or_other_parts_is_refused(net, tiny, tmp_path, wait_until):
    link = net.link()
    try:
        for change in ("code", "part"):
            folder = write_job(tmp_path / change, Job.model_validate(tiny), "evil", net.hospitals)
            if change == "code":
                (folder / "app" / "custom").mkdir()
                (folder / "app" / "custom" / "evil.py").write_text("print('mine')\n")
            else:
                config = folder / "app" / "config" / "config_fed_client.json"
                content = json.loads(config.read_text())
                content["components"][0] = {
                    "id": "hospital",
                    "path": "subprocess.Popen",
                    "args": {"args": ["id"]},
                }
                config.write_text(json.dumps(content))
            job = submitted(link, folder)
            if job is None:
                continue
            wait_until(lambda job=job: link.state(job).startswith("FINISHED"), "the refusal", pause=0.5)
            assert link.state(job) != "FINISHED:COMPLETED"
            assert not list((net.kits / SERVER / "private" / "runs").glob("evil*"))
    finally:
        link.close()


def test_a_node_of_another_federation_never_gets_in(net, tmp_path, wait_until):
    strangers = {**net.federation, "hospitals": [{"name": "north"}]}
    provision(Federation.model_validate(strangers), tmp_path, tmp_path / "kits")
    kit = tmp_path / "kits" / "north"
    process = start_another(net, kit, net.folder / "north.csv")
    try:
        log = kit / "node.log"
        wait_until(lambda: log.exists() and "CERTIFICATE_VERIFY_FAILED" in log.read_text(), "the refusal")
        assert "Successfully registered client" not in (kit / "log.txt").read_text()
    finally:
        process.terminate()
        process.wait(60)
