"""CONTRIBUTING.md followed to the letter: a distribution from outside adds an aggregator and an adapter."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import training.run
from clients.data.adapters.table import GROUP as ADAPTERS
from personalization.strategies import STRATEGIES
from training.aggregators import AGGREGATORS
from training.exchanges import EXCHANGES
from training.objectives import OBJECTIVES
from training.stages import STAGES
from training.sync import SYNCS

ROOT = Path(training.run.__file__).parents[1]
GUIDE = (ROOT / "CONTRIBUTING.md").read_text()


def block(language: str) -> str:
    """The one fenced block of this language."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    return found


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """The distribution of the guide, as an installer would lay it down."""
    site = tmp_path / "site"
    project = tomllib.loads(block("toml"))["project"]
    info = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir(parents=True)
    (site / "median_voice.py").write_text(block("python"))
    metadata = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(metadata)
    lines = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {where}" for name, where in points.items()), ""]
    (info / "entry_points.txt").write_text("\n".join(lines))
    (tmp_path / "job.yaml").write_text(block("yaml"))
    return site


def test_an_aggregator_and_an_adapter_from_outside_run_in_a_job(outside, tmp_path, quiet_environment):
    ended = subprocess.run(
        [sys.executable, str(ROOT / "training" / "run.py"), "job.yaml", "--out", "run", "--json"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**quiet_environment, "PYTHONPATH": str(outside)},
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["job"] == "outside"
    rounds = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert len(rounds) == 2
    for line in rounds:
        assert len(line["answered"]) == 3
        assert list(line["models"]["global"]["weights"].values()) == [0.75], "one client has the say"


def test_without_the_distribution_its_parts_are_unknown(outside, train_command, tmp_path):
    ended = train_command(tmp_path / "job.yaml")
    assert ended.code == 2
    assert "unknown aggregator `median-voice`" in ended.err


def recipe(kind: str) -> list[str]:
    """The numbered steps for adding one of a kind."""
    (steps,) = re.findall(rf"^\*\*{kind}\*\*\n((?:\d\. .*\n)+)", GUIDE, re.MULTILINE)
    return steps.splitlines()


@pytest.mark.parametrize(
    ("kind", "group"),
    [
        ("An aggregator", AGGREGATORS.group),
        ("An objective", OBJECTIVES.group),
        ("An exchange", EXCHANGES.group),
        ("A sync", SYNCS.group),
        ("A strategy", STRATEGIES.group),
        ("A stage", STAGES.group),
        ("An adapter", ADAPTERS),
        ("A recipe", None),
    ],
)
def test_each_part_takes_five_lines_that_name_what_is_there(kind, group):
    steps = recipe(kind)
    assert [step[:3] for step in steps] == [f"{number}. " for number in range(1, 6)]
    if group is not None:
        assert f"`{group}`" in steps[4]
    for path in re.findall(r"`((?:training|personalization|clients|tests)/[^`]+)`", "\n".join(steps)):
        if "<name>" not in path:
            assert (ROOT / path).exists()
        elif not path.startswith("tests/"):  # a test's folder mirrors its part's, and comes with the first
            assert (ROOT / path).parent.is_dir()


def test_every_make_target_of_the_guide_exists():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"`make ([a-z]+)`", GUIDE))
    assert named
    assert named <= targets
