"""The Python client, `dermfed-diagnose` and the example in JavaScript, against the service."""

import asyncio
import csv
import io
import json
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from clients import api
from tests.conftest import Ended
from tests.contract.service import DECLARED, ROOT, lasting

COLUMNS = (
    "file,triage,decision,top_code,probability,malignancy,set,guarantee,model,version,subgroup,route,"
    "warnings,error"
)
PROBLEM_TYPE = "urn:dermfed:problem:"

Call = Callable[..., Any]


@dataclass(frozen=True)
class Client:
    """Asks with the client of either kind, which is made for one call.

    Attributes:
        kind: `DermFed` or `AsyncDermFed`.
    """

    kind: type[Any]

    def __call__(self, name: str, url: str, *arguments: Any, **named: Any) -> Any:
        """Call a method by name; settings of the client are the keyword `settings`."""
        settings = named.pop("settings", {})
        if self.kind is api.DermFed:
            with api.DermFed(url, **settings) as client:
                return getattr(client, name)(*arguments, **named)

        async def call() -> Any:
            async with api.AsyncDermFed(url, **settings) as client:
                return await getattr(client, name)(*arguments, **named)

        return asyncio.run(call())


@pytest.fixture(params=[api.DermFed, api.AsyncDermFed], ids=["sync", "async"])
def call(request):
    """Both kinds of client, one after the other."""
    return Client(request.param)


@pytest.fixture(scope="module")
def picture(pictures):
    """One drawn picture."""
    return pictures[4]


@pytest.fixture(scope="module")
def broken(pictures, tmp_path_factory):
    """A picture whose file ends early."""
    path = tmp_path_factory.mktemp("broken") / "broken.png"
    path.write_bytes(pictures[4].read_bytes()[:400])
    return path


@contextmanager
def answering(*answers: tuple[int, Mapping[str, str], bytes]) -> Iterator[tuple[str, list[bytes]]]:
    """A server that gives these answers one after the other; yields its address and the bodies it is sent."""
    waiting, sent = list(answers), []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent.append(self.rfile.read(int(self.headers["Content-Length"])))
            status, headers, body = waiting.pop(0)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", sent
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("name", DECLARED)
def test_a_diagnosis_has_the_fields_of_the_answer(call, service, picture, name):
    declared = DECLARED[name][0]
    diagnosis = call("diagnose", service.url, picture, **declared)
    given = json.loads(diagnosis.model_dump_json(exclude={"id", "created"}, exclude_unset=True))
    assert given == service.answer(picture.read_bytes(), **declared)
    assert diagnosis.refer == (diagnosis.decision == "refer")
    assert diagnosis.top.code == given["findings"][0]["code"]


def test_a_picture_is_a_path_bytes_or_a_file(call, service, picture):
    expected = service.answer(picture.read_bytes())["findings"]
    with picture.open("rb") as file:
        for given in (picture, str(picture), picture.read_bytes(), file):
            diagnosis = call("diagnose", service.url, given)
            assert [each.model_dump(mode="json") for each in diagnosis.findings] == expected


def test_a_diagnosis_cannot_be_changed(call, service, picture):
    diagnosis = call("diagnose", service.url, picture, top=1)
    assert len(diagnosis.findings) == 1
    with pytest.raises(ValueError, match="frozen"):
        diagnosis.decision = "report"


def test_models_card_and_ready(call, service):
    assert call("models", service.url) == service.client.get("/v1/models").json()
    assert call("card", service.url, "contract") == service.client.get("/v1/models/contract/card").json()
    assert call("ready", service.url) is True


