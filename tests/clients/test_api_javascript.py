"""The example in JavaScript, against the real service."""

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.case_bundles import case_bundle
from tests.dicom_files import dicom_file, noise
from tests.serving.conftest import DARK, Places, draw_bundle, encode, paint, release, running

EXAMPLE = Path(__file__).parents[2] / "clients" / "examples" / "diagnose.mjs"
NODE = shutil.which("node")

Ended = subprocess.CompletedProcess[str]


def test_it_is_short_and_needs_no_package():
    lines = EXAMPLE.read_text().splitlines()
    assert len(lines) <= 25
    assert [line for line in lines if "import" in line] == ['import { readFile } from "node:fs/promises";']


@pytest.fixture
def ask(tmp_path: Path) -> Callable[..., Ended]:
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


def test_it_diagnoses_and_says_why_not(ask, tmp_path):
    places = Places(tmp_path / "registry")
    with places.open() as registry:
        release(registry, draw_bundle(), draw_bundle(DARK))
        secret = registry.create_key("example")[1]
        with running(places.open) as service:
            key = {"DERMFED_URL": service.url, "DERMFED_API_KEY": secret}
            headers = {"Authorization": f"Bearer {secret}"}
            pictures = {f"image/{form.lower()}": encode(paint(), form) for form in ("JPEG", "PNG", "WEBP")}
            for kind, picture in {**pictures, "application/dicom": dicom_file(noise(24, 32, 3))}.items():
                ended = ask(picture, "V", **key)
                said = service.diagnose(picture, kind, params={"skin_tone": "V"}, headers=headers).json()
                assert ended.returncode == 0, ended.stderr
                codes = ", ".join(said["prediction_set"]["codes"])
                assert ended.stdout.startswith(f"{said['decision']}: {codes} not ruled out")
                assert ended.stdout.rstrip().endswith(said["disclaimer"])
            for picture, arguments, environment, says in (
                (encode(paint())[:300], [], key, "400 Not an image: "),
                (b"text", [], key, "400 Not an image: "),
                (
                    encode(paint()),
                    ["V", "age=70"],
                    key,
                    "422 Invalid parameter: this model takes one picture",
                ),
                (encode(paint()), ["9"], key, "422 Invalid parameter: "),
                (encode(paint()), [], {"DERMFED_URL": service.url}, "401 "),
            ):
                ended = ask(picture, *arguments, **environment)
                assert ended.returncode == 1
                assert says in ended.stderr
                assert "(request " in ended.stderr
                assert secret not in ended.stdout + ended.stderr


def test_it_asks_about_a_case(ask, tmp_path):
    places = Places(tmp_path / "registry")
    with places.open() as registry:
        release(registry, case_bundle())
    (tmp_path / "derm.png").write_bytes(encode(paint((90, 160, 40)), "PNG"))
    with running(places.open) as service:
        more = ["image_kind=close-up", f"dermoscopic={tmp_path / 'derm.png'}", "age=70", "site=back"]
        ended = ask(encode(paint()), "V", *more, DERMFED_URL=service.url)
        alone = ask(encode(paint()), "V", "image_kind=close-up", "age=700", DERMFED_URL=service.url)
        form = {"skin_tone": "V", "image_kind": "close-up", "age": "70", "site": "trunk"}
        files = {"image": encode(paint()), "dermoscopic": encode(paint((90, 160, 40)), "PNG")}
        said = service.form(form, files=files).json()
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith(f"{said['decision']}: {', '.join(said['prediction_set']['codes'])} not")
    assert said["inputs"]["promised"]
    assert "age 700 is out of bounds" in alone.stderr


@pytest.mark.parametrize(
    ("picture", "declared"),
    [(dicom_file(noise(9, 7, 3)), "application/dicom"), (encode(paint()), "application/octet-stream")],
    ids=["DICOM", "JPEG"],
)
def test_it_says_what_a_dicom_file_is(ask, picture, declared):
    sent: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(400)
            self.end_headers()
            self.wfile.write(b'{"status": 400, "title": "No", "detail": "no", "request_id": "r-1"}')

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        ask(picture, DERMFED_URL=f"http://127.0.0.1:{server.server_port}/")
        server.shutdown()
        thread.join()
    assert f"Content-Type: {declared}\r\n".encode() in sent[0]


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
