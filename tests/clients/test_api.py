"""`DermFed` and `AsyncDermFed` under the same tests, by answers that are made up and over real sockets."""

import inspect
import io
import json
import logging
import pickle
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from anyio.from_thread import start_blocking_portal

from clients.api import AsyncDermFed, DermFed, Diagnosis, errors
from clients.api.requests import media_type, retry_after, wait_before_next
from registry.bundle.pictures.open_file import picture_format
from serving.http.upload import MEDIA_TYPES
from tests.clients.both_clients import NAMES, connector, told_apart
from tests.clients.scripted import Handler, Server, example
from tests.serving.hostile.archived import archived

ROOT = Path(__file__).parents[2]
KEY = "dfk_7_a-very-secret-key-that-nobody-may-see"
JPEG = b"\xff\xd8\xff\xe0" + b"jpeg"
PNG = b"\x89PNG\r\n\x1a\n" + b"png"
WEBP = b"RIFF\x04\x00\x00\x00WEBPVP8 "
DICOM = bytes(128) + b"DICM"
CLOSED = io.BytesIO(JPEG)
CLOSED.close()

Answer = Callable[[httpx.Request], httpx.Response]


class Service:
    """A client of a service that exists only here; keeps what was asked and how long was waited."""

    def __init__(
        self, connect: Callable[..., Any], answer: Answer, *, key: str | None = None, **settings: Any
    ) -> None:
        self.requests: list[httpx.Request] = []
        self.waits: list[float] = []
        self._answer = answer
        self.client = connect(
            settings.pop("url", "http://service.test"),
            key,
            transport=httpx.MockTransport(self._handle),
            sleep=self.waits.append,
            **settings,
        )

    def _handle(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return self._answer(request)


@pytest.fixture(scope="module")
def portal():
    """An event loop in a thread of its own."""
    with start_blocking_portal("asyncio") as opened:
        yield opened


@pytest.fixture(params=NAMES, ids=told_apart)
def connect(request, portal):
    """Makes a client: of the one kind, and of the other."""
    return connector(request.param, portal)


@pytest.fixture
def serve(connect):
    made: list[Service] = []

    def make(answer: Answer | httpx.Response | None = None, **settings: Any) -> Service:
        if answer is None:
            answer = httpx.Response(200, json=example())
        said = answer
        made.append(Service(connect, said if callable(said) else lambda request: said, **settings))
        return made[-1]

    yield make
    for service in made:
        service.client.close()


def problem(status: int, /, **fields: Any) -> httpx.Response:
    return httpx.Response(
        status, content=json.dumps(fields), headers={"Content-Type": "application/problem+json"}
    )


# The diagnosis


@pytest.mark.parametrize("number", range(4))
def test_the_contracts_example_is_read_without_loss(serve, number):
    said = example(number)
    diagnosis = serve(httpx.Response(200, json=said)).client.diagnose(JPEG)
    assert json.loads(diagnosis.model_dump_json(exclude_unset=True)) == said


def test_the_helpers():
    report, refer, retake = (Diagnosis.model_validate_json(json.dumps(example(n))) for n in range(3))
    assert [report.refer, refer.refer, retake.refer] == [False, True, False]
    assert report.top == report.findings[0]
    assert report.model_copy(update={"findings": ()}).top is None


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("decision",), "perhaps"),
        (("triage",), "perhaps"),
        (("triage_evidence", "missed", "kinds", 0, "n"), 0.5),
        (("model", "version"), "3"),
        (("findings", 0, "probability"), float("nan")),
        (("quality", "acceptable"), "yes"),
        (("created",), "2026-01-01T00:00:00"),
        (("prediction_set", "guarantee"), None),
    ],
)
def test_an_answer_that_is_no_diagnosis_says_where(serve, path, value):
    said = example()
    place = said
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    service = serve(httpx.Response(200, content=json.dumps(said)))
    with pytest.raises(errors.UnexpectedAnswer, match=re.escape(".".join(map(str, path)))):
        service.client.diagnose(JPEG)
    assert len(service.requests) == 1


