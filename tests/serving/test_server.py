"""`dermfed-serve` over sockets: callers who hold connections, and how a service ends."""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

GET = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /v1/diagnoses HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: image/png\r\n"
CALLERS = 8
HALF_OPEN = 1100


@dataclass
class Running:
    """A `dermfed-serve` of its own."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def ask(self, path, **options):
        return httpx.get(f"http://127.0.0.1:{self.port}{path}", trust_env=False, timeout=60, **options)

    def send(self, sent):
        """What comes until the other side closes, after these bytes."""
        with self.connect() as line:
            with contextlib.suppress(ConnectionError):  # it may be refused before all of it is sent
                line.sendall(sent)
            return read_all(line)

    def is_ready(self):
        assert self.process.poll() is None, self.log.read_text()
        try:
            return self.ask("/readyz").is_success
        except httpx.ConnectError:
            return False

    def workers(self):
        return children(self.process.pid)


def read_all(line):
    got = b""
    with contextlib.suppress(ConnectionError):
        while more := line.recv(2**16):
            got += more
    return got


def children(parent):
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, IndexError):
            if (
                entry.name.isdigit()
                and int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == parent
            ):
                found.append(int(entry.name))
    return found


def runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def eventually(holds):
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until, "it never came to hold"
        time.sleep(0.02)


@contextlib.contextmanager
def running(places, folder, workers=1, **settings):
    """A service over the registry at `places`; keywords are settings."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ours = ("DERMFED_", "BENTOML_", "PROMETHEUS_", "XDG_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    given = {"lone_threads": 1, "records": "none", "requests_per_minute": 0, **settings}
    log = folder / "log"
    with log.open("wb") as written:
        process = subprocess.Popen(
            [
                *(sys.executable, "-c", "from serving.cli import main; main()", "--port", str(port)),
                *("--workers", str(workers), "--url", places.url, "--store", str(places.store)),
            ],
            env={
                **kept,
                "HOME": str(folder),
                **{f"DERMFED_SERVE_{name.upper()}": str(value) for name, value in given.items()},
            },
            stderr=written,
        )
    service = Running(process, port, log)
    try:
        eventually(service.is_ready)
        eventually(lambda: log.read_text().count("serving release") == workers)
        yield service
    finally:
        left = service.workers()
        process.kill()
        process.wait()
        eventually(lambda: not any(map(runs, left)))


@pytest.fixture
def start(places, registry, promote, bundle, tmp_path):
    """Starts a service over a release; keywords are settings."""
    promote(registry, bundle())
    with contextlib.ExitStack() as opened:
        yield lambda workers=1, **settings: opened.enter_context(
            running(places, tmp_path, workers, **settings)
        )


@pytest.fixture(scope="module")
def impatient(released, tmp_path_factory, request):
    """A service that waits for half a second for a head, and for two for an answer."""
    shared = request.getfixturevalue("places_of")(tmp_path_factory.getbasetemp() / "shared")
    folder = tmp_path_factory.mktemp("impatient")
    with running(shared, folder, header_seconds=0.5, deadline_seconds=2) as service:
        yield service


@pytest.mark.parametrize(
    ("before", "sent"),
    [(b"", GET), (b"", b""), (GET + b"\r\n", GET), (GET + b"\r\n", b"")],
    ids=["half a head", "nothing", "half a head on a kept connection", "nothing more on a kept connection"],
)
def test_a_connection_on_which_no_request_comes_is_closed(impatient, before, sent):
    with impatient.connect() as line:
        if before:
            line.sendall(before)
            got = b""
            while not got.endswith(b"alive\n"):
                got += line.recv(4096)
        line.sendall(sent)
        assert read_all(line) == b""


def test_single_bytes_win_no_time(impatient):
    with impatient.connect() as line:
        line.settimeout(0.02)
        for _ in range(3000):
            try:
                line.sendall(b"a")
                if line.recv(4096) == b"":
                    break
            except TimeoutError:
                continue
            except ConnectionError:
                break
        else:
            pytest.fail("a minute of single bytes, and it still waits")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET\r\n\r\n", 400),
        (POST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400),
        (GET + b"X-Long: " + b"a" * 400_000 + b"\r\n\r\n", 431),
        (GET + b"Connection: close\r\n\r\n", 200),
    ],
    ids=["TLS", "no HTTP", "two lengths", "a large head", "control"],
)
def test_what_is_no_request_is_refused(impatient, sent, status):
    assert impatient.send(sent).startswith(b"HTTP/1.1 %d " % status)


@pytest.mark.parametrize(("both", "answered"), [(True, 1), (False, 2)], ids=["two lengths", "control"])
def test_nothing_behind_a_body_of_two_lengths_is_read(impatient, picture, both, answered):
    content = picture("PNG")
    chunks = b"%x\r\n" % len(content) + content + b"\r\n0\r\n\r\n"
    lengths = b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
    framed = lengths + chunks if both else b"Content-Length: %d\r\n\r\n" % len(content) + content
    kept = POST.replace(b"Connection: close\r\n", b"")
    got = impatient.send(kept + framed + GET + b"Connection: close\r\n\r\n")
    assert [part[:3] for part in got.split(b"HTTP/1.1 ")[1:]] == [b"200"] * answered


