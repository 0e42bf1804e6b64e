"""FLARE's process of a node: one for each kit, private, and gone with the command that started it."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from clients.federation import processes
from clients.federation.errors import KitError
from clients.federation.kit import Federation, Kit, KitFacts
from clients.federation.processes import NodeProcess, command, in_use

ROOT = Path(__file__).parents[3]


@pytest.fixture
def kit(tmp_path):
    federation = Federation.model_validate(
        {"name": "skin", "coordinator": {"host": "x"}, "hospitals": [{"name": "north"}]}
    )
    facts = KitFacts(role="hospital", name="north", identity="north", organisation="o")
    (tmp_path / "private").mkdir()
    return Kit(tmp_path, facts, federation)


@pytest.fixture
def as_it_was():
    """Signals and the umask belong to the whole process."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    mask = os.umask(0o022)
    yield
    os.umask(mask)
    for number, handler in handlers.items():
        signal.signal(number, handler)


def test_what_a_node_writes_is_its_owners_alone(kit, monkeypatch, as_it_was):
    script = f"""
import os, pathlib, signal
pathlib.Path({str(kit.path)!r}, "made").write_text("x")
pathlib.Path({str(kit.path)!r}, "folder").mkdir()
os.kill(os.getppid(), signal.SIGTERM)
"""
    monkeypatch.setattr(processes, "command", lambda kit: [sys.executable, "-c", script])
    assert NodeProcess(kit).run() == 0
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in kit.path.iterdir()}
    assert modes["made"] == modes["node.log"] == 0o600
    assert modes["folder"] == 0o700


def test_a_kit_is_not_started_twice(kit, as_it_was):
    with in_use(kit), pytest.raises(KitError, match="in use by another `dermfed-node start`"):
        NodeProcess(kit).run()
    with in_use(kit):
        pass


def test_flares_process_ends_when_the_command_that_started_it_is_killed(kit):
    """SIGKILL, as where memory is short: the command itself can do nothing any more."""
    started = command(kit)
    place = started.index("clients.federation.flare")
    blocks = ["http.server", "0", "--bind", "127.0.0.1"]  # a program that runs for ever
    script = f"""
import os, subprocess, sys
child = subprocess.Popen(
    [*{started[: place + 1]!r}, str(os.getpid()), *{blocks!r}],
    start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
)
print(child.pid, child.stdout.readline(), flush=True)
child.wait()
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=-1
    )
    assert parent.stdout is not None
    number, *said = parent.stdout.readline().split()
    child = psutil.Process(int(number))
    assert b"Serving" in said, "FLARE's program runs under its own name"
    parent.kill()
    parent.communicate()
    gone, alive = psutil.wait_procs([child], timeout=60)
    for each in alive:
        each.kill()
    assert gone


def test_a_jobs_process_that_outlived_its_node_is_ended_and_no_other(kit, monkeypatch, tmp_path, as_it_was):
    """FLARE gives a job's process a session of its own; one that still imports watches nobody."""
    sleeps = [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"]
    marks = (f"{kit.path}", f"{kit.path}-of-another")
    started = [
        subprocess.Popen(
            sleeps,
            env={**os.environ, processes.KIT_VARIABLE: mark},
            start_new_session=True,
            stdout=subprocess.PIPE,
        )
        for mark in marks
    ]
    own = f"""
import os, signal, subprocess
child = subprocess.Popen({sleeps!r}, start_new_session=True, stdout=subprocess.PIPE)
child.stdout.readline()
open({str(tmp_path / "child")!r}, "w").write(str(child.pid))
os.kill(os.getppid(), signal.SIGTERM)
"""
    monkeypatch.setattr(processes, "command", lambda kit: [sys.executable, "-c", own])
    try:
        for each in started:
            each.stdout.readline()
        assert NodeProcess(kit).run() == 0
        assert started[0].wait(30) is not None, "left by a node that was killed"
        assert started[1].poll() is None
        assert not psutil.pid_exists(int((tmp_path / "child").read_text())), "left by this one"
    finally:
        for each in started:
            each.kill()
            each.communicate()
    assert kit.log.read_text().count("had outlived the node") == 2


def test_a_jobs_process_waits_for_the_coordinators_as_long_as_that_waits_for_it(kit, monkeypatch):
    from nvflare.apis.fl_constant import ConfigVarName, SystemConfigs
    from nvflare.fuel.utils.config_service import ConfigService

    name = f"NVFLARE_{ConfigVarName.MAX_RUNNER_SYNC_TIMEOUT.upper()}"
    monkeypatch.setenv(name, processes.environment(kit)[name])
    monkeypatch.setattr(ConfigService, "_var_values", {})
    found = ConfigService.get_float_var(
        ConfigVarName.MAX_RUNNER_SYNC_TIMEOUT, SystemConfigs.APPLICATION_CONF, 60.0
    )
    assert found == processes.SYNC_SECONDS
