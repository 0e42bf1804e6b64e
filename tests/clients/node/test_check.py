"""What `dermfed-node check` foresees of a job on this hospital's pictures, and what it leaves on the disk."""

import json
import os
import stat
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from benchmarks.loopback.permissive import permissive
from clients.node.cli import app
from tests.clients.node.talk import ask, join
from training.rounds.census import CENSUS


@pytest.fixture
def found(kit, small_job, tmp_path, monkeypatch):
    """`found(*options)`: what the check says of a job on the manifest that the node was started with."""
    monkeypatch.setattr("clients.node.check.SECONDS", 0.2)
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(small_job.resolved()))

    def run(*options):
        job = str(tmp_path / "job.yaml")
        given = ["--kit", str(kit.path), "--job", job, "--data", kit.settings().data, "--json"]
        words = ["check", *given, *options]
        return {each["about"]: each for each in json.loads(CliRunner().invoke(app, words).output)}

    return run


@pytest.fixture
def small_job(small_job):
    """A job that tells nothing of single patients."""
    return small_job.model_copy(update={"privacy": small_job.privacy.model_copy(update={"min_count": 2})})


def test_check_foresees_a_census_that_the_policy_refuses(kit, gateway, small_job, found):
    permissive(kit.path, census_apart=True)
    assert found()["census"]["fit"], "nothing was told before"
    join(gateway, small_job)
    ask(gateway, small_job, CENSUS, 1)
    assert found()["census"]["fit"], "the same pictures again"
    manifest = Path(kit.settings().data)
    lines = manifest.read_text().splitlines(keepends=True)
    manifest.write_text("".join(lines[:1] + lines[2:]))
    told = found()["census"]
    assert not told["fit"]
    assert "a new run is refused: numbers of these pictures differ by fewer than 2 patients" in told["text"]
    permissive(kit.path)
    assert "census" not in found()


def test_decoded_pictures_that_the_check_leaves_are_for_its_owner_alone(kit, gateway, found, tmp_path):
    before = os.umask(0o022)
    try:
        assert found()["data"]["fit"]
        assert os.umask(0o022) == 0o022, "what the process makes later is as before"
    finally:
        os.umask(before)
    made = list((tmp_path / "cache").rglob("*"))
    assert any(path.is_file() for path in made)
    assert {stat.S_IMODE(path.stat().st_mode) & 0o077 for path in made} == {0}
