"""The service as a user starts it: a process of its own, on a free port."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).parents[2]
DIAGNOSES = "/v1/diagnoses"
PROBLEM = "urn:dermfed:problem:"
SUITES = ("DERMFED_", "BENTOML_", "ORT_", "PROMETHEUS_", "PYTHON", "XDG_")
"""Beginnings of variables that a process under test does not get from this one."""

DERMFED_SERVE = (sys.executable, "-c", "from dermfed.commands import serve; serve()")
BENTOML_SERVE = (sys.executable, "-m", "bentoml", "serve", "serving.service:DiagnosisService")

DECLARED: dict[str, tuple[dict[str, str], str, str, str]] = {
    "no tone": ({}, "unknown-tone", "unknown-tone", "global"),
    "light": ({"skin_tone": "2"}, "declared", "declared", "light"),
    "dark": ({"skin_tone": "V"}, "declared", "declared", "dark"),
    "too few patients": ({"skin_tone": "6"}, "unknown-tone", "tone-not-represented", "global"),
    "other scale": ({"skin_tone": "5", "skin_tone_scale": "monk"}, "other-scale", "other-scale", "global"),
}
"""By name: what is declared, the route, the code of the last reason, and the subgroup that answers."""


@dataclass(frozen=True)
class Service:
    """A service that runs.

    Attributes:
        url: its address.
        client: an HTTP client for it.
    """

    url: str
    client: httpx.Client

    def diagnose(self, picture: bytes, kind: str = "image/png", **declared: str) -> httpx.Response:
        """Send a picture as the body; keywords are parameters of the query."""
        return self.client.post(DIAGNOSES, content=picture, params=declared, headers={"Content-Type": kind})

    def answer(self, picture: bytes, **declared: str) -> dict[str, Any]:
        """The diagnosis of a picture, without what is new in every answer."""
        return lasting(self.diagnose(picture, **declared))


@dataclass(frozen=True)
class Locked:
    """A service whose registry has API keys.

    Attributes:
        service: it serves a release for all and for light skin, none for dark skin.
        keys: by name: `all` may ask for anything, `read` for models, `rare` once a minute; `gone` is revoked.
        before: what it answered before there was a release.
    """

    service: Service
    keys: Mapping[str, str]
    before: Mapping[str, httpx.Response]


def lasting(response: httpx.Response) -> dict[str, Any]:
    """An answer's JSON without `id` and `created`, which are new every time."""
    assert response.status_code == 200, response.text
    return {name: value for name, value in response.json().items() if name not in ("id", "created")}


def problem(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """Check that an answer is the problem document `code` with `status`; returns it."""
    assert response.status_code == status, (response.status_code, response.text)
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert body["type"] == PROBLEM + code, body
    assert body["status"] == status
    assert body["title"]
    assert body["detail"]
    assert body["request_id"] == response.headers["x-request-id"]
    return dict(body)


def wait_for(holds: Callable[[], bool], seconds: float = 120) -> None:
    """Wait until something holds, at most so many seconds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "still not so"
        time.sleep(0.05)


@contextmanager
def serving(command: Sequence[str], environment: Mapping[str, str], folder: Path) -> Iterator[Service]:
    """Start a service with these variables, wait until it is alive, and end it.

    Args:
        command: `DERMFED_SERVE` or `BENTOML_SERVE`; `--port` is added.
        environment: beside the variables of this process, but for those of `SUITES`.
        folder: home of the process, where it may write; its log is there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(SUITES)}
    given = {"HOME": str(folder), "PYTHONPATH": str(ROOT), "BENTOML_DO_NOT_TRACK": "True", **environment}
    log = folder / "log"
    with log.open("wb") as written:
        process = subprocess.Popen(
            [*command, "--port", str(port)],
            cwd=ROOT,
            env=inherited | given,
            stdout=written,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    url = f"http://127.0.0.1:{port}"
    with httpx.Client(base_url=url, timeout=60, trust_env=False) as client:

        def alive() -> bool:
            assert process.poll() is None, log.read_text()[-3000:]
            try:
                return client.get("/livez").status_code == 200
            except httpx.TransportError:
                return False

        try:
            wait_for(alive)
            yield Service(url, client)
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
