"""Whatever of ours is started refuses to start where one of our names is somebody else's.

Each attack has its control: the same place without the question, where the stranger's code runs.
"""

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from dermfed import commands
from dermfed.own_names import NAMES, foreign
from tests.thorough import mostly_long

ROOT = Path(__file__).parents[2]
SCRIPTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
RAN = "the stranger ran"
REFUSED = "dermfed does not start: Python finds"

Run = Callable[..., subprocess.CompletedProcess[str]]


def stranger(folder: Path, *names: str) -> Path:
    """A folder with packages of others, which tell when they are imported; returns it."""
    for name in names:
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(f"print({RAN!r}, flush=True)\n")
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run Python as a process of its own, with `places` on its path before ours."""
    work = tmp_path / "work"
    work.mkdir()

    def start(
        *arguments: object, places: tuple[Path, ...] = (), cwd: Path = work, ours: Path = ROOT
    ) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("DERMFED_", "PY"))}
        return subprocess.run(
            [sys.executable, *map(str, arguments)],
            env={
                **kept,
                "PYTHONPATH": os.pathsep.join(map(str, (*places, ours))),
                "BENTOML_HOME": str(tmp_path / "bentoml"),
                "BENTOML_DO_NOT_TRACK": "True",
            },
            cwd=cwd,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    return start


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], Path]:
    """What an installation writes for a console script; the first place on its path is where it lies."""

    def write(target: str) -> Path:
        module, _, attribute = target.partition(":")
        path = tmp_path / "bin" / "command"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"import sys\nfrom {module} import {attribute}\nsys.exit({attribute}())\n")
        return path

    return write


def assert_refused(ended: subprocess.CompletedProcess[str], name: str, there: Path) -> None:
    """It says who is in the way, who should be there, and what to do; and the stranger never ran."""
    assert (ended.returncode, RAN in ended.stdout) == (2, False), ended.stdout + ended.stderr
    assert f"{REFUSED} {name!r} at {there / name / '__init__.py'}" in ended.stderr
    assert f"dermfed's own, {ROOT / name / '__init__.py'}" in ended.stderr
    assert "Start in another folder, rename or remove that one, or uninstall" in ended.stderr
    assert "Traceback" not in ended.stderr


# Commands


@pytest.mark.parametrize("command", mostly_long(["dermfed-train", "dermfed-serve"], "dermfed-train"))
def test_a_command_does_not_start_under_another_distribution(command, run, script, tmp_path):
    there, target = tmp_path / "site", SCRIPTS[command]
    room, _, _ = commands.COMMANDS[target.partition(":")[2]].partition(".")
    stranger(there, room)
    (there / "common_words-1.0.dist-info").mkdir()
    (there / "common_words-1.0.dist-info" / "METADATA").write_text("Name: common-words\nVersion: 1.0\n")
    (there / "common_words-1.0.dist-info" / "top_level.txt").write_text(f"{room}\n")
    refused = run(script(target), "--version", places=(there,))
    assert_refused(refused, room, there)
    assert "uninstall the distribution that it came with (common-words)" in refused.stderr
    direct = commands.COMMANDS[target.partition(":")[2]]
    assert RAN in run(script(f"{direct}:main"), "--version", places=(there,)).stdout


@pytest.mark.parametrize("command", SCRIPTS)
def test_a_command_is_the_main_of_its_room(command):
    module, _, attribute = SCRIPTS[command].partition(":")
    assert module == commands.__name__
    assert command == f"dermfed-{attribute}"
    assert getattr(commands, attribute).__module__ == commands.COMMANDS[attribute]


def test_a_folder_where_one_works_is_nothing_to_a_command_that_does_not_look_there(run, script):
    stranger(Path(script(SCRIPTS["dermfed-registry"])).parents[1] / "work", *NAMES)
    ended = run(script(SCRIPTS["dermfed-registry"]), "--version")
    assert (ended.returncode, RAN in ended.stdout) == (0, False), ended.stderr


# What commands start in the working directory


def test_the_service_does_not_start_in_a_folder_with_another_serving(run, script, tmp_path):
    work = stranger(tmp_path / "work", "serving")
    assert_refused(run(script(SCRIPTS["dermfed-serve"])), "serving", work)
    ended = run("-m", "bentoml", "serve", "serving.service:DiagnosisService", "--port", "1")
    assert RAN in ended.stdout + ended.stderr  # what the command would have become


def test_a_node_does_not_start_in_a_folder_with_another_clients(run, script, tmp_path):
    work = stranger(tmp_path / "work", "clients")
    assert_refused(run(script(SCRIPTS["dermfed-node"]), "start", "--kit", "kits/north"), "clients", work)
    assert RAN in run("-m", "clients.federation.flare").stdout


# What others load


def test_the_service_is_not_loaded_beside_another_registry(run, tmp_path):
    there = stranger(tmp_path / "site", "registry")
    ended = run("-m", "bentoml", "serve", "serving.service:DiagnosisService", "--port", "1", places=(there,))
    assert_refused(ended, "registry", there)
    assert RAN in run("-c", "import serving.http.app", places=(there,)).stdout


@pytest.mark.long  # both load torch first
@pytest.mark.parametrize(
    ("name", "without_asking"),
    [
        ("training", "clients.node.request_handler"),
        ("clients", "training.wiring"),
        ("personalization", "training.wiring"),
    ],
)
def test_without_asking_each_side_runs_the_stranger(name, without_asking, run, tmp_path):
    there = stranger(tmp_path / "site", name)
    assert RAN in run("-c", f"import {without_asking}", places=(there,)).stdout


# What is started by its file or its module, or imported


@pytest.mark.parametrize(
    ("name", "place", "arguments"),
    [
        ("training", "site", ("-c", "import clients.node.hospital")),
        ("clients", "site", ("-c", "import training.coordinator")),
        ("personalization", "site", (ROOT / "training" / "run.py", "--recipes")),
        ("training", "site", ("-m", "clients.federation.flare", "--help")),
        ("training", "work", ("-m", "clients.node.cli", "--help")),
    ],
)
def test_nothing_works_beside_a_stranger(name, place, arguments, run, tmp_path):
    there = stranger(tmp_path / place, name)
    assert_refused(run(*arguments, places=(there,) if place == "site" else ()), name, there)


# Whose package it is


def test_a_module_of_that_name_is_a_stranger(tmp_path):
    (tmp_path / "training.py").touch()
    path = list(sys.path)
    assert foreign(tmp_path) == {"training": str(tmp_path / "training.py")}
    assert sys.path == path


def copy(site: Path, *rooms: str) -> Path:
    """An installation with the roots of these rooms; returns where it is."""
    shutil.copytree(ROOT / "dermfed", site / "dermfed")
    for room in rooms:
        (site / room).mkdir()
        shutil.copy(ROOT / room / "__init__.py", site / room)
    return site


def test_a_checkout_where_an_installed_command_is_started_is_ours(tmp_path):
    assert foreign(copy(tmp_path, *NAMES)) == {}


ASK = "from dermfed.own_names import refuse_foreign; refuse_foreign()"


@pytest.mark.parametrize("damage", ["__init__ of another", "no __init__"])
def test_a_distribution_that_wrote_over_ours_is_found(damage, run, tmp_path):
    site = copy(tmp_path / "site", *NAMES)
    assert run("-c", ASK, ours=site).returncode == 0
    if damage == "no __init__":  # what uninstalling the other one leaves
        (site / "registry" / "__init__.py").unlink()
    else:
        (site / "registry" / "__init__.py").write_text('"""Common words."""\n')
    ended = run("-c", ASK, ours=site)
    assert ended.returncode == 2
    assert f"{REFUSED} 'registry' at {site / 'registry'}" in ended.stderr
    assert "and reinstall dermfed" in ended.stderr


def test_nothing_is_imported_to_find_out(run):
    shown = run(
        "-c", f"import sys; {ASK}; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    )
    assert shown.returncode == 0, shown.stderr
    assert not {*NAMES, "torch", "numpy", "pydantic", "typer"} & {*shown.stdout.split()}
