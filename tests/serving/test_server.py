"""`dermfed-serve` as it is started: callers who hold connections, how it ends, and what it writes."""

import contextlib
import http.client
import io
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from registry.outcomes.intake import export_outcomes
from registry.outcomes.store import OutcomeStore
from serving.settings import variable_of
from tests.serving.conftest import Places, encode, paint

GET = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /v1/diagnoses HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: image/png\r\n"
CALLERS = 8
HALF_OPEN = 1100
PNG = encode(paint(), "PNG")
AS_PNG = {"Content-Type": "image/png"}


@dataclass
class Running:
    """A `dermfed-serve` of its own."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def ask(self, path, method="GET", **options):
        """An answer over a connection of its own."""
        return httpx.request(method, self.url + path, trust_env=False, timeout=60, **options)

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

    def below(self):
        """All processes below it: workers, and what pictures are decoded in."""
        found = self.workers()
        for pid in found:
            found += children(pid)
        return found

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


def read_all(line):
    got = b""
    with contextlib.suppress(ConnectionError):
        while more := line.recv(2**16):
            got += more
    return got


def stat(pid):
    """The state of a process and its parent, or nothing."""
    try:
        state, parent, *_ = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return state, int(parent)


def children(parent):
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in pids if (stat(pid) or (None, None))[1] == parent]


def runs(pid):
    return (found := stat(pid)) is not None and found[0] != "Z"


def eventually(holds):
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until, "it never came to hold"
        time.sleep(0.02)


@contextlib.contextmanager
def running(places, folder, workers=1, **settings):
    """A service over the registry at `places`, whose home is `folder`; keywords are settings."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ours = ("DERMFED_", "BENTOML_", "PROMETHEUS_", "XDG_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    given = {"lone_threads": 1, "requests_per_minute": 0, **settings}
    temporary = folder / "temporary"
    temporary.mkdir(parents=True)
    environment = {**kept, "HOME": str(folder), "TMPDIR": str(temporary)}
    environment |= {variable_of(name): str(value) for name, value in given.items()}
    command = [sys.executable, "-c", "from serving.cli import main; main()", "--port", str(port)]
    command += ["--workers", str(workers), "--url", places.url, "--store", str(places.store)]
    log = folder / "log"
    with log.open("wb") as written:
        process = subprocess.Popen(command, env=environment, stdout=written, stderr=written)
    service = Running(process, port, log)
    try:
        eventually(service.is_ready)
        eventually(lambda: log.read_text().count("serving release") == workers)
        yield service
    finally:
        left = service.workers()
        process.kill()
        process.wait()
        eventually(lambda: not any(map(runs, left)))  # none outlives the service, however it ends


@pytest.fixture
def start(places, registry, promote, bundle, tmp_path):
    """Starts a service over a release; keywords are settings."""
    promote(registry, bundle())
    with contextlib.ExitStack() as opened:
        yield lambda workers=1, **settings: opened.enter_context(
            running(places, tmp_path / "run", workers, **settings)
        )


@pytest.fixture(scope="module")
def impatient(released, tmp_path_factory):
    """A service that waits for half a second for a head, and for two for an answer."""
    shared = Places(tmp_path_factory.getbasetemp() / "shared")
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
def test_nothing_behind_a_body_of_two_lengths_is_read(impatient, both, answered):
    chunks = b"%x\r\n" % len(PNG) + PNG + b"\r\n0\r\n\r\n"
    lengths = b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
    framed = lengths + chunks if both else b"Content-Length: %d\r\n\r\n" % len(PNG) + PNG
    kept = POST.replace(b"Connection: close\r\n", b"")
    got = impatient.send(kept + framed + GET + b"Connection: close\r\n\r\n")
    assert [part[:3] for part in got.split(b"HTTP/1.1 ")[1:]] == [b"200"] * answered


def test_a_body_that_stops_ends_by_the_deadline(impatient):
    sent = POST + b"Content-Length: 9000\r\n\r\n" + PNG[:20]
    # Several: a reference that is left would close one only when garbage is collected.
    with ThreadPoolExecutor() as callers:
        answers = list(callers.map(impatient.send, [sent] * 4))
    for got in answers:
        assert got.startswith(b"HTTP/1.1 503 ")
        assert json.loads(got.partition(b"\r\n\r\n")[2])["type"].endswith(":deadline")


def test_an_early_answer_reaches_a_caller_who_is_still_sending(impatient):
    # This client sends all of it before it reads, and raises where it is not heard out.
    line = http.client.HTTPConnection("127.0.0.1", impatient.port, timeout=60)
    size = 30 * 2**20  # more than the kernel takes in at once
    with contextlib.closing(line):
        line.request("POST", "/v1/diagnoses", bytes(size), AS_PNG)
        assert line.getresponse().status == 413


def test_half_open_connections_keep_no_caller_out(start):
    service = start(header_seconds=20)
    crowd = [service.connect() for _ in range(HALF_OPEN)]
    try:
        for line in crowd:
            line.sendall(GET)
        for _ in range(5):
            began = time.monotonic()
            got = service.send(POST + b"Content-Length: %d\r\n\r\n" % len(PNG) + PNG)
            assert got.startswith(b"HTTP/1.1 200 ")
            assert time.monotonic() - began < 10
    finally:
        for line in crowd:
            line.close()