@pytest.mark.parametrize(
    ("error", "status", "code", "arguments"),
    [
        (api.BadRequest, 400, "not-an-image", {"picture": "broken"}),
        (api.NotFound, 404, "not-found", {"model": "skin"}),
        (api.TooLarge, 413, "too-large", {"picture": "long"}),
        (api.InvalidParameter, 422, "invalid-parameter", {"skin_tone": "7"}),
        (api.InvalidParameter, 422, "invalid-parameter", {"skin_tone": "1", "skin_tone_scale": "munk"}),
        (api.InvalidParameter, 422, "invalid-parameter", {"facts": {"age": 70}}),
    ],
    ids=["broken", "model", "large", "tone", "scale", "facts"],
)
def test_a_refusal_is_an_error_of_its_class(call, service, picture, broken, error, status, code, arguments):
    contents = {"broken": broken.read_bytes(), "long": picture.read_bytes() + bytes(200_000)}
    content = contents.get(arguments.get("picture"), picture.read_bytes())
    parameters = {name: value for name, value in arguments.items() if name != "picture"}
    with pytest.raises(error) as caught:
        call("diagnose", service.url, content, **parameters)
    assert isinstance(caught.value, api.ProblemError)
    assert (caught.value.status, caught.value.type) == (status, PROBLEM_TYPE + code)
    assert caught.value.title
    assert caught.value.detail
    assert caught.value.request_id in str(caught.value)


@pytest.mark.parametrize(
    ("key", "error"),
    [
        (None, api.Unauthorized),
        ("gone", api.Unauthorized),
        ("read", api.Forbidden),
        ("rare", api.TooManyRequests),
    ],
)
def test_keys(call, locked, picture, key, error):
    settings = {"retries": 0} if key is None else {"retries": 0, "api_key": locked.keys[key]}
    if key == "rare":
        with suppress(error):  # the one request of this minute, unless another test has made it
            call("models", locked.service.url, settings=settings)
    with pytest.raises(error) as caught:
        call("diagnose", locked.service.url, picture, settings=settings)
    assert not any(each in str(caught.value) for each in locked.keys.values())
    good = call("diagnose", locked.service.url, picture, settings={"api_key": locked.keys["all"]})
    assert good.model.route == "unknown-tone"


def test_an_api_key_is_in_no_repr(locked):
    key = locked.keys["all"]
    with api.DermFed(locked.service.url, key) as client:
        assert key not in repr(client)


def test_what_cannot_be_sent_is_not(call, service, tmp_path):
    text = tmp_path / "text.png"
    text.write_text("this is no picture")
    for wrong, error in (
        (text, api.NotAPicture),
        (b"", api.NotAPicture),
        (tmp_path / "nothing.png", api.UnreadablePicture),
        (tmp_path, api.UnreadablePicture),
        ("http://127.0.0.1/lesion.jpg", api.InvalidInput),
    ):
        with pytest.raises(error) as caught:
            call("diagnose", service.url, wrong)
        assert isinstance(caught.value, api.InvalidInput)
        assert isinstance(caught.value, ValueError)
    with pytest.raises(api.InvalidInput):
        call("ready", "ftp://127.0.0.1")


def test_a_service_that_is_not_there(call, picture):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(api.ConnectionFailed):
        call("diagnose", f"http://127.0.0.1:{port}", picture, settings={"retries": 0})


def test_a_silent_service(call, picture):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(api.TimedOut):
            call("diagnose", url, picture, settings={"timeout": 0.3})


@pytest.mark.parametrize(
    "answer",
    [
        (200, {"Content-Type": "text/html"}, b"<p>welcome</p>"),
        (200, {"Content-Type": "application/json"}, b'{"decision": "maybe"}'),
        (302, {"Location": "http://127.0.0.1:1/"}, b""),
    ],
    ids=["page", "other fields", "redirect"],
)
def test_an_answer_of_another_server(call, picture, answer):
    with answering(answer) as (url, sent), pytest.raises(api.UnexpectedAnswer):
        call("diagnose", url, picture)
    assert len(sent) == 1


