"""The example in JavaScript, against the real service."""

import os
import shutil
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.case_bundles import PATTERNS, case_bundle
from tests.serving.conftest import Places, encode, paint, release, running
from tests.thresholds import triage

EXAMPLE = Path(__file__).parents[2] / "clients" / "examples" / "diagnose.mjs"
NODE = shutil.which("node")

Ended = subprocess.CompletedProcess[str]


@pytest.fixture
def ask(tmp_path):
    """Calls the example for a picture; keywords are its environment."""
    if NODE is None:
        pytest.skip("there is no node on this machine")

    def call(picture: bytes, *arguments: str, **environment: str) -> Ended:
        path = tmp_path / "picture"
        path.write_bytes(picture)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("DERMFED_")}
        return subprocess.run(
            [NODE, EXAMPLE, path, *arguments],
            env=kept | environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return call


def test_it_asks_about_a_case(ask, tmp_path):
    places = Places(tmp_path / "registry")
    with places.open() as registry:
        patterns = tuple(one.model_copy(update={"triage": triage()}) for one in PATTERNS)
        release(registry, case_bundle(triage=triage(), patterns=patterns))
    (tmp_path / "derm.png").write_bytes(encode(paint((90, 160, 40)), "PNG"))
    with running(places.open) as service:
        more = ["image_kind=close-up", f"dermoscopic={tmp_path / 'derm.png'}", "age=70", "site=back"]
        ended = ask(encode(paint()), "V", *more, DERMFED_URL=service.url)
        alone = ask(encode(paint()), "V", "image_kind=close-up", "age=700", DERMFED_URL=service.url)
        form = {"skin_tone": "V", "image_kind": "close-up", "age": "70", "site": "trunk"}
        files = {"image": encode(paint()), "dermoscopic": encode(paint((90, 160, 40)), "PNG")}
        said = service.form(form, files=files).json()
    assert ended.returncode == 0, ended.stderr
    codes = ", ".join(said["prediction_set"]["codes"])
    assert ended.stdout.startswith(f"{said['triage']}; {said['decision']}: {codes} possible")
    assert said["inputs"]["promised"]
    assert "age 700 is out of bounds" in alone.stderr


def test_it_waits_once_as_long_as_the_service_asks(ask):
    asked: list[float] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(time.monotonic())
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(503)
            self.send_header("Retry-After", "1")
            self.end_headers()
            self.wfile.write(b'{"status": 503, "title": "Busy", "detail": "Full.", "request_id": "r-1"}')

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        ended = ask(encode(paint()), DERMFED_URL=f"http://127.0.0.1:{server.server_port}/")
        server.shutdown()
        thread.join()
    assert ended.returncode == 1
    assert "503 Busy: Full. (request r-1)" in ended.stderr
    assert len(asked) == 2
    assert asked[1] - asked[0] >= 0.95
