"""A service that is told to end, as a process of its own: who is answered, and what others are told."""

import json
import signal
import socket
import subprocess
import sys
import time

import httpx
import pytest

SERVER = """
import sys
import uvicorn
from registry.registry import Registry
from serving.http.app import build_app
from serving.settings import ServeSettings
settings = ServeSettings(drain_seconds=float(sys.argv[4]), lone_threads=1)
app = build_app(settings, lambda: Registry.open(sys.argv[1], sys.argv[2]))
uvicorn.run(app, port=int(sys.argv[3]), log_level="error")
"""


@pytest.fixture
def ending(places, registry, promote, bundle):
    """Starts a service in a process of its own."""
    promote(registry, bundle())
    started = []

    def start(drain_seconds):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        arguments = [places.url, str(places.store), str(port), str(drain_seconds)]
        process = subprocess.Popen([sys.executable, "-c", SERVER, *arguments])
        started.append(process)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                httpx.get(f"http://127.0.0.1:{port}/readyz", trust_env=False, timeout=60)
                return process, port
            except httpx.TransportError:
                assert process.poll() is None
                time.sleep(0.05)
        raise AssertionError("it did not come up")

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_who_is_inside_is_answered_and_everybody_else_is_sent_elsewhere(ending, picture, problem):
    content = picture("PNG")
    process, port = ending(20)
    url = f"http://127.0.0.1:{port}"
    head = (
        "POST /v1/diagnoses HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: image/png\r\n"
    )
    with (
        socket.create_connection(("127.0.0.1", port), timeout=60) as inside,
        httpx.Client(base_url=url, trust_env=False, timeout=60) as kept,
    ):
        assert kept.get("/readyz").status_code == 200
        inside.sendall(f"{head}Expect: 100-continue\r\nContent-Length: {len(content)}\r\n\r\n".encode())
        # Its body is wanted: it is inside before the end begins.
        assert inside.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        inside.sendall(content[:30])
        process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 60
        while kept.get("/livez").is_success and kept.get("/readyz").is_success:
            assert time.monotonic() < deadline
        for answer in (
            kept.post("/v1/diagnoses", content=content, headers={"Content-Type": "image/png"}),
            httpx.get(f"{url}/readyz", trust_env=False, timeout=60),
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
    process.wait(60)
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/livez", trust_env=False, timeout=60)
