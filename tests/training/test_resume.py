"""A run that is stopped at any instant and continued ends as one that was never stopped."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open
from safetensors.torch import load_file

import training.run
from registry.bundle.folder import read_bundle
from tests.thorough import mostly_long
from training.rounds.server.checkpoint import Checkpoint, Checkpoints

ROOT = Path(training.run.__file__).parents[1]

# Two stages of rounds in which clients keep something: normalisation layers and the optimizer's state.
FEDERATE = {
    "stage": "federate",
    "rounds": 3,
    "objective": {
        "name": "supervised",
        "batch_size": 16,
        "optimizer": {"name": "adam", "lr": 1e-3, "state": "keep"},
    },
    "sync": {"name": "except", "groups": ["norm"]},
    "aggregator": {"name": "fedauto"},
}
PERSONALIZE = {"stage": "personalize", "strategy": {"name": "finetune", "epochs": 3}}


def log(out: Path) -> list[dict[str, Any]]:
    """`metrics.jsonl` without what a clock says."""
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name != "seconds"} for line in lines]


def summary(out: Path) -> str:
    """`summary.json` without what a clock says, in its own order."""
    content = json.loads((out / "summary.json").read_text())
    for stage in content["stages"]:
        del stage["seconds"]
    return json.dumps(content)


def said(path: Path) -> dict[str, Any]:
    """The header of a stage's outcome without what a clock says."""
    with safe_open(path, framework="pt") as file:
        header = json.loads(file.metadata()["dermfed"])
    return {name: value for name, value in header.items() if name not in ("seconds", "log_bytes")}


def assert_same(expected: Path, found: Path) -> None:
    """Every stage's tensors and facts, every bundle, and the log are the same."""
    outcomes = sorted((expected / "checkpoints").glob("*/outcome.safetensors"))
    assert outcomes
    for path in outcomes:
        other = found / path.relative_to(expected)
        tensors, others = load_file(path), load_file(other)
        assert tensors.keys() == others.keys()
        differing = [name for name, value in tensors.items() if not value.equal(others[name])]
        assert not differing, f"{path.parent.name}: {differing[:5]}"
        assert said(path) == said(other)
    names = sorted(path.name for path in (expected / "bundles").glob("*"))
    assert names == sorted(path.name for path in (found / "bundles").glob("*"))
    for name in names:
        assert read_bundle(expected / "bundles" / name).digest == read_bundle(found / "bundles" / name).digest
    assert log(expected) == log(found)
    assert summary(expected) == summary(found)


def kept_job(make_job: Any) -> Any:
    objective = {"name": "supervised", "batch_size": 8, "optimizer": FEDERATE["objective"]["optimizer"]}
    federate = {**FEDERATE, "rounds": 2, "objective": objective}
    personalize = {"stage": "personalize", "strategy": {"name": "finetune", "epochs": 2}}
    return make_job(stages=[federate, personalize])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("resume")


@pytest.fixture
def undisturbed(folder: Path, make_job: Any, run_job: Any, cut_at: Any) -> Path:
    """A run that was never stopped, made once; `writes` says how often it made something durable."""
    if not (folder / "writes").exists():
        writes = cut_at(0)
        run_job(kept_job(make_job), out=folder / "run")
        (folder / "writes").write_text(str(len(writes)))
    return folder / "run"


@pytest.mark.parametrize("part", mostly_long([0, 1, 2], 0, 2))
def test_a_power_cut_at_any_write_changes_nothing(part, undisturbed, make_job, run_job, cut_at, tmp_path):
    total = int((undisturbed.parent / "writes").read_text())
    assert total > 30, "the client store is in play"
    third = total // 3
    place = random.Random(part).randrange(1 + part * third, 1 + (part + 1) * third)
    assert_cut_is_mended(place, undisturbed, kept_job(make_job), run_job, cut_at, tmp_path)