def test_a_body_that_stops_ends_by_the_deadline(impatient, picture):
    for _ in range(4):  # a reference that is left would close it only when garbage is collected
        got = impatient.send(POST + b"Content-Length: 9000\r\n\r\n" + picture("PNG")[:20])
        assert got.startswith(b"HTTP/1.1 503 ")
        assert json.loads(got.partition(b"\r\n\r\n")[2])["type"].endswith(":deadline")


def test_an_early_answer_reaches_a_caller_who_is_still_sending(impatient):
    # This client sends all of it before it reads, and raises where it is not heard out.
    line = http.client.HTTPConnection("127.0.0.1", impatient.port, timeout=60)
    size = 30 * 2**20  # more than the kernel takes in at once
    with contextlib.closing(line):
        line.request("POST", "/v1/diagnoses", bytes(size), {"Content-Type": "image/png"})
        assert line.getresponse().status == 413


def test_half_open_connections_keep_no_caller_out(start, picture):
    service = start(header_seconds=20)
    crowd = [service.connect() for _ in range(HALF_OPEN)]
    try:
        for line in crowd:
            line.sendall(GET)
        content = picture("PNG")
        for _ in range(5):
            began = time.monotonic()
            got = service.send(POST + b"Content-Length: %d\r\n\r\n" % len(content) + content)
            assert got.startswith(b"HTTP/1.1 200 ")
            assert time.monotonic() - began < 10
    finally:
        for line in crowd:
            line.close()


def test_a_draining_service_answers_requests_in_progress_and_refuses_others(start, picture, problem):
    content = picture("PNG")
    service = start(drain_seconds=20)
    with service.connect() as inside:
        inside.sendall(POST + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(content))
        # Its body is asked for: it is in progress before the end begins.
        assert inside.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        inside.sendall(content[:30])
        service.process.send_signal(signal.SIGTERM)
        eventually(lambda: not service.ask("/readyz").is_success)
        alive = service.ask("/livez")
        assert (alive.status_code, alive.headers["connection"]) == (200, "close")
        url = f"http://127.0.0.1:{service.port}/v1/diagnoses"
        for answer in (
            httpx.post(url, content=content, headers={"Content-Type": "image/png"}, trust_env=False),
            service.ask("/readyz"),
        ):
            assert problem(answer, 503)["type"].endswith(":draining")
            assert answer.headers["connection"] == "close"
            assert answer.headers["retry-after"]
        inside.sendall(content[30:])
        got = read_all(inside)
    assert got.startswith(b"HTTP/1.1 200 ")
    assert json.loads(got.partition(b"\r\n\r\n")[2])["model"]["version"] == 1
    assert service.process.poll() is None
    service.process.send_signal(signal.SIGTERM)  # a second one does not wait for the rest of the 20 seconds
    assert service.process.wait(15) == 0
    with pytest.raises(httpx.ConnectError):
        service.ask("/livez")


class Caller(threading.Thread):
    """Asks until the port is closed; what became of each request, in order."""

    def __init__(self, port, content, *, keeps):
        super().__init__(daemon=True)
        self.port, self.content, self.keeps = port, content, keeps
        self.answers = []

    def run(self):
        headers = {"Content-Type": "image/png", **({} if self.keeps else {"Connection": "close"})}
        client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", trust_env=False, timeout=60)
        with client:
            while True:
                try:
                    answer = client.post("/v1/diagnoses", content=self.content, headers=headers)
                    self.answers.append(answer.status_code)
                except httpx.ConnectError:
                    return
                except httpx.TransportError:
                    self.answers.append(0)


@pytest.mark.parametrize("workers", [1, 2])
def test_sigterm_under_load_loses_no_request_that_was_read(start, picture, workers):
    service = start(workers, drain_seconds=0.3)
    content = picture("PNG", size=(200, 200))
    callers = [Caller(service.port, content, keeps=number % 2 == 0) for number in range(CALLERS)]
    for caller in callers:
        caller.start()
    eventually(lambda: sum(len(caller.answers) for caller in callers) >= 200)
    service.process.send_signal(signal.SIGTERM)
    for caller in callers:
        caller.join(60)
        assert not caller.is_alive()
    assert service.process.wait(60) == 0
    answered = Counter(status for caller in callers for status in caller.answers)
    logged = Counter(map(int, re.findall(r" POST /v1/diagnoses (\d+) ", service.log.read_text())))
    # A connection that is still waiting when the port closes is reset before anything was read of it (0).
    assert answered - Counter({0: answered[0]}) == logged
    assert answered[200] >= 200
    assert answered[0] <= CALLERS


def test_a_killed_worker_is_replaced_and_none_outlives_the_service(start):
    service = start(2)
    before = service.workers()
    assert len(before) == 2
    os.kill(before[0], signal.SIGKILL)
    eventually(lambda: service.log.read_text().count("serving release") == 3)
    now = service.workers()
    assert len(now) == 2
    assert before[1] in now
    service.process.kill()
    eventually(lambda: not any(map(runs, now)))


def test_a_worker_that_cannot_stay_ends_the_service(start):
    service = start()
    os.kill(*service.workers(), signal.SIGKILL)
    eventually(lambda: service.log.read_text().count("serving release") == 2)
    os.kill(*service.workers(), signal.SIGKILL)
    assert service.process.wait(60) == 1
