"""The real `dermfed-serve`, with two workers: what only it can show."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

MARK = "markerquery"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


class Started:
    """A `dermfed-serve` that was started, with everything below it."""

    def __init__(self, process, port, log):
        self.process = process
        self.port = port
        self.log = log
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False)

    def workers(self):
        """The processes that answer."""
        below = descendants(self.process.pid, deep=False)
        return [pid for pid in below if "serving.cli" in command_line(pid)]


def descendants(root, *, deep=True):
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
    found = [root]
    for one in found if deep else [root]:
        found += [pid for pid, parent in parents.items() if parent == one]
    return found[1:]


def command_line(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def listens(port):
    """Whether connections are accepted: a worker does so only after its release has been loaded."""
    with socket.socket() as line:
        return line.connect_ex(("127.0.0.1", port)) == 0


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture(scope="module")
def started(released, tmp_path_factory, home):
    """Two workers over the release, from a folder with nothing in it."""
    registry = tmp_path_factory.getbasetemp() / "shared"
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    ours = ("DERMFED_", "BENTOML_", "ORT_", "PROMETHEUS_", "PYTHON", "XDG_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("log") / "log"
    command = [sys.executable, "-c", "from serving.cli import main; main()", "--port", str(port)]
    places = [
        "--workers",
        "2",
        "--url",
        f"sqlite:///{registry / 'registry.db'}",
        "--store",
        str(registry / "store"),
    ]
    with log.open("wb") as written:
        process = subprocess.Popen(
            [*command, *places],
            cwd=elsewhere,
            env={**kept, "HOME": str(home), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=written,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    service = Started(process, port, log)
    try:
        deadline = time.monotonic() + 180
        while log.read_text().count("serving release") < 2 or not listens(port):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield service
    finally:
        service.client.close()
        below = descendants(process.pid)
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for pid in below:
            if is_running(pid):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    "path",
    ["/docs.json", "/schema.json", "/healthz", "/nothing", "/static_content/index.css", "/favicon.ico"],
)
def test_no_path_of_bentoml_answers(started, problem, path):
    for method in ("GET", "POST", "HEAD"):
        answer = started.client.request(method, path)
        if method == "HEAD":
            assert answer.status_code == 404
        else:
            problem(answer, 404)
        assert "bento" not in answer.text.lower()
        assert not any("bento" in (name + value).lower() for name, value in answer.headers.items())


def test_telemetry_is_off_before_onnxruntime_is_loaded():
    code = "import os, serving.http.app; print(os.environ['ORT_DISABLE_TELEMETRY'])"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ORT_")}
    assert subprocess.check_output([sys.executable, "-c", code], env=kept, text=True) == "1\n"


@pytest.fixture
def asked(started, picture):
    """The service after a good request, a wrong one, and one that is not allowed."""
    post = {"headers": {"Content-Type": "image/jpeg", "Authorization": f"Bearer {MARK}"}}
    started.client.post("/v1/diagnoses", files={"image": (MARK, picture(), "image/jpeg")})
    started.client.post("/v1/diagnoses", content=picture(), params={"skin_tone": "V"}, **post)
    started.client.post("/v1/diagnoses", content=picture(), params={MARK: "1"}, **post)
    started.client.get("/v1/models", headers={"X-Forwarded-For": MARK})
    return started


def test_the_log_tells_of_requests_and_not_of_what_is_in_them(started, request):
    refused = " GET /v1/models 401 "
    before = started.log.read_text().count(refused)
    request.getfixturevalue("asked")
    answered, deadline = " POST /v1/diagnoses 200 ", time.monotonic() + 60
    while answered not in (told := started.log.read_text()) or told.count(refused) == before:
        assert time.monotonic() < deadline, told
        time.sleep(0.05)  # an answer may arrive before its line, and an earlier test's line be late
    assert MARK not in told
    assert "skin_tone" not in told
    assert "Found invalid character" not in told
    assert "Traceback" not in told


def test_sigterm_ends_it_and_everything_below_it(started):
    below = descendants(started.process.pid)
    assert len(below) >= 2
    started.process.send_signal(signal.SIGTERM)
    assert started.process.wait(60) == 0
    deadline = time.monotonic() + 60
    while any(is_running(pid) for pid in below) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [pid for pid in below if is_running(pid)] == []
    with pytest.raises(httpx.TransportError):
        started.client.get("/livez")
