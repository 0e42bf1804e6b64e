"""Federations of real processes on this machine, for the tests over FLARE."""

import shutil
import time
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.loopback.federated import ADMIN, Federated
from benchmarks.loopback.permissive import permissive
from benchmarks.loopback.replay import replay
from benchmarks.training_runs import digest, stage_tensors
from clients.data.manifest import Row
from clients.federation.job_folder import pack
from clients.federation.kit import Federation, NodeSettings, open_kit
from clients.federation.provision import provision
from clients.node.hospital import open_gateway
from tests.conftest import TINY
from training.jobs.job import Job

SECONDS = 900  # after which something that is waited for will not come, on a machine that does much else


def until(condition: Callable[[], Any], what: str, pause: float = 0.05) -> None:
    """Wait for something that other processes do."""
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(pause)


@pytest.fixture
def tiny(tiny):
    """A tiny job for hospitals that are too small for a least number of patients."""
    return {**tiny, "privacy": {"min_count": 1}}


@pytest.fixture(scope="session")
def kits(tmp_path_factory):
    """The kits of a federation of three hospitals; nobody is started."""
    folder = tmp_path_factory.mktemp("kits-of-three")
    names = [{"name": name} for name in ("north", "south", "east")]
    plain = {"name": "skin", "coordinator": {"host": "localhost", "port": 1}, "hospitals": names}
    provision(Federation.model_validate(plain), folder, folder / "kits")
    return folder / "kits"


@pytest.fixture
def kit(kits, tmp_path):
    """A hospital's kit, for one test to do with as it likes."""
    shutil.copytree(kits / "north", tmp_path / "house" / "north")
    permissive(tmp_path / "house" / "north")
    return open_kit(tmp_path / "house" / "north", "hospital")


@pytest.fixture
def small_job(tiny):
    """A job of one round for hospitals with few pictures."""
    tiny["data"] = {"manifest": "x.csv", "label_map": "malignancy", "image_size": 16}
    tiny["stages"][0] |= {"rounds": 1, "sync": {"name": "except", "groups": ["norm"]}}
    return Job.model_validate(tiny)


@pytest.fixture
def gateway(kit, small_job, write_pictures, monkeypatch, tmp_path):
    """The gateway of a hospital that has pictures and has been asked nothing."""
    monkeypatch.setenv("DERMFED_CACHE", str(tmp_path / "cache"))
    rows = [Row(f"{n}.png", ("MEL", "NV")[n % 2], lesion_id=f"{n}") for n in range(14)]
    kit.keep_settings(NodeSettings(data=str(write_pictures(rows))))
    return open_gateway(kit, pack(small_job), "skin-1")


@pytest.fixture(scope="module")
def wait_until():
    return until


@pytest.fixture(scope="module")
def federated(tmp_path_factory):
    """`federated(pictures, **environment)`: a federation that is started, each hospital behind a cable."""
    made: list[Federated] = []

    def build(pictures: dict[str, int], **environment: str) -> Federated:
        net = Federated(tmp_path_factory.mktemp("federated"), pictures, cables=True, environment=environment)
        made.append(net)
        net.start_all()
        return net

    yield build
    for net in made:
        net.stop()


@pytest.fixture(scope="module")
def own_job():
    """`own_job(net, rounds, **engine)`: a job of a federation's pictures, in which something stays there."""

    def write(net: Federated, rounds: int = 2, **engine: Any) -> Path:
        tiny = deepcopy(TINY)
        tiny["data"] = {
            "manifest": [f"{name}.csv" for name in net.hospitals],
            "label_map": "malignancy",
            "image_size": 16,
            "clients": {"by": "manifest"},
        }
        tiny["engine"] = engine
        tiny["privacy"] = {"min_count": 1}  # the hospitals are too small for more
        tiny["stages"][0] |= {
            "rounds": rounds,
            "aggregator": {"name": "fedauto"},
            "sync": {"name": "except", "groups": ["norm"]},
        }
        tiny["stages"][0]["objective"]["optimizer"]["state"] = "keep"
        path = net.folder / "job.yaml"
        path.write_text(yaml.safe_dump(tiny))
        return path

    return write


@pytest.fixture(scope="module")
def ended():
    """`ended(net)`: wait until `run.py` has ended, and well."""

    def wait(net: Federated) -> None:
        code = net.nodes[ADMIN].wait(SECONDS)
        assert code == 0, "\n".join(line for _, line in net.said)

    return wait


@pytest.fixture
def same_as_here():
    """`same_as_here(net, job)`: what a run left is what one machine leaves with the same answers."""

    def compare(net: Federated, job: Path) -> None:
        replay(job, net.folder / "here", net.folder / "cache", net.metrics_log("tiny"))
        there, here = net.results("tiny"), net.folder / "here"
        assert digest(stage_tensors(there)) == digest(stage_tensors(here))

    return compare
