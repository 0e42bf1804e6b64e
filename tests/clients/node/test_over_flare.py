"""Real processes on this machine: a server and four hospitals with kits and certificates, over loopback."""

import json
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from clients.federation.errors import FederationError
from clients.federation.federation_file import Federation
from clients.federation.job_folder import write_job
from clients.federation.provision import provision
from tests.clients.node.federated import HOSPITALS, ROOT, weights
from training.job import Job

pytestmark = pytest.mark.long


def test_the_same_job_ends_with_the_same_bytes(net, tiny):
    tiny["data"] = {
        "manifest": [f"{name}.csv" for name in HOSPITALS],
        "label_map": "malignancy",
        "image_size": 16,
        "clients": {"by": "manifest"},
    }
    tiny["stages"][0]["aggregator"] = {"name": "fedauto"}
    tiny["stages"][0]["sync"] = {"name": "except", "groups": ["norm"]}
    path = net.folder / "job.yaml"
    path.write_text(yaml.safe_dump(tiny))
    there = net.run(
        path, net.folder / "there", "--engine", "nvflare", "--kit", str(net.folder / "kits" / "admin")
    )
    assert there.returncode == 0, there.stderr
    here = net.run(path, net.folder / "here")
    assert here.returncode == 0, here.stderr
    assert weights(net.results("tiny")) == weights(net.folder / "here")
    for name in ("metrics.jsonl", "summary.json", "report.html"):
        assert (net.folder / "there" / name).exists()
    lines = [
        [json.loads(line) for line in (net.folder / run / "metrics.jsonl").read_text().splitlines()]
        for run in ("there", "here")
    ]
    assert [{**line, "seconds": 0} for line in lines[0]] == [{**line, "seconds": 0} for line in lines[1]]


def test_nothing_of_a_kit_is_for_others_to_read(net):
    for kit in ("server", *HOSPITALS):
        assert stat.S_IMODE((net.folder / "kits" / kit).stat().st_mode) == 0o700
    assert not Path("/tmp/nvflare/jobs-storage").exists() or not any(
        Path("/tmp/nvflare/jobs-storage").iterdir()
    )


def submitted(link, folder):
    """The FLARE job, or None where the coordinator will not have it."""
    try:
        return link.submit(folder)
    except FederationError:
        return None


def test_a_job_that_brings_code_or_other_parts_is_refused(net, tiny, tmp_path):
    link = net.link()
    try:
        for change in ("code", "part"):
            folder = write_job(tmp_path / change, Job.model_validate(tiny), "evil", HOSPITALS)
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
            end = time.monotonic() + 120
            while not link.state(job).startswith("FINISHED"):
                assert time.monotonic() < end
                time.sleep(1)
            assert link.state(job) != "FINISHED:COMPLETED"
            assert not list((net.folder / "kits" / "server" / "private" / "runs").glob("evil*"))
    finally:
        link.close()


def test_a_node_with_a_certificate_of_another_authority_never_gets_in(net, tmp_path):
    strangers = {**net.federation, "hospitals": [{"name": "north"}]}
    provision(Federation.model_validate(strangers), tmp_path, tmp_path / "kits")
    shutil.copy(net.folder / "north.csv", tmp_path / "north.csv")
    try:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "clients.node.cli", "start"),
                *("--kit", str(tmp_path / "kits" / "north"), "--data", str(tmp_path / "north.csv")),
            ],
            env=net.env,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(25)
        log = (tmp_path / "kits" / "north" / "log.txt").read_text()
        assert "Successfully registered client" not in log
    finally:
        process.terminate()
        process.wait(30)