def test_a_refused_request_is_sent_again(call, service, picture):
    good = json.dumps(service.diagnose(picture.read_bytes()).json()).encode()
    busy = (503, {"Content-Type": "text/html", "Retry-After": "0"}, b"busy")
    with answering(busy, (200, {"Content-Type": "application/json"}, good)) as (url, sent):
        assert call("diagnose", url, picture).findings
    assert sent == [picture.read_bytes()] * 2
    with answering(busy) as (url, _), pytest.raises(api.Unavailable):
        call("diagnose", url, picture, settings={"retries": 0})
    with answering((500, {}, b"")) as (url, sent), pytest.raises(api.ServerError):
        call("diagnose", url, picture)
    assert len(sent) == 1


def test_fields_of_a_newer_service_are_left_out(call, service, picture):
    answer = service.diagnose(picture.read_bytes()).json()
    newer = json.dumps({**answer, "tide": {"level": "high"}, "moon": "full"}).encode()
    with answering((200, {"Content-Type": "application/json"}, newer)) as (url, _):
        diagnosis = call("diagnose", url, picture)
    assert diagnosis.id == answer["id"]
    assert not hasattr(diagnosis, "moon")


# `dermfed-diagnose`


@pytest.fixture
def diagnose(command, service):
    """Call `dermfed-diagnose` for the service; `url` and `key` may be others."""

    def ask(*arguments: object, url: str = service.url, key: str | None = None) -> Ended:
        environment = {"DERMFED_URL": url, **({} if key is None else {"DERMFED_API_KEY": key})}
        return command("diagnose", *arguments, environment=environment)

    return ask


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def matches(row: Mapping[str, str], answer: Mapping[str, Any]) -> None:
    """Check that a row of a CSV file says what an answer says."""
    top = answer["findings"][0]
    assert row["triage"] == (answer["triage"] or "")
    assert (row["decision"], row["top_code"]) == (answer["decision"], top["code"])
    assert float(row["probability"]) == pytest.approx(top["probability"], abs=1e-3)
    assert float(row["malignancy"]) == pytest.approx(answer["malignancy"]["probability"], abs=1e-3)
    assert row["set"].split(";") == answer["prediction_set"]["codes"]
    assert row["guarantee"] == answer["prediction_set"]["guarantee"]
    for name in ("version", "subgroup", "route"):
        assert row[name] == str(answer["model"][name])
    assert row["model"] == answer["model"]["name"]
    assert all(each in row["warnings"] for each in answer["warnings"])
    assert row["error"] == ""


def test_one_picture_for_people_and_programs(diagnose, service, picture):
    answer = service.answer(picture.read_bytes(), skin_tone="V")
    ended = diagnose(picture, "--skin-tone", "V")
    assert ended.code == 0, ended.err
    assert answer["decision"] in ended.out
    assert answer["disclaimer"] in " ".join(ended.out.split())
    ended = diagnose(picture, "--skin-tone", "V", "--json")
    said = json.loads(ended.out)
    assert (ended.code, said.pop("error"), Path(said.pop("file")).name) == (0, None, picture.name)
    assert {name: value for name, value in said.items() if name in answer} == answer


def test_a_folder_to_csv_and_json(diagnose, service, pictures, broken, tmp_path):
    folder = tmp_path / "pictures"
    (folder / "below").mkdir(parents=True)
    for path in pictures[:2]:
        shutil.copy(path, folder)
    shutil.copy(pictures[2], folder / "below")
    (folder / "notes.txt").write_text("no picture")
    out = tmp_path / "answers.csv"
    ended = diagnose(folder, "--csv", out)
    assert ended.code == 0, ended.err
    assert out.read_text().splitlines()[0] == COLUMNS
    rows = rows_of(out.read_text())
    assert sorted(Path(row["file"]).name for row in rows) == [path.name for path in pictures[:3]]
    for row in rows:
        (path,) = [each for each in pictures[:3] if each.name == Path(row["file"]).name]
        matches(row, service.answer(path.read_bytes()))
    said = json.loads(diagnose(folder, "--json").out)
    assert [each["file"] for each in said] == [row["file"] for row in rows]

    shutil.copy(broken, folder)
    ended = diagnose(folder, "--csv", out, "--resume")
    assert ended.code == 1
    assert "broken.png" in ended.err
    resumed = rows_of(out.read_text())
    assert resumed[:3] == rows
    assert (resumed[3]["decision"], Path(resumed[3]["file"]).name) == ("", "broken.png")
    assert resumed[3]["error"]