# What is sent


@pytest.mark.parametrize(
    ("content", "media"),
    [(JPEG, "image/jpeg"), (PNG, "image/png"), (WEBP, "image/webp"), (DICOM, "application/dicom")],
)
def test_the_picture_is_the_body_and_its_first_bytes_say_what_it_is(serve, content, media):
    service = serve(key=KEY)
    asked = {"skin_tone": "V", "skin_tone_scale": "fitzpatrick", "model": "a b", "top": 3}
    service.client.diagnose(content, **asked, explain=True)
    with pytest.raises(TypeError, match="unexpected keyword argument 'tone'"):
        service.client.diagnose(content, tone="V")
    (request,) = service.requests
    assert (request.method, request.url.path) == ("POST", "/v1/diagnoses")
    assert request.content == content
    assert request.headers["Content-Type"] == media
    assert request.headers["Accept"] == "application/json"
    assert request.headers["Authorization"] == f"Bearer {KEY}"
    assert dict(request.url.params) == {**asked, "top": "3", "explain": "true"}


def test_a_picture_in_every_form(serve, tmp_path):
    path = tmp_path / "Jane Doe.jpg"
    path.write_bytes(JPEG)
    service = serve()
    with path.open("rb") as file:
        forms = (JPEG, bytearray(JPEG), memoryview(JPEG), path, str(path), io.BytesIO(JPEG), file)
        for form in forms:
            service.client.diagnose(form)
    assert [request.content for request in service.requests] == [JPEG] * 7
    assert not any(b"Jane" in str(request.headers.raw).encode() for request in service.requests)


@pytest.mark.parametrize(
    ("image", "error", "says"),
    [
        (b"", errors.NotAPicture, "is empty"),
        (b"GIF89a", errors.NotAPicture, "GIF89a"),
        (b"RIFF\x04\x00\x00\x00WAVE", errors.NotAPicture, "no JPEG, PNG, WebP, HEIC"),
        ("http://elsewhere.test/lesion.jpg", errors.NotAPicture, "is a URL"),
        ("FILE:///lesion.jpg", errors.NotAPicture, "is a URL"),
        ("no-such-file.jpg", errors.UnreadablePicture, "No such file"),
        ("a\0b.jpg", errors.UnreadablePicture, "null"),
        (Path(), errors.UnreadablePicture, "directory"),
        (io.StringIO("text"), errors.NotAPicture, "'rb'"),
        (None, errors.NotAPicture, "there is no picture"),
        (CLOSED, errors.UnreadablePicture, "closed"),
    ],
)
def test_what_is_no_picture_is_not_sent(serve, image, error, says):
    service = serve()
    with pytest.raises(error, match=re.escape(says)):
        service.client.diagnose(image)
    assert service.requests == []


def test_a_picture_is_declared_as_the_service_knows_it():
    for content in archived():
        assert MEDIA_TYPES[media_type(content)] == picture_format(content)


def test_a_path_before_v1_is_kept(serve):
    service = serve(url="https://hospital.test/dermfed/")
    service.client.diagnose(JPEG)
    assert str(service.requests[0].url) == "https://hospital.test/dermfed/v1/diagnoses"


def test_not_ready_is_an_answer_and_not_asked_again(serve):
    service = serve(problem(503, title="draining"))
    assert service.client.ready() is False
    assert len(service.requests) == 1


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_that_would_be_another_url_is_refused(serve, name):
    service = serve()
    with pytest.raises(errors.InvalidInput, match="cannot be called"):
        service.client.card(name)
    assert service.requests == []


# Settings


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:3000",
        "ftp://host",
        "http://",
        "http://[",
        "http://a b",
        "http://a..b",
        f"http://{'a' * 64}.test",
        "http://host:99999",
        "http://host?a=1",
        "http://host#a",
        None,
    ],
)
def test_a_url_that_cannot_be_used_is_refused(connect, url):
    with pytest.raises(errors.InvalidInput, match="service's URL"):
        connect(url)


