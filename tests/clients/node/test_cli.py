"""`dermfed-node`: what it makes, checks, refuses and documents."""

import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from benchmarks.loopback.permissive import permissive
from clients.federation.kit import open_kit
from clients.node import check as checks
from clients.node.cli import app
from clients.node.identity import known_path, open_identity
from training.jobs.disclosure_report import disclosures, over_network
from training.jobs.job import read_job

FEDERATION = {
    "name": "skin",
    "coordinator": {"host": "localhost", "port": 1},
    "hospitals": [{"name": "north"}, {"name": "south"}],
}


@pytest.fixture(scope="module")
def kits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    (folder / "federation.yaml").write_text(yaml.safe_dump(FEDERATION))
    ended = CliRunner().invoke(
        app, ["provision", str(folder / "federation.yaml"), "--out", str(folder / "kits"), "--json"]
    )
    assert ended.exit_code == 0
    assert {Path(kit).name for kit in json.loads(ended.output)["kits"]} == {
        "server",
        "north",
        "south",
        "admin",
    }
    return folder / "kits"


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


@pytest.mark.parametrize("command", ["check", "start"])
def test_a_package_that_jobs_import_is_missed_before_a_job_comes(kits, tmp_path, command):
    """In an environment of its own, as `pip install` left it: nothing was imported yet."""
    without = (
        "import importlib.util, sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] == 'onnxruntime':\n"
        "            raise ModuleNotFoundError(name)\n"
        "found = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name: None if name == 'onnxruntime' else found(name)\n"
        "sys.meta_path.insert(0, Missing())\n"
        "from dermfed.commands import node\n"
        f"sys.argv = ['dermfed-node', {command!r}, '--kit', {str(kits / 'north')!r}]\n"
        "node()\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", without], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert ended.returncode == 2
    assert "onnxruntime cannot be imported" in ended.stderr
    assert "dermfed[node]" in " ".join(ended.stderr.split())


def test_check_says_what_is_wrong_and_ends_with_one(kits, monkeypatch):
    monkeypatch.setattr(checks, "SECONDS", 0.5)
    ended = run("check", "--kit", kits / "north", "--json")
    found = {each["about"]: each for each in json.loads(ended.output)}
    assert ended.exit_code == 1
    assert not found["connection"]["fit"]
    assert "allow outgoing connections" in found["connection"]["text"]
    assert {about for about, each in found.items() if each["fit"]} == {
        "versions",
        "certificate",
        "clock",
        "disk",
        "identity",
        "policy",
    }
    assert "CN=north" in found["certificate"]["text"]


def test_a_node_that_is_fit_is_told_what_will_be_sent(kits, monkeypatch, tmp_path, tiny, write_pictures):
    from clients.data.manifest import Row

    with socket.create_server(("127.0.0.1", 0)) as server:
        kit_file = kits / "south" / "federation.yaml"
        kit_file.write_text(kit_file.read_text().replace("port: 1\n", f"port: {server.getsockname()[1]}\n"))
        rows = [Row(f"{n}.png", ("MEL", "NV")[n % 2], "2", "fitzpatrick") for n in range(60)]
        manifest = write_pictures(rows)
        tiny["data"] = {"manifest": "x.csv", "label_map": "malignancy", "image_size": 16}
        tiny["privacy"] = {"min_count": 2}
        (tmp_path / "job.yaml").write_text(yaml.safe_dump(tiny))
        monkeypatch.setenv("DERMFED_CACHE", str(tmp_path / "cache"))
        permissive(kits / "south")
        ended = run("check", "--kit", kits / "south", "--data", manifest, "--job", tmp_path / "job.yaml")
    assert ended.exit_code == 0, ended.output
    assert "60 pictures" in ended.output
    assert "classes benign, malignant" in ended.output
    assert "Never: pictures, file names" in ended.output
    assert (
        "sums over fewer than 2 patients, by themselves or as the difference of two answers" in ended.output
    )
    for row in disclosures(over_network(read_job(tmp_path / "job.yaml")), ("north", "south")):
        assert f"ok  who sees {row.topic}: {row.line}\n" in ended.output
    assert "2 hospitals take part (north, south), and a sum of fewer than 3 hides too little" in ended.output


def test_a_built_in_job_is_checked_by_its_name(kits, monkeypatch):
    monkeypatch.setattr(checks, "SECONDS", 0.5)
    monkeypatch.setenv("DERMFED_DATA", "/nowhere")
    assert "who sees weights" in run("check", "--kit", kits / "north", "--job", "fedperl@t3").output


def test_hospitals_can_compare_their_keys(kits, monkeypatch):
    """What one is told of its own key is what another is told that it knows it by."""
    monkeypatch.setattr(checks, "SECONDS", 0.5)

    def identity(name):
        found = json.loads(run("check", "--kit", kits / name, "--json").output)
        [told] = [each for each in found if each["about"] == "identity"]
        return told

    south = identity("south")
    [own] = re.findall(r"signs sums with the key (sha256:[0-9a-f]{64})", south["text"])
    assert "no sum yet with north" in south["text"]
    assert "no sum yet with south" in identity("north")["text"]
    known = known_path(open_kit(kits / "north"))
    open_identity(open_kit(kits / "north"), "run", lambda _: None).known.require({"south": own})
    assert f"south is known by {own}" in identity("north")["text"]
    known.write_text("{")
    assert not identity("north")["fit"]
    assert "hospitals.json of this kit cannot be read" in identity("north")["text"]
    known.unlink()
    assert "identity" not in run("check", "--kit", kits / "server", "--json").output


def test_a_certificate_of_another_authority_is_not_fit(kits, tmp_path):
    strange = tmp_path / "federation.yaml"
    strange.write_text(yaml.safe_dump(FEDERATION))
    run("provision", strange, "--out", tmp_path / "kits")
    root = kits / "north" / "startup" / "rootCA.pem"
    own = root.read_bytes()
    root.write_bytes((tmp_path / "kits" / "north" / "startup" / "rootCA.pem").read_bytes())
    ended = run("check", "--kit", kits / "north", "--json")
    root.write_bytes(own)
    found = {each["about"]: each for each in json.loads(ended.output)}
    assert not found["certificate"]["fit"]
