"""The units and the container of nodes: what they start exists, and who they are may do little."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.main import get_command

from clients.federation.processes import GRACE
from clients.node.cli import app

DEPLOYMENT = Path(__file__).parents[3] / "deployment"
UNITS = {"dermfed-node": ["--kit", "--data"], "dermfed-coordinator": ["--kit"]}


def settings(name):
    """The last value of each setting of a unit."""
    lines = (DEPLOYMENT / f"{name}.service").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_starts_a_command_that_exists_as_a_user_of_its_own(name):
    unit = settings(name)
    program, command, *words = unit["ExecStart"].split()
    assert program == "/opt/dermfed/bin/dermfed-node"
    known = {option for each in get_command(app).commands[command].params for option in each.opts}
    assert [word for word in words if word.startswith("--")] == UNITS[name]
    assert set(UNITS[name]) <= known
    assert unit["User"] == unit["Group"] == unit["StateDirectory"] == unit["CacheDirectory"] == name
    assert unit["UMask"] == "0077"
    assert unit["CapabilityBoundingSet"] == ""


@pytest.mark.parametrize("name", UNITS)
def test_one_process_that_runs_out_of_memory_does_not_end_the_unit(name):
    """systemd's own default stops all of a unit where the kernel ended one process of it."""
    assert settings(name)["OOMPolicy"] == "continue"


@pytest.mark.parametrize("name", UNITS)
def test_it_comes_back_but_not_after_wrong_use_and_has_time_to_end(name):
    unit = settings(name)
    assert unit["Restart"] == "on-failure"
    assert unit["RestartPreventExitStatus"] == "2"
    assert float(unit["TimeoutStopSec"]) > GRACE
    assert unit["KillMode"] == "mixed"


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_reads_every_line_of_a_unit(name):
    path = DEPLOYMENT / f"{name}.service"
    ran = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True, check=False)
    about_it = [line for line in ran.stderr.splitlines() if name in line and "is not executable" not in line]
    assert not about_it


def test_the_container_is_no_root_starts_what_exists_and_takes_nothing_from_a_network():
    text = (DEPLOYMENT / "Containerfile.node").read_text()
    assert re.search(r"^USER 10002:10002$", text, flags=re.MULTILINE)
    assert 'CMD ["start", "--kit"' in text
    assert "--no-index" in text
    assert "sha256sum --check --strict" in text
    assert not re.search(r"curl|wget|https?://", text)