def test_a_draining_service_answers_requests_in_progress_and_refuses_others(start, problem):
    service = start(drain_seconds=20)
    below = service.below()
    assert len(below) >= 2
    with service.connect() as inside:
        inside.sendall(POST + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(PNG))
        # Its body is asked for: it is in progress before the end begins.
        assert inside.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        inside.sendall(PNG[:30])
        service.process.send_signal(signal.SIGTERM)
        eventually(lambda: not service.ask("/readyz").is_success)
        alive = service.ask("/livez")
        assert (alive.status_code, alive.headers["connection"]) == (200, "close")
        diagnosis = service.ask("/v1/diagnoses", "POST", content=PNG, headers=AS_PNG)
        for answer in (diagnosis, service.ask("/readyz")):
            assert problem(answer, 503)["type"].endswith(":draining")
            assert answer.headers["connection"] == "close"
            assert answer.headers["retry-after"]
        inside.sendall(PNG[30:])
        got = read_all(inside)
    assert got.startswith(b"HTTP/1.1 200 ")
    assert json.loads(got.partition(b"\r\n\r\n")[2])["model"]["version"] == 1
    assert service.process.poll() is None
    service.process.send_signal(signal.SIGTERM)  # a second one does not wait for the rest of the 20 seconds
    assert service.process.wait(15) == 0
    eventually(lambda: not any(map(runs, below)))
    with pytest.raises(httpx.ConnectError):
        service.ask("/livez")


class Caller(threading.Thread):
    """Asks until it is told to stop, or the port is closed.

    Attributes:
        answers: of each request in order: when it began and ended, its status (0 where its connection was
            reset), and the version that answered.
    """

    def __init__(self, url, content, *, keeps=True):
        super().__init__(daemon=True)
        self.url, self.content, self.keeps = url, content, keeps
        self.answers, self.stop = [], threading.Event()

    def run(self):
        headers = AS_PNG if self.keeps else {**AS_PNG, "Connection": "close"}
        with httpx.Client(base_url=self.url, trust_env=False, timeout=60) as client:
            while not self.stop.is_set():
                began, status, version = time.monotonic(), 0, None
                try:
                    answer = client.post("/v1/diagnoses", content=self.content, headers=headers)
                    status = answer.status_code
                    version = answer.json()["model"]["version"] if answer.is_success else None
                except httpx.ConnectError:
                    return
                except httpx.TransportError:
                    pass
                self.answers.append((began, time.monotonic(), status, version))


def test_sigterm_under_load_loses_no_request_that_was_read(start, picture):
    service = start(2, drain_seconds=0.3, records="none")
    content = picture("PNG", size=(200, 200))
    callers = [Caller(service.url, content, keeps=number % 2 == 0) for number in range(CALLERS)]
    for caller in callers:
        caller.start()
    eventually(lambda: sum(len(caller.answers) for caller in callers) >= 80)
    service.process.send_signal(signal.SIGTERM)
    for caller in callers:
        caller.join(60)
        assert not caller.is_alive()
    assert service.process.wait(60) == 0
    answered = Counter(status for caller in callers for _, _, status, _ in caller.answers)
    logged = Counter(map(int, re.findall(r" POST /v1/diagnoses (\d+) ", service.log.read_text())))
    # A connection that is still waiting when the port closes is reset before anything was read of it (0).
    assert answered - Counter({0: answered[0]}) == logged
    assert answered[200] >= 80
    assert answered[0] <= CALLERS


@pytest.mark.long
def test_no_worker_answers_by_a_withdrawn_version_two_seconds_later(start, registry, promote, bundle):
    slack = 2.0
    promote(registry, bundle(seed=1))
    with contextlib.ExitStack() as promoted:
        service = start(2)
        callers = [Caller(service.url, PNG) for _ in range(CALLERS)]
        for caller in callers:
            caller.start()
            promoted.callback(caller.join)
            promoted.callback(caller.stop.set)

        def answers():
            return [row for caller in callers for row in list(caller.answers)]

        def answered(version, since):
            eventually(lambda: any(row[0] >= since and row[3] == version for row in answers()))

        answered(2, 0)
        registry.withdraw("skin-lesion", [2], reason="test")
        withdrawn = time.monotonic()
        answered(1, withdrawn + slack)
    assert max(ended - withdrawn for _, ended, _, version in answers() if version == 2) <= slack
    assert {status for _, _, status, _ in answers()} <= {200, 503}


def test_a_killed_worker_is_replaced_and_one_that_cannot_stay_ends_the_service(start):
    service = start(2)
    before = service.workers()
    assert len(before) == 2
    os.kill(before[0], signal.SIGKILL)
    eventually(lambda: service.log.read_text().count("serving release") == 3)
    now = service.workers()
    assert len(now) == 2
    assert before[1] in now
    os.kill(*set(now) - set(before), signal.SIGKILL)
    assert service.process.wait(60) == 1
    eventually(lambda: not any(map(runs, now)))


