"""CONTRIBUTING.md followed to the letter: a package adds an aggregator, another a part of each kind."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import training.run
from clients.data.adapters.table import ADAPTERS
from personalization.strategies import STRATEGIES
from registry.gates.gate_set import GATES
from registry.registry import Registry
from training.algorithms.aggregators import AGGREGATORS
from training.algorithms.exchanges import EXCHANGES
from training.algorithms.objectives import OBJECTIVES
from training.algorithms.objectives.beit import TOKENIZERS
from training.algorithms.sync import SYNCS
from training.jobs.stages import STAGES

ROOT = Path(training.run.__file__).parents[1]
GUIDE = (ROOT / "CONTRIBUTING.md").read_text()


def block(language: str) -> str:
    """The one fenced block of this language."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    return found


KINDS = {
    "An aggregator": AGGREGATORS,
    "An objective": OBJECTIVES,
    "An exchange": EXCHANGES,
    "A sync": SYNCS,
    "A strategy": STRATEGIES,
    "A tokenizer": TOKENIZERS,
    "A stage": STAGES,
    "An adapter": ADAPTERS,
    "A gate": GATES,
}
ONE_OF_EACH = Path(__file__).with_name("one_of_each")


@pytest.fixture
def outside(install, tmp_path: Path) -> Path:
    """The distribution of the guide, as an installer would lay it down."""
    project = tomllib.loads(block("toml"))["project"]
    (tmp_path / "job.yaml").write_text(block("yaml"))
    return install(project["name"], {"median_voice": block("python")}, project["entry-points"])


@pytest.fixture
def one_of_each(install, tmp_path: Path) -> Path:
    """A distribution with a part of each kind, and a job that names all but the gate."""
    project = tomllib.loads((ONE_OF_EACH / "pyproject.toml").read_text())["project"]
    (tmp_path / "job.yaml").write_text((ONE_OF_EACH / "job.yaml").read_text())
    module = (ONE_OF_EACH / "one_of_each.py").read_text()
    return install(project["name"], {"one_of_each": module}, project["entry-points"])


@pytest.fixture
def call(tmp_path, quiet_environment):
    """Calls a module of ours in `tmp_path`, as a process of its own that finds a distribution beside it."""

    def run(site, module, *arguments):
        environment = {
            **quiet_environment,
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT, site))),
            "DERMFED_REGISTRY_URL": f"sqlite:///{tmp_path / 'registry.db'}",
            "DERMFED_STORE": str(tmp_path / "store"),
        }
        return subprocess.run(
            [sys.executable, "-m", module, *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment,
            check=False,
        )

    return run


@pytest.mark.usefixtures("outside")
def test_an_aggregator_from_outside_runs_in_a_job(tmp_path, train_command):
    ended = train_command("job.yaml", "--out", "run", "--json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["job"] == "outside"
    rounds = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert len(rounds) == 2
    for line in rounds:
        assert len(line["answered"]) == 3
        assert list(line["models"]["global"]["weights"].values()) == [0.75], "one client has the say"


def test_the_distribution_of_all_kinds_has_one_of_each():
    points = tomllib.loads((ONE_OF_EACH / "pyproject.toml").read_text())["project"]["entry-points"]
    assert points.keys() == {table.group for table in KINDS.values()}


@pytest.mark.long
def test_one_of_each_kind_from_outside_runs_in_a_job_and_its_promotion(one_of_each, tmp_path, call):
    def ask_for(classes):
        (tmp_path / "gates.yaml").write_text(f"gates: [{{name: classes, minimum: {classes}}}]")
        asked = call(one_of_each, "registry.cli.app", "gates", "set", "gates.yaml", "--reason", "the board")
        assert asked.returncode == 0, asked.stderr

    ask_for(classes=3)
    ended = call(one_of_each, "training.run", "job.yaml", "--out", "run", "--json")
    assert ended.returncode == 1, ended.stderr
    assert "gate classes (refused): the model tells 2 classes apart; at least 3 are asked for" in ended.stderr
    summary = json.loads(ended.stdout)
    facts = {stage["name"]: stage["facts"] for stage in summary["stages"]}
    assert list(facts) == ["pretrain", "federate", "personalize", "export", "register", "roll"]
    assert set(facts["federate"]["rounds_of"].values()) == {2}, "each client kept its count"
    assert sum(facts["roll"]["pictures"].values()) == 48
    assert facts["register"]["promoted_to"] is None

    ask_for(classes=2)
    numbers = [version["version"] for version in summary["versions"]]
    promote = ("promote", "one-of-each", *numbers, "--to", "production")
    assert call(one_of_each, "registry.cli.app", *promote).returncode == 0
    with Registry.open(f"sqlite:///{tmp_path / 'registry.db'}", str(tmp_path / "store")) as registry:
        told = registry.history("one-of-each")[-1]
    assert told.kind == "promoted"
    assert [(result.gate, result.verdict) for result in told.gates.results] == [("classes", "passed")]


def test_without_the_distribution_its_parts_are_unknown(train_command, tmp_path):
    (tmp_path / "job.yaml").write_text(block("yaml"))
    ended = train_command(tmp_path / "job.yaml")
    assert ended.code == 2
    assert "unknown aggregator `median-voice`" in ended.err


def recipe(kind: str) -> list[str]:
    """The numbered steps for adding one of a kind."""
    (steps,) = re.findall(rf"^\*\*{kind}\*\*\n((?:\d\. .*\n)+)", GUIDE, re.MULTILINE)
    return steps.splitlines()


@pytest.mark.parametrize("kind", ["An aggregator", "A gate", "An adapter"])
def test_a_recipe_takes_three_lines_that_name_what_is_there(kind):
    steps = recipe(kind)
    assert [step[:3] for step in steps] == ["1. ", "2. ", "3. "]
    assert f"`{KINDS[kind].group}`" in steps[2]


def test_the_guide_names_every_group_and_only_files_that_are_there():
    assert not [table.group for table in KINDS.values() if f"`{table.group}`" not in GUIDE]
    named = re.findall(r"`((?:training|personalization|clients|registry|serving|tests|docs)/[^`]+)`", GUIDE)
    assert len(named) > 15
    assert not [path for path in named if not (ROOT / path).exists()]


def test_every_make_target_of_the_guide_exists():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"`make ([a-z]+)`", GUIDE))
    assert named
    assert named <= targets