def test_a_password_in_the_url_is_refused_and_not_shown(connect):
    with pytest.raises(errors.InvalidInput, match="api_key") as caught:
        connect(f"http://user:{KEY}@host")
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("key", ["", f"{KEY}\n", f"{KEY} x", f"{KEY}é"])
def test_a_key_that_no_header_can_hold_is_refused_and_not_shown(connect, key):
    with pytest.raises(errors.InvalidInput, match="API key") as caught:
        connect("http://host", key)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    "settings",
    [{"timeout": 0}, {"timeout": None}, {"timeout": float("inf")}, {"retries": -1}, {"retries": 1.5}],
)
def test_patience_without_an_end_is_refused(connect, settings):
    with pytest.raises(errors.InvalidInput, match=next(iter(settings))):
        connect("http://host", **settings)


@pytest.mark.parametrize(("timeout", "connecting"), [(30, 10), (4, 4)])
def test_a_connection_is_made_sooner_than_an_answer(serve, timeout, connecting):
    service = serve(timeout=timeout)
    service.client.diagnose(JPEG)
    limits = service.requests[0].extensions["timeout"]
    assert limits == {"connect": connecting, "read": timeout, "write": timeout, "pool": timeout}


def test_the_environment_says_whom_to_trust_but_not_where_to_send(connect, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.test:3128")
    monkeypatch.setenv("ALL_PROXY", "http://proxy.test:3128")
    with connect("http://127.0.0.1:9", retries=0) as service:
        with pytest.raises(errors.ConnectionFailed) as caught:
            service.ready()
        assert "127.0.0.1:9" in str(caught.value)
        assert not any(service._http._mounts.values())
    monkeypatch.setenv("SSL_CERT_FILE", "/no/such/certificates.pem")
    with pytest.raises(errors.InvalidInput, match="SSL_CERT_FILE"):
        connect("https://host")


# Refusals

STATUSES = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "ProblemError",
    413: "TooLarge",
    415: "UnsupportedType",
    418: "ProblemError",
    422: "InvalidParameter",
    429: "TooManyRequests",
    500: "ServerError",
    502: "ServerError",
    503: "Unavailable",
    504: "ServerError",
}
AGAIN = (429, 503)


@pytest.mark.parametrize(("status", "name"), STATUSES.items())
def test_every_status_has_its_class_and_two_are_tried_again(serve, status, name):
    service = serve(
        problem(
            status,
            type="https://errors.test/x",
            title="A title",
            detail="What was wrong",
            status=299,
            request_id="r-1",
        )
    )
    with pytest.raises(errors.ProblemError) as caught:
        service.client.diagnose(JPEG)
    error = caught.value
    assert type(error).__name__ == name
    said = (error.status, error.title, error.detail, error.type, error.request_id)
    assert said == (status, "A title", "What was wrong", "https://errors.test/x", "r-1")
    assert str(error) == f"{status} A title: What was wrong (request r-1)"
    assert len(service.requests) == (5 if status in AGAIN else 1)
    assert len(service.waits) == (4 if status in AGAIN else 0)


@pytest.mark.parametrize(("status", "name"), STATUSES.items())
@pytest.mark.parametrize(
    ("media", "body"),
    [
        ("text/html", b"<html>Bad Gateway</html>"),
        ("application/problem+json", b"{broken"),
        ("application/problem+json", b"[1]"),
        ("application/problem+json", b'{"title": 3, "detail": null, "status": "x", "request_id": {}}'),
    ],
)
def test_a_refusal_by_a_proxy_has_the_right_class_too(serve, status, name, media, body):
    service = serve(httpx.Response(status, content=body, headers={"Content-Type": media}), retries=0)
    with pytest.raises(errors.ProblemError) as caught:
        service.client.diagnose(JPEG)
    assert (type(caught.value).__name__, caught.value.status) == (name, status)
    assert caught.value.title == httpx.codes.get_reason_phrase(status)
    assert (caught.value.type, caught.value.request_id) == ("about:blank", None)