@pytest.mark.long
def test_a_power_cut_at_every_write_changes_nothing(undisturbed, make_job, run_job, cut_at, tmp_path):
    for place in range(1, int((undisturbed.parent / "writes").read_text()) + 1):
        assert_cut_is_mended(place, undisturbed, kept_job(make_job), run_job, cut_at, tmp_path)


def assert_cut_is_mended(
    place: int, undisturbed: Path, job: Any, run_job: Any, cut_at: Any, tmp_path: Path
) -> None:
    out = tmp_path / f"cut-{place}"
    cut_at(place)
    with pytest.raises(KeyboardInterrupt):
        run_job(job, out=out)
    cut_at(0)
    run_job(job, out=out)
    assert_same(undisturbed, out)


@pytest.mark.parametrize("stage", ["0-federate", "1-personalize"])
def test_a_round_that_is_logged_but_has_no_checkpoint_is_logged_once(
    stage, undisturbed, make_job, run_job, tmp_path, monkeypatch
):
    job = kept_job(make_job)
    real = Checkpoints.save

    def save(self: Checkpoints, checkpoint: Checkpoint) -> None:
        if checkpoint.round == 1 and self._folder.name == stage:
            raise KeyboardInterrupt
        real(self, checkpoint)

    monkeypatch.setattr(Checkpoints, "save", save)
    with pytest.raises(KeyboardInterrupt):
        run_job(job, out=tmp_path / "run")
    assert log(tmp_path / "run")[-1]["stage"] == stage
    monkeypatch.setattr(Checkpoints, "save", real)
    run_job(job, out=tmp_path / "run")
    assert_same(undisturbed, tmp_path / "run")


def test_a_finished_run_that_is_resumed_does_nothing(undisturbed, make_job, run_job):
    before = {path: path.read_bytes() for path in undisturbed.rglob("*.safetensors")}
    run_job(kept_job(make_job), out=undisturbed)
    assert {path: path.read_bytes() for path in undisturbed.rglob("*.safetensors")} == before


def test_the_comparison_sees_another_seed(undisturbed, make_job, run_job, tmp_path):
    run_job(kept_job(lambda **blocks: make_job(seed=8, **blocks)), out=tmp_path / "other")
    with pytest.raises(AssertionError):
        assert_same(undisturbed, tmp_path / "other")


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 2])
def test_the_command_killed_at_any_time_ends_with_the_same_bundles(
    workers, job_file, tiny, tmp_path, quiet_environment
):
    stages = [FEDERATE, PERSONALIZE, {"stage": "export"}, {"stage": "calibrate", "coverage": 0.8}]
    job = job_file({**tiny, "engine": {"workers": workers}, "stages": stages})
    command = [sys.executable, str(ROOT / "training" / "run.py"), str(job), "--out"]

    def start(out: Path, *more: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*command, str(out), *more], env=quiet_environment, stdout=subprocess.DEVNULL, stderr=None
        )

    def files(out: Path) -> int:
        return sum(len(names) for _, _, names in os.walk(out))  # of folders that vanish nothing

    assert start(tmp_path / "undisturbed").wait() == 0
    whole = files(tmp_path / "undisturbed")
    draw, killed = random.Random(workers), 0
    more: tuple[str, ...] = ()
    for _ in range(3):
        process = start(tmp_path / "run", *more)
        share = draw.uniform(0, 0.7)  # of the files that there are at the end; one that resumes finds some
        while files(tmp_path / "run") < share * whole and process.poll() is None:
            time.sleep(0.002)
        time.sleep(draw.uniform(0, 0.1))
        process.kill()
        killed += process.wait() == -signal.SIGKILL
        more = ("--resume",)
    assert killed, "no kill met a run that was under way"
    assert start(tmp_path / "run", *more).wait() == 0
    assert_same(tmp_path / "undisturbed", tmp_path / "run")
    assert len(list((tmp_path / "run" / "bundles").iterdir())) == 3

    assert start(tmp_path / "again").wait() == 0
    assert_same(tmp_path / "undisturbed", tmp_path / "again")
