"""A run over the network that the previous version left in mid-round is taken up, here and over there."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from benchmarks.loopback.federated import free_port
from tests.fixtures import PREVIOUS, ROOT, command
from tests.fixtures.making.checkout import Checkout
from tests.fixtures.making.federation import FLARE_SECONDS, HOSPITALS, KITS, PORT, Nodes
from tests.fixtures.making.packed import unpack
from tests.previous_version.resuming import AS_COUNTED_BEFORE, assert_reached, assert_went_on, resume

FOLDER = PREVIOUS / "federation"


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """What the coordinator, the hospitals and whoever sent the job had when all were killed."""
    return unpack(FOLDER / "killed.tar.xz", tmp_path / "left")


def run_of(kit: Path) -> Path:
    """The one run that a site has something of."""
    [folder] = (kit / "private" / "runs").iterdir()
    return folder


def test_the_sites_know_the_run_by_one_name(left):
    record = json.loads((left / "sent" / "federated.json").read_text())
    assert {run_of(left / name).name for name in ("server", *HOSPITALS)} == {record["run"]}


def test_one_machine_ends_it_with_the_weights_of_the_federation(left, tmp_path, record_property):
    """A run's folder is the same wherever its clients are, and so is its job's digest."""
    out = tmp_path / "run"
    shutil.copytree(run_of(left / "server"), out)
    for name in HOSPITALS:
        shutil.copytree(run_of(left / name) / "clients", out / "clients", dirs_exist_ok=True)
    resume([(FOLDER / "job.yaml", out)], tmp_path)
    assert_went_on(FOLDER, run_of(left / "server"), out)
    record_property("compared", assert_reached(FOLDER, out, tmp_path))


@pytest.mark.long
def test_the_federation_takes_it_up_with_the_kits_that_it_has(left, tmp_path, monkeypatch, record_property):
    folder = tmp_path / "federation"
    shutil.copytree(FOLDER, folder)
    for name in ("server", *HOSPITALS):
        shutil.copytree(left / name, folder / "kits" / name, dirs_exist_ok=True)
    port = str(free_port())
    for path in (each for each in folder.rglob("*") if each.suffix in (".json", ".yaml")):
        path.write_text(path.read_text().replace(KITS, str(folder / "kits")).replace(str(PORT), port))
    renewal = ["dermfed-node", "renew", str(folder / "federation.yaml"), "--out", str(folder / "kits")]
    monkeypatch.setattr("sys.argv", renewal)
    with pytest.raises(SystemExit) as ended:
        command("dermfed-node")()
    assert not ended.value.code
    shutil.copyfile(AS_COUNTED_BEFORE / "sitecustomize.py", tmp_path / "sitecustomize.py")
    nodes = Nodes(Checkout(ROOT, Path(sys.executable), tmp_path), folder)
    try:
        nodes.start()
        run = nodes.send(folder / "job.yaml", left / "sent", "--resume")
        assert run.wait(FLARE_SECONDS) == 0
    finally:
        nodes.kill()
    result = run_of(folder / "kits" / "server")
    assert_went_on(FOLDER, run_of(left / "server"), result)
    record_property("compared", assert_reached(FOLDER, result, tmp_path))