def test_a_refusal_can_be_sent_to_another_process():
    error = errors.TooLarge(413, "Too large", "9 MB", "about:blank", "r-1")
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.request_id) == (errors.TooLarge, str(error), "r-1")


# Retries


def answers(*outcomes: httpx.Response | Exception) -> Answer:
    """One outcome after the other."""
    left = list(outcomes)

    def answer(request: httpx.Request) -> httpx.Response:
        outcome = left.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        # Each a new one: a response that was read belongs to the client that read it.
        return httpx.Response(outcome.status_code, headers=outcome.headers, content=outcome.content)

    return answer


@pytest.mark.parametrize(
    "failure",
    [
        problem(429),
        problem(503),
        httpx.ConnectError("refused"),
        httpx.ConnectTimeout("silent"),
        httpx.RemoteProtocolError("dropped"),
        httpx.ReadError("reset"),
    ],
    ids=repr,
)
def test_what_passes_is_borne(serve, failure):
    service = serve(answers(failure, failure, httpx.Response(200, json=example())))
    assert service.client.diagnose(io.BytesIO(JPEG)).id == "…"
    assert [request.content for request in service.requests] == [JPEG] * 3
    assert len(service.waits) == 2


@pytest.mark.parametrize(
    ("retries", "failure"),
    [
        *((retries, httpx.ConnectError("refused")) for retries in (0, 1, 6)),
        (2, httpx.RemoteProtocolError("dropped")),
    ],
)
def test_retries_are_counted(serve, retries, failure):
    service = serve(answers(*[failure] * 10), retries=retries)
    tried = "1 attempt " if retries == 0 else f"{retries + 1} attempts "
    with pytest.raises(
        errors.ConnectionFailed, match=rf"http://service\.test cannot be reached after {tried}.*{failure}"
    ):
        service.client.diagnose(JPEG)
    assert (len(service.requests), len(service.waits)) == (retries + 1, retries)


@pytest.mark.parametrize("error", [httpx.ReadTimeout, httpx.WriteTimeout, httpx.PoolTimeout])
def test_silence_is_not_borne_twice(serve, error):
    service = serve(answers(error("silent"), httpx.Response(200, json=example())))
    with pytest.raises(errors.TimedOut, match="silent for too long"):
        service.client.diagnose(JPEG)
    assert len(service.requests) == 1


def test_waits_double_up_to_a_limit_and_may_be_anything_below():
    refused = problem(503)
    highest = [wait_before_next(refused, done, 50, lambda: 1.0) for done in (0, 1, 2, 3, 4, 5, 49)]
    assert highest == [0.5, 1, 2, 4, 8, 8, 8]
    assert wait_before_next(refused, 3, 4, lambda: 0.0) == 0
    assert wait_before_next(refused, 3, 4, lambda: 0.25) == 1
    assert wait_before_next(refused, 4, 4, lambda: 0.0) is None


NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("0", 0),
        (" 7 ", 7),
        ("60", 60),
        ("3600", 60),
        ("9" * 5000, 60),
        (format_datetime(NOW + timedelta(seconds=20), usegmt=True), 20),
        (format_datetime((NOW + timedelta(seconds=20)).replace(tzinfo=None)), 20),
        (format_datetime(NOW + timedelta(days=2), usegmt=True), 60),
        (format_datetime(NOW - timedelta(days=2), usegmt=True), 0),
        ("-5", 0),
        ("1.5", 0),
        ("soon", 0),
        ("", 0),
        ("Mon, 99 Foo 99999 99:99:99 GMT", 0),
    ],
)
def test_what_retry_after_asks_for(said, seconds):
    assert retry_after(httpx.Response(503, headers={"Retry-After": said}), NOW) == seconds