def test_a_table_of_cases(diagnose, service, pictures, tmp_path):
    cases = tmp_path / "cases.csv"
    cases.write_text(
        "case,image,skin_tone,skin_tone_scale\n"
        f"first,{pictures[0]},V,\nsecond,{pictures[1]},5,monk\nthird,{pictures[2]},,\n"
    )
    ended = diagnose("--cases", cases, "--csv", "-")
    assert ended.code == 0, ended.err
    rows = {row["file"]: row for row in rows_of(ended.out)}
    assert {name: row["route"] for name, row in rows.items()} == {
        "first": "declared",
        "second": "other-scale",
        "third": "unknown-tone",
    }
    matches(rows["first"], service.answer(pictures[0].read_bytes(), skin_tone="V"))
    cases.write_text(f"case,image,colour\nfirst,{pictures[0]},red\n")
    ended = diagnose("--cases", cases, "--csv", "-")
    assert ended.code == 2
    assert "colour" in ended.err


def test_exit_codes(diagnose, locked, broken, picture, tmp_path):
    text = tmp_path / "text.png"
    text.write_text("no picture")
    assert diagnose(broken).code == 1
    assert diagnose(text).code == 1
    assert diagnose(picture, "--skin-tone", "7").code == 2
    assert diagnose(picture, "--model", "skin").code == 2
    assert diagnose(picture, "--nothing").code == 2
    assert diagnose(picture, url="http://127.0.0.1:1", key=None).code == 2
    assert diagnose(picture, url=locked.service.url).code == 2
    good = diagnose(picture, url=locked.service.url, key=locked.keys["all"])
    assert good.code == 0, good.err
    assert locked.keys["all"] not in good.out + good.err


# JavaScript


@pytest.fixture
def javascript(tmp_path):
    """Call the example in JavaScript for a picture; keywords are its environment."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node on this machine")

    def ask(*arguments: object, **environment: str) -> Ended:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("DERMFED_")}
        ended = subprocess.run(
            [node, ROOT / "clients" / "examples" / "diagnose.mjs", *map(str, arguments)],
            env=kept | environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    return ask


def test_javascript_asks_and_says_why_not(javascript, service, locked, picture, broken):
    answer = service.answer(picture.read_bytes(), skin_tone="V")
    ended = javascript(picture, "V", DERMFED_URL=service.url)
    assert ended.code == 0, ended.err
    codes = ", ".join(answer["prediction_set"]["codes"])
    triage = f"{answer['triage']}; " if answer["triage"] else ""
    assert ended.out.startswith(f"{triage}{answer['decision']}: {codes} possible")
    assert ended.out.rstrip().endswith(answer["disclaimer"])
    key = locked.keys["all"]
    ended = javascript(picture, "V", DERMFED_URL=locked.service.url, DERMFED_API_KEY=key)
    assert ended.code == 0, ended.err
    for arguments, url, status in (
        ((broken,), service.url, "400 "),
        ((picture, "7"), service.url, "422 "),
        ((picture, "V", "age=70"), service.url, "422 "),
        ((picture,), locked.service.url, "401 "),
    ):
        ended = javascript(*arguments, DERMFED_URL=url)
        assert ended.code == 1
        assert status in ended.err
        assert "(request " in ended.err


def test_clients_and_service_agree_on_every_picture(service, pictures):
    with api.DermFed(service.url) as client:
        for path in pictures:
            answer = lasting(service.diagnose(path.read_bytes()))
            diagnosis = client.diagnose(path)
            assert diagnosis.top is not None
            assert diagnosis.top.code == answer["findings"][0]["code"]
            assert diagnosis.decision == answer["decision"]