MARKER = "Erika-Musterfrau"
BURST = 15


def marked():
    """A JPEG that no other is like, with a name in its comment."""
    image = paint(size=(64, 48))
    image.putdata([((7 * n) % 251, (11 * n) % 241, (13 * n) % 239) for n in range(64 * 48)])
    file = io.BytesIO()
    image.save(file, "JPEG", comment=MARKER.encode())
    return file.getvalue()


def test_workers_share_records_and_write_nothing_of_a_caller(start, registry, tmp_path):
    key, secret = registry.create_key("app", per_minute=BURST)
    other, second = registry.create_key("other", scopes=["diagnose", "outcome", "operate"])
    app, also = ({"Authorization": f"Bearer {one}"} for one in (secret, second))
    home = tmp_path / "run"
    outcomes = home / "outcomes.db"
    service = start(2, burst=BURST, records_picture_hash="yes", outcomes_url=f"sqlite:///{outcomes}")
    content = marked()

    # Each worker admits half of the rate, and chance says which of them is asked.
    began = time.monotonic()
    form = {"image": (f"{MARKER}.jpg", content, "image/jpeg")}
    answers = [
        service.ask("/v1/diagnoses", "POST", files=form, params={"skin_tone": tone}, headers=app)
        for tone in ["5", ""] * 20
    ]
    most = BURST + (time.monotonic() - began) * BURST / 60 + 2
    admitted = [one for one in answers if one.status_code == 200]
    assert {one.status_code for one in answers} == {200, 429}
    assert BURST // 2 <= len(admitted) <= most

    forwarded = {**also, "X-Forwarded-For": MARKER}
    wrong_key = {"Authorization": f"Bearer dfk_{MARKER}"}
    as_jpeg = {**also, "Content-Type": "image/jpeg"}
    refused = [
        service.ask("/v1/diagnoses", "POST", content=content, params={MARKER: MARKER}, headers=as_jpeg),
        service.ask("/v1/diagnoses", "POST", content=MARKER, headers=wrong_key),
        service.ask("/v1/diagnoses", "POST", content=MARKER, auth=(MARKER, secret)),
        service.ask("/v1/diagnoses", "POST", data={"image": MARKER}, headers=forwarded),
        service.ask(f"/v1/models/{MARKER}/card", headers={"Cookie": MARKER}),
        service.ask(f"/v1/{MARKER}", headers={**also, "User-Agent": MARKER}),
    ]
    assert [one.status_code for one in refused] == [422, 401, 401, 415, 401, 404]

    judged, *unjudged = [one.json()["id"] for one in admitted]
    path, page = f"/v1/diagnoses/{judged}/outcome", f"/diagnoses/{judged}"
    outcome = {"label": "MEL", "confirmed_by": "histopathology", "date": str(datetime.now(UTC).date())}
    named = [{**outcome, "label": MARKER}, {**outcome, MARKER: MARKER}, {**outcome, "confirmed_by": MARKER}]
    given = [
        service.ask(path, "POST", json=outcome, headers=also),
        *(service.ask(path, "POST", json=one, headers=also) for one in named),
        *(service.ask(page, "POST", data=one, headers=also) for one in named),
        service.ask(page, params={MARKER: MARKER}, headers=also),
        service.ask("/diagnoses", params={"id": MARKER}, headers=also),
    ]
    assert [one.status_code for one in given] == [200, *[422] * 6, 200, 404]
    for name in ("/metrics", "/operator"):
        shown = service.ask(name, headers=also)
        assert shown.status_code == 200
        assert judged not in shown.text
    assert service.stop() == 0

    log = service.log.read_text()
    assert "Traceback" not in log
    assert log.count(judged) == log.count(unjudged[0])  # whose outcome is known does not show there
    for answer in (*answers, *refused, *given):
        assert log.count(answer.headers["x-request-id"]) == 1
    with contextlib.closing(sqlite3.connect(outcomes)) as database:
        kept = database.execute("SELECT id, day FROM answers").fetchall()
        known = database.execute("SELECT answer, label, key FROM outcomes").fetchall()
    assert dict(kept).keys() == {judged, *unjudged}
    assert known == [(judged, 0, None)]
    with OutcomeStore.open(f"sqlite:///{outcomes}") as store, (home / "exported.csv").open("w") as exported:
        assert export_outcomes(store, exported) == 1
    records = list(home.rglob("diagnoses-*.jsonl"))
    lines = [json.loads(line) for file in records for line in file.read_text().splitlines()]
    assert {file.parent for file in records} == {home / ".local" / "share" / "dermfed" / "records"}
    assert {line["key"] for line in lines} == {key.id, other.id}
    assert {line["request"] for line in lines if line["status"] == 200} == {judged, *unjudged}

    random = secret.split("_", 2)[2]
    sent = [*(one.encode().lower() for one in (random, second, MARKER)), content[-200:-100], content[:40]]
    written = [file for file in home.rglob("*") if file.is_file()]
    assert len(written) > 5
    for file in written:
        held = file.read_bytes()
        assert [part for part in sent if part in held or part in held.lower()] == [], file
        assert MARKER not in str(file)
        assert random not in str(file)