@pytest.mark.parametrize("status", AGAIN)
def test_retry_after_is_obeyed(serve, status):
    asked = httpx.Response(status, headers={"Retry-After": "13"})
    service = serve(answers(asked, httpx.Response(200, json=example())))
    service.client.diagnose(JPEG)
    assert service.waits == [13]


# The API key


def test_the_key_is_never_shown(serve, caplog):
    caplog.set_level(logging.DEBUG)
    echo = {"title": f"no {KEY}", "detail": KEY, "type": KEY, "request_id": KEY}
    outcomes = [
        *(problem(status, **echo) for status in STATUSES),
        httpx.Response(302, headers={"Location": f"http://elsewhere.test/?key={KEY}"}),
        httpx.Response(200, content=KEY),
        httpx.RemoteProtocolError(f"illegal status line: {KEY}"),
        httpx.ReadTimeout(KEY),
    ]
    for outcome in outcomes:
        service = serve(answers(outcome), key=KEY, retries=0)
        with pytest.raises(errors.DermFedError) as caught:
            service.client.diagnose(JPEG)
        assert KEY not in str(caught.value) + repr(caught.value)
        assert KEY not in f"{vars(service.client)} {service.client!r}"
        assert service.requests[0].headers["Authorization"].endswith(KEY)
    assert repr(service.client) in (f"{name}('http://service.test')" for name in NAMES)
    assert KEY not in caplog.text


def test_no_fact_is_in_the_address_that_is_asked(serve):
    service = serve()
    service.client.diagnose(JPEG, facts={"age": 83.0625, "sex": None}, skin_tone="5")
    (request,) = service.requests
    with pytest.raises(errors.InvalidInput, match="top is no fact"):
        service.client.diagnose(JPEG, facts={"top": 1})
    assert "83" not in str(request.url)
    assert "age" not in str(request.url)
    assert b"83.0625" in request.content
    assert b"sex" not in request.content


# Over real sockets


class Script(Handler):
    """Takes the next step of the server's script for every request."""

    server: "ScriptedServer"

    def answer(self, body: bytes) -> None:
        step = self.server.script.pop(0) if self.server.script else "answer"
        self.server.bodies.append(body)
        if step == "drop":
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        elif step == "silence":
            self.server.ended.wait(120)
        elif step == "answer":
            self.say(200, {}, json.dumps(example()).encode())
        else:
            self.say(*step, b"")


class ScriptedServer(Server):
    def __init__(self) -> None:
        super().__init__(Script)
        self.script: list[Any] = []
        self.bodies: list[bytes] = []
        self.ended = threading.Event()


@pytest.fixture
def server():
    server = ScriptedServer()
    with server.running():
        yield server
        server.ended.set()


def test_a_dropped_connection_is_made_again(connect, server):
    server.script = ["drop", "drop"]
    waits: list[float] = []
    with connect(server.url, sleep=waits.append) as service:
        assert service.diagnose(JPEG).decision == "report"
    assert server.bodies == [JPEG] * 3
    assert len(waits) == 2


def test_a_redirect_leads_no_picture_to_another_host(connect, server):
    with ScriptedServer() as other:
        server.script = [(307, {"Location": f"{other.url}/v1/diagnoses"})]
        with connect(server.url) as service, pytest.raises(errors.UnexpectedAnswer, match="redirects"):
            service.diagnose(JPEG)
        other.timeout = 0.2
        other.handle_request()  # takes a request if there is one
        assert other.bodies == []


def test_the_wire_is_logged_without_the_key(connect, server, caplog):
    caplog.set_level(logging.DEBUG)
    server.script = [(503, {}), (401, {"Content-Type": "text/plain"})]
    with (
        connect(server.url, KEY, sleep=lambda seconds: None) as service,
        pytest.raises(errors.Unauthorized),
    ):
        service.diagnose(JPEG)
    assert "httpcore" in caplog.text
    assert KEY not in caplog.text


