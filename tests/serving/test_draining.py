"""A service that is told to end, as processes of its own: who is answered, and what others are told."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter

import httpx
import pytest

HEAD = "POST /v1/diagnoses HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: image/png\r\n"
CALLERS = 8


@pytest.fixture
def ending(places, registry, promote, bundle, tmp_path):
    """Starts a `dermfed-serve`; gives its process and its port."""
    promote(registry, bundle())
    started = []

    def start(drain_seconds, workers=1):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        command = [sys.executable, "-c", "from serving.cli import main; main()", "--port", str(port)]
        options = ["--workers", str(workers), "--url", places.url, "--store", str(places.store)]
        process = subprocess.Popen(
            [*command, *options],
            env={
                **without_ours(),
                "HOME": str(tmp_path),
                "DERMFED_SERVE_DRAIN_SECONDS": str(drain_seconds),
                "DERMFED_SERVE_LONE_THREADS": "1",
                "DERMFED_SERVE_RECORDS": "none",
            },
            stderr=subprocess.DEVNULL,
        )
        started.append(process)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                if ask(port, "/readyz").status_code == 200:
                    return process, port
            except httpx.TransportError:
                assert process.poll() is None
            time.sleep(0.05)
        raise AssertionError("it did not come up")

    yield start
    for process in started:
        process.kill()
        process.wait()


def without_ours():
    ours = ("DERMFED_", "BENTOML_", "PROMETHEUS_", "XDG_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def ask(port, path):
    return httpx.get(f"http://127.0.0.1:{port}{path}", trust_env=False, timeout=60)


def test_who_is_inside_is_answered_and_everybody_else_is_sent_elsewhere(ending, picture, problem):
    content = picture("PNG")
    process, port = ending(20)
    url = f"http://127.0.0.1:{port}"
    with socket.create_connection(("127.0.0.1", port), timeout=60) as inside:
        inside.sendall(f"{HEAD}Expect: 100-continue\r\nContent-Length: {len(content)}\r\n\r\n".encode())
        # Its body is wanted: it is inside before the end begins.
        assert inside.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        inside.sendall(content[:30])
        process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 60
        while ask(port, "/readyz").is_success:
            assert time.monotonic() < deadline
        alive = ask(port, "/livez")
        assert (alive.status_code, alive.headers["connection"]) == (200, "close")
        for answer in (
            httpx.post(
                f"{url}/v1/diagnoses", content=content, headers={"Content-Type": "image/png"}, trust_env=False
            ),
            ask(port, "/readyz"),
        ):
            assert problem(answer, 503)["type"].endswith(":draining")
            assert answer.headers["connection"] == "close"
            assert answer.headers["retry-after"]
        inside.sendall(content[30:])
        got = b""
        while more := inside.recv(65536):
            got += more
    assert got.startswith(b"HTTP/1.1 200 ")
    assert json.loads(got.partition(b"\r\n\r\n")[2])["model"]["version"] == 1
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)  # a second one is not held back
    assert process.wait(60) == 0
    with pytest.raises(httpx.ConnectError):
        ask(port, "/livez")


class Caller(threading.Thread):
    """Asks until the port is closed; what became of each request, in the order in which they were asked."""

    def __init__(self, port, content, *, keeps):
        super().__init__(daemon=True)
        self.port, self.content, self.keeps = port, content, keeps
        self.told = []

    def run(self):
        headers = {"Content-Type": "image/png", **({} if self.keeps else {"Connection": "close"})}
        client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", trust_env=False, timeout=60)
        with client:
            while True:
                try:
                    answer = client.post("/v1/diagnoses", content=self.content, headers=headers)
                    self.told.append(answer.status_code)
                except httpx.ConnectError:
                    return  # refused before anything was sent: asked of nobody, and so not lost
                except httpx.TransportError as error:
                    self.told.append(repr(error))


@pytest.mark.parametrize("workers", [1, 2])
def test_no_request_is_lost_when_it_ends(ending, picture, workers):
    process, port = ending(0.3, workers)
    content = picture("PNG", size=(200, 200))
    callers = [Caller(port, content, keeps=number % 2 == 0) for number in range(CALLERS)]
    for caller in callers:
        caller.start()
    deadline = time.monotonic() + 120
    while sum(len(caller.told) for caller in callers) < 200:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    for caller in callers:
        caller.join(60)
        assert not caller.is_alive()
    assert process.wait(60) == 0
    told = Counter(what for caller in callers for what in caller.told)
    assert set(told) <= {200, 503}, told
    assert told[200] >= 200
