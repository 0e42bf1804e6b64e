"""A withdrawal while requests keep coming to two workers; `benchmarks/promotions.py` is the long form."""

import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import httpx
import pytest

SLACK = 2.0
"""How long after a withdrawal the version may still answer; seconds."""

CALLERS = 8


@dataclass
class Answers:
    """What callers got: when each asked and was answered, and by which version; and what failed."""

    got: list[tuple[float, float, int]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


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


def keep_asking(address: str, content: bytes, stop: threading.Event, answers: Answers) -> None:
    """One caller: asks again as soon as it is answered."""
    with httpx.Client(base_url=address, timeout=60, trust_env=False) as client:
        while not stop.is_set():
            began = time.monotonic()
            try:
                answer = client.post("/v1/diagnoses", content=content, headers={"Content-Type": "image/png"})
                ended = time.monotonic()
                answer.raise_for_status()
            except httpx.HTTPError as error:
                answers.failed.append(repr(error))
                continue
            answers.got.append((began, ended, answer.json()["model"]["version"]))


@pytest.mark.long
def test_no_worker_answers_by_a_withdrawn_version_two_seconds_later(registry, bundle, picture, address):
    for seed in range(2):
        (version,) = registry.add([bundle(seed=seed)])
        why = {"reason": "test", "override_gates": True}
        registry.promote("skin-lesion", [version.number], to="production", **why)
    stop, answers, content = threading.Event(), Answers(), picture("PNG")
    url = address()
    callers = [
        threading.Thread(target=keep_asking, args=(url, content, stop, answers)) for _ in range(CALLERS)
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
    late = max(ended - withdrawn for _, ended, version in answers.got if version == 2)
    assert late <= SLACK
    assert all("503" in failure for failure in answers.failed)