def test_one_client_serves_many_threads(connect, server):
    pictures = [JPEG + bytes([number]) for number in range(40)]
    with connect(server.url) as service, ThreadPoolExecutor(8) as threads:
        given = list(threads.map(service.diagnose, pictures))
    assert len(given) == 40
    assert sorted(server.bodies) == sorted(pictures)


# Both clients


def test_both_clients_say_the_same_of_themselves():
    """The same names, parameters and defaults; of what is waited for, only the way of waiting differs."""
    public = [name for name in vars(DermFed) if not name.startswith("_")]
    assert public == [name for name in vars(AsyncDermFed) if not name.startswith("_")]
    for name in public:
        one, other = getattr(DermFed, name), getattr(AsyncDermFed, name)
        assert inspect.signature(one) == inspect.signature(other), name
        assert inspect.iscoroutinefunction(other), name
        assert not inspect.iscoroutinefunction(one), name
    ones, others = (inspect.signature(kind).parameters for kind in (DermFed, AsyncDermFed))
    assert list(ones) == list(others)
    alike = [name for name in ones if name not in ("transport", "sleep")]
    assert [ones[name] for name in alike] == [others[name] for name in alike]


def test_a_task_that_is_cancelled_while_it_waits_sends_nothing_more(server):
    server.script = [(503, {"Retry-After": "20"})] * 9

    async def give_up() -> None:
        async with AsyncDermFed(server.url) as service, anyio.create_task_group() as tasks:
            tasks.start_soon(service.diagnose, JPEG)
            while not server.bodies:
                await anyio.sleep(0.01)
            await anyio.sleep(0.3)  # it has been told how long to wait
            tasks.cancel_scope.cancel()

    anyio.run(give_up)
    assert len(server.bodies) == 1


def test_others_go_on_while_one_waits_for_the_service(server):
    server.script = ["silence"]

    async def ask() -> int:
        async with AsyncDermFed(server.url) as service, anyio.create_task_group() as tasks:
            tasks.start_soon(service.diagnose, JPEG)
            while not server.bodies:
                await anyio.sleep(0.01)
            answers = [await service.diagnose(JPEG) for _ in range(3)]
            server.ended.set()
            tasks.cancel_scope.cancel()
        return len(answers)

    assert anyio.run(ask) == 3


# What an app loads


def test_an_app_loads_nothing_heavy_and_nothing_else_of_ours():
    program = "import json, sys, clients.api; print(json.dumps(sorted(sys.modules)))"
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    loaded = set(json.loads(ended.stdout))
    ours = {name for name in loaded if name.split(".")[0] in ("clients", "registry", "training")}
    assert not loaded & {"torch", "numpy", "PIL", "registry", "training", "personalization", "typer"}
    assert all(name == "clients" or name.split(".")[:2] == ["clients", "api"] for name in ours)
    assert "clients.api.client" in ours


PAGE = (ROOT / "docs" / "api-client.md").read_text()


def test_the_page_has_every_error_and_says_which_are_tried_again():
    rows = dict(re.findall(r"^\| `(\w+)`.*\| ([^|]*) \|$", PAGE, re.MULTILINE))
    classes = dict(inspect.getmembers(errors, inspect.isclass))
    assert set(rows) == set(classes) - {"DermFedError"}
    again = {name for name, said in rows.items() if said == "yes, then raised"}
    assert again == {STATUSES[status] for status in AGAIN} | {"ConnectionFailed"}


def test_the_pages_example_runs(server, tmp_path, monkeypatch, capsys):
    (tmp_path / "lesion.jpg").write_bytes(JPEG)
    monkeypatch.chdir(tmp_path)
    program = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1]
    exec(program.replace("http://127.0.0.1:3000", server.url))
    assert capsys.readouterr().out.splitlines()[:2] == ["urgent report ('MEL', 'NV')", "Melanoma 0.62"]
