"""Promotions and a rollback while requests keep coming: none fails, none is answered by what was replaced.

And the death of a worker; `benchmarks/promotions.py` is the long form.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from benchmarks.workers import alive

SLACK = 2.0
"""How long before a request began its answer's version may have been replaced; seconds."""

"""How long each release stays: longer than the slack, so that one that lingers is found out."""

CALLERS = 8


@dataclass
class Answers:
    """What callers got: when each asked and was answered, and by which version; and what failed."""

    got: list[tuple[float, float, int, dict[str, float]]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    lost: list[float] = field(default_factory=list)


@pytest.fixture
def address(places) -> Iterator[Callable[[], str]]:
    """Starts the real service with two workers; gives its address."""
    running: list[subprocess.Popen[bytes]] = []

    def start() -> str:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        command = [sys.executable, "-c", "from serving.cli import main; main()", "--port", str(port)]
        options = ["--workers", "2", "--url", places.url, "--store", str(places.store)]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        running.append(subprocess.Popen([*command, *options], **quiet))
        address = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                if httpx.get(f"{address}/readyz", timeout=60).status_code == 200:
                    return address
            except httpx.TransportError:
                time.sleep(0.1)
        raise AssertionError("the service did not come up")

    yield start
    for process in running:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def workers():
    """The processes that answer, below this one."""
    parents, commands = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                status = (entry / "stat").read_text().rpartition(")")[2].split()
                commands[int(entry.name)] = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            parents[int(entry.name)] = int(status[1])
    found = [os.getpid()]
    for one in found:
        found += [pid for pid, parent in parents.items() if parent == one]
    supervised = [pid for pid in found if b"serving.supervisor" in commands.get(parents.get(pid), b"")]
    return [pid for pid in supervised if b"serving.worker" in commands[pid]]


def keep_asking(address: str, content: bytes, tone: str, stop: threading.Event, answers: Answers) -> None:
    """One caller: asks again as soon as it is answered."""
    parameters = {"skin_tone": tone} if tone else {}
    with httpx.Client(base_url=address, timeout=60, trust_env=False) as client:
        while not stop.is_set():
            began = time.monotonic()
            try:
                answer = client.post(
                    "/v1/diagnoses", content=content, params=parameters, headers={"Content-Type": "image/png"}
                )
                ended = time.monotonic()
                answer.raise_for_status()
            except httpx.HTTPError as error:
                answers.failed.append(repr(error))
                answers.lost.append(began)
                continue
            told = answer.json()
            shares = {row["code"]: row["probability"] for row in told["findings"]}
            answers.got.append((began, ended, told["model"]["version"], shares))


@pytest.mark.long
def test_no_worker_answers_by_a_withdrawn_version_two_seconds_later(registry, bundle, picture, address):
    for seed in range(2):
        (version,) = registry.add([bundle(seed=seed)])
        why = {"reason": "test", "override_gates": True}
        registry.promote("skin-lesion", [version.number], to="production", **why)
    stop, answers, content = threading.Event(), Answers(), picture("PNG")
    url = address()
    callers = [
        threading.Thread(target=keep_asking, args=(url, content, "", stop, answers)) for _ in range(CALLERS)
    ]
    for caller in callers:
        caller.start()

    def answered(version: int, since: float) -> None:
        deadline = time.monotonic() + 60
        while not any(row[0] >= since and row[2] == version for row in list(answers.got)):
            assert time.monotonic() < deadline, f"version {version} did not answer"
            time.sleep(0.05)

    try:
        answered(2, 0.0)
        registry.withdraw("skin-lesion", [2], reason="test")
        withdrawn = time.monotonic()
        answered(1, withdrawn + SLACK)
    finally:
        stop.set()
        for caller in callers:
            caller.join()
    late = max(ended - withdrawn for _, ended, version, _ in answers.got if version == 2)
    assert late <= SLACK
    assert all("503" in failure for failure in answers.failed)


@pytest.mark.long
def test_only_what_a_killed_worker_had_in_hand_is_lost(registry, promote, bundle, picture, address):
    promote(registry, bundle())
    url, stop, answers = address(), threading.Event(), Answers()
    callers = [
        threading.Thread(target=keep_asking, args=(url, picture("PNG"), "", stop, answers))
        for _ in range(CALLERS)
    ]
    for caller in callers:
        caller.start()
    deadline = time.monotonic() + 60
    while len(answers.got) < 3 * CALLERS:  # all of them are at it
        assert time.monotonic() < deadline, "nobody was answered"
        time.sleep(0.1)
    before = workers()
    os.kill(before[0], signal.SIGKILL)
    while alive(before[0]):
        time.sleep(0.001)
    dead = time.monotonic()
    deadline = dead + 180
    while len(now := [pid for pid in workers() if pid != before[0]]) < 2:
        assert time.monotonic() < deadline, "no worker came in its place"
        time.sleep(0.1)
    while not any(began > dead for began, _, _, _ in list(answers.got)):
        assert time.monotonic() < deadline, "nobody who asked after its death was answered"
        time.sleep(0.1)
    stop.set()
    for caller in callers:
        caller.join()
    assert len(before) == len(now) == 2
    assert len(answers.lost) <= CALLERS
    assert [began for began in answers.lost if began > dead] == []
    assert any(began > dead for began, _, _, _ in answers.got)
