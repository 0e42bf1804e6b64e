"""`dermfed-diagnose`, as people and programs call it, against a service that is a script."""

import csv
import io
import json
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from typer.testing import CliRunner, Result

from clients.api import ConnectionFailed
from clients.diagnose import app
from clients.diagnose_output import escape_formula
from tests.case_bundles import case_bundle
from tests.clients.scripted import Handler, Server, example
from tests.serving.conftest import Places, encode, paint, release, running

KEY = "dfk_7_a-very-secret-key"
JPEG = b"\xff\xd8\xff\xe0"
DIAGNOSIS: dict[str, Any] = {
    **{name: said for name, said in example().items() if not name.startswith("triage")},
    "decision": "refer",
    "findings": [
        *example()["findings"],
        {"code": "NV", "name": "Naevus", "malignancy": "benign", "probability": 0.25, "coding": {}},
    ],
    "warnings": ["First warning.", "Second warning."],
    "reasons": [{"code": "low-confidence", "text": "No conclusion is sure enough."}],
    "disclaimer": "No substitute for a clinician.",
}


MISSED = {
    "limit": 0.1,
    "kinds": [
        {"kind": "melanoma", "n": 113, "missed": 4, "high": 0.0792},
        {"kind": "basal cell carcinoma", "n": 228, "missed": 9, "high": 0.0683},
    ],
}
EVIDENCE: dict[str, Any] = {
    "guarantee": "subgroup",
    "basis": "cross-fitted",
    "confidence": 0.95,
    "missed": MISSED,
    "false_alarms": {"limit": 0.1, "n": 512, "seen": 38, "high": 0.0962},
}


def triaged(level: str, **evidence: Any) -> dict[str, Any]:
    return {"triage": level, "triage_evidence": EVIDENCE | evidence}


class Echo(Handler):
    """Answers what the picture's last bytes ask for: a status, or a diagnosis."""

    server: "EchoServer"

    def answer(self, body: bytes) -> None:
        self.server.asked.append((self.path, self.headers.get("Authorization"), body))
        self.server.meeting.wait()
        asked = body.removeprefix(JPEG).decode()
        status, media, said = 200, "application/json", self.server.answer | ({"id": asked} if asked else {})
        if asked.isdigit():
            status, media = int(asked), "application/problem+json"
            said = {"title": "Refused", "detail": "=as asked", "request_id": "r-1"}
        self.say(status, {"Content-Type": media}, json.dumps(said).encode())


class EchoServer(Server):
    def __init__(self) -> None:
        super().__init__(Echo)
        self.asked: list[tuple[str, str | None, bytes]] = []
        self.answer = DIAGNOSIS
        self.meeting = threading.Barrier(1)


@pytest.fixture
def server() -> Iterator[EchoServer]:
    server = EchoServer()
    with server.running():
        yield server


Command = Callable[..., Result]


@pytest.fixture
def command(server: EchoServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """Call the command in `tmp_path` for the server; `env` is what it sees besides."""
    monkeypatch.chdir(tmp_path)
    for name in ("DERMFED_API_KEY", "DERMFED_URL"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: object, **env: str) -> Result:
        settings = {"DERMFED_URL": server.url, "COLUMNS": "200", **env}
        return CliRunner().invoke(app, [str(argument) for argument in arguments], env=settings)

    return call


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    return write(tmp_path / "lesion.jpg")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three pictures that are diagnosed, two that are refused, one that is none, and what is no concern."""
    folder = tmp_path / "pictures"
    write(folder / "b.JPG", "b")
    write(folder / "a" / "z.jpeg", "z")
    write(folder / "a" / "refused.jpg", "400")
    write(folder / "c" / "broken.webp", "500")
    (folder / "c" / "text.png").write_text("no picture")
    (folder / "c" / "p.png").write_bytes(JPEG + b"p")
    write(folder / ".hidden" / "h.jpg")
    write(folder / "._b.jpg")
    write(folder / "notes.txt")
    return folder


SORTED = ["a/refused.jpg", "a/z.jpeg", "b.JPG", "c/broken.webp", "c/p.png", "c/text.png"]


def write(path: Path, asks: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(JPEG + asks.encode())
    return path


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


# One picture


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, "REFER"),
        ({}, DIAGNOSIS["disclaimer"]),
        ({}, "Warning: Second warning."),
        ({}, "Reason: No conclusion is sure enough."),
        ({"decision": "retake", "findings": []}, "RETAKE"),
        ({"malignancy": {"probability": None}}, "Malignancy: not known"),
        (
            {"malignancy": {"probability": 0.25, "threshold": 0.2, "above": True, "n": 117}},
            "Malignancy: 0.250, suspicious (0.200)",
        ),
        ({"quality": {"acceptable": False, "issues": ["blurred"]}}, "not acceptable: blurred"),
        ({"disclaimer": "[red]no\x1b[31m markup"}, r"[red]no\x1b[31m markup"),
    ],
)
def test_a_person_reads_the_answer(command, server, picture, changes, says):
    server.answer = DIAGNOSIS | changes
    ended = command("lesion.jpg")
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert says in ended.stdout


LIMITS = [
    "melanoma: at most 8 % ruled out (4 of 113)",
    "basal cell carcinoma: at most 6.9 % ruled out (9 of 228)",
    "not malignant: at most 9.7 % urgent (38 of 512)",
]
FOR_TONE = "Shown for this skin tone, cross-fitted; each limit holds with 95% confidence."
NO_ANSWER = "REFER. No diagnosis is sure enough to be reported."
FEW = MISSED | {"kinds": [MISSED["kinds"][0], MISSED["kinds"][1] | {"n": 9, "missed": 0, "high": 0.284}]}


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        (
            triaged("ruled-out"),
            [
                "lesion.jpg: Ruled out: each kind of malignancy is missed in at most 10% of lesions.",
                *(*LIMITS, FOR_TONE, NO_ANSWER),
            ],
        ),
        (
            triaged("urgent"),
            [
                "lesion.jpg: Urgent: a clinician has to see this lesion before others.",
                *(*LIMITS, FOR_TONE, NO_ANSWER),
            ],
        ),
        (
            triaged("routine", missed=FEW),
            ["lesion.jpg: Routine: a clinician looks.", LIMITS[-1], FOR_TONE, NO_ANSWER],
        ),
        (
            triaged("routine", guarantee="none"),
            [
                "lesion.jpg: Routine: a clinician looks.",
                "Nothing was shown of this triage for such a lesion.",
                NO_ANSWER,
            ],
        ),
        (
            triaged("routine") | {"decision": "report"},
            [
                "lesion.jpg: Routine: a clinician looks.",
                *(*LIMITS, FOR_TONE, "REPORT. The findings may be reported."),
            ],
        ),
        ({}, ["lesion.jpg: REFER. A clinician has to look at this picture."]),
    ],
)
def test_a_person_reads_triage_first(command, server, picture, changes, lines):
    server.answer = DIAGNOSIS | changes
    ended = command("lesion.jpg")
    assert ended.stdout.partition("\n\n")[0].splitlines() == lines


def test_triage_is_first_in_lines_and_rows(command, server, folder):
    server.answer = DIAGNOSIS | triaged("ruled-out")
    assert "b.JPG: ruled-out; refer; MEL" in command("pictures/b.JPG", "pictures/a/z.jpeg").stdout
    text = command("pictures/b.JPG", "pictures/a/z.jpeg", "--csv", "-").stdout
    assert text.startswith("file,triage,decision,")
    assert {row["triage"] for row in rows(text)} == {"ruled-out"}
    server.answer = DIAGNOSIS
    assert "b.JPG: refer; MEL" in command("pictures/b.JPG", "pictures/a/z.jpeg").stdout


def test_options_reach_the_service(command, server, picture):
    asked = ("--skin-tone", "7", "--skin-tone-scale", "monk", "--model", "m", "--top", "2")
    assert command(picture, *asked).exit_code == 0
    ((path, key, body),) = server.asked
    assert parse_qs(urlsplit(path).query) == {
        "skin_tone": ["7"],
        "skin_tone_scale": ["monk"],
        "model": ["m"],
        "top": ["2"],
    }
    assert (key, body) == (None, JPEG)


def test_the_key_comes_from_the_environment_or_the_option(command, server, picture):
    assert command(picture, DERMFED_API_KEY=KEY).exit_code == 0
    assert command(picture, "--api-key", "other", DERMFED_API_KEY=KEY).exit_code == 0
    assert [key for _, key, _ in server.asked] == [f"Bearer {KEY}", "Bearer other"]


# Many


def test_files_and_folders_together_each_once(command, server, folder, picture):
    ended = command("lesion.jpg", "pictures/b.JPG", "pictures/a", "pictures/b.JPG", "--json")
    assert [answer["file"] for answer in json.loads(ended.stdout)] == [
        "lesion.jpg",
        "pictures/b.JPG",
        "pictures/a/refused.jpg",
        "pictures/a/z.jpeg",
    ]
    assert len(server.asked) == 4


def test_pictures_of_other_formats_in_a_folder_are_named_and_phones_are_sent(command, server, tmp_path):
    for name in ("a.HEIC", "b.tif", "c.jpg", "d.bmp"):
        write(tmp_path / "in" / name)
    (tmp_path / "in" / "a.HEIC").write_bytes(b"\0\0\0\x18ftypheic\0\0\0\0heic")
    ended = command("in", "--json")
    assert ended.exit_code == 0
    assert [answer["file"] for answer in json.loads(ended.stdout)] == ["in/a.HEIC", "in/c.jpg"]
    assert "2 pictures are left out, since no service reads their format (in/b.tif, in/d.bmp)" in ended.stderr


def test_text_in_csv_is_no_formula(command, server, tmp_path):
    write(tmp_path / "in" / "a.jpg")
    server.answer = json.loads(json.dumps(DIAGNOSIS))
    server.answer["findings"][0]["code"] = "=1+1"
    server.answer["findings"][0]["probability"] = -0.5
    server.answer["model"] |= {"name": "@x", "subgroup": "+V"}
    server.answer["prediction_set"]["codes"] = ["-1", "NV"]
    server.answer["warnings"] = ["\t=1"]
    write(tmp_path / "in" / "-b.jpg", "400")
    os.chdir(tmp_path / "in")
    bad, row = rows(command("--csv", "-", "--", "-b.jpg", "a.jpg").stdout)
    assert bad["file"] == "'-b.jpg"
    assert (row["top_code"], row["model"], row["subgroup"], row["set"], row["warnings"]) == (
        "'=1+1",
        "'@x",
        "'+V",
        "'-1;NV",
        "'\t=1",
    )
    assert row["probability"] == "-0.5"  # a number stays one


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@a", "\t1", "\r1", "\n1", " =1", "＝1"])
def test_what_a_spreadsheet_would_run(text):
    assert escape_formula(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "MEL", "a=1", "1-2", " ", "'=1"])
def test_what_a_spreadsheet_takes_as_text(text):
    assert escape_formula(text) == text


def test_a_file_name_that_is_no_text(command, tmp_path):
    folder = tmp_path / "odd"
    folder.mkdir()
    try:
        Path(os.fsdecode(os.fsencode(folder) + b"/\xff\n.jpg")).write_bytes(JPEG)
    except OSError:
        pytest.skip("this file system takes no such name")
    for form in (["--json"], ["--csv", "-"], ["--csv", "odd.csv"], []):
        assert command("odd", *form).exit_code == 0
    assert rows((tmp_path / "odd.csv").read_text())[0]["file"] == r"odd/\udcff\n.jpg"


# Many at once


def test_pictures_are_asked_about_at_once_and_answered_in_order(command, server, tmp_path):
    names = [f"{number:02}" for number in range(12)]
    for name in names:
        write(tmp_path / "in" / f"{name}.jpg", f"x{name}")
    server.meeting = threading.Barrier(3, timeout=60)  # nobody is answered before three have asked
    ended = command("in", "--json", "--jobs", 3)
    assert ended.exit_code == 0, ended.stderr
    assert [answer["id"] for answer in json.loads(ended.stdout)] == [f"x{name}" for name in names]


def test_a_wrong_key_sends_no_more_than_what_was_under_way(command, server, tmp_path):
    write(tmp_path / "in" / "000.jpg", "401")
    for number in range(1, 100):
        write(tmp_path / "in" / f"{number:03}.jpg")
    assert command("in", "--csv", "-", "--jobs", 2).exit_code == 2
    assert len(server.asked) <= 6
    assert command("in", "--json").stdout == "[]\n"


# Going on


def test_a_run_that_was_interrupted_goes_on(command, server, folder, tmp_path):
    whole = command("pictures", "--csv", "whole.csv")
    text = (tmp_path / "whole.csv").read_text()
    lines = text.splitlines(keepends=True)
    for number in range(len(text) + 1):
        if text[number : number + 1] in ("\n", "V") or number in (0, 1, len(text)):
            (tmp_path / "cut.csv").write_text(text[:number])
            server.asked.clear()
            ended = command("pictures", "--csv", "cut.csv", "--resume")
            assert ended.exit_code == 1, ended.stderr
            kept = [
                line for line in lines[1:] if text[:number].count(line.rstrip("\n")) and "Error" not in line
            ]
            kept = [line for line in kept if "Request" not in line and "NotAPicture" not in line]
            assert sorted((tmp_path / "cut.csv").read_text().splitlines(keepends=True)) == sorted(lines)
            assert len(server.asked) == 5 - len(kept)
    assert whole.exit_code == 1


def test_what_failed_before_is_asked_for_again(command, server, folder, tmp_path):
    assert command("pictures", "--csv", "a.csv").exit_code == 1
    for name, asks in (("a/refused.jpg", "r"), ("c/broken.webp", "w"), ("c/text.png", "t")):
        write(folder / name, asks)
    server.asked.clear()
    ended = command("pictures", "--csv", "a.csv", "--resume")
    assert ended.exit_code == 0
    assert sorted(body.removeprefix(JPEG) for _, _, body in server.asked) == [b"r", b"t", b"w"]
    assert ended.stderr.splitlines() == [
        "3 of 6 pictures were diagnosed before",
        "3 of 3 pictures diagnosed",
    ]
    found = rows((tmp_path / "a.csv").read_text())
    assert sorted(row["file"] for row in found) == [f"pictures/{name}" for name in SORTED]
    assert not any(row["error"] for row in found)


def test_a_run_that_stopped_says_how_to_go_on_and_does(command, server, tmp_path):
    for name, asks in (("a", "a"), ("b", "401"), ("c", "c")):
        write(tmp_path / "in" / f"{name}.jpg", asks)
    ended = command("in", "--csv", "a.csv", "--resume", "--jobs", 1)
    assert ended.exit_code == 2
    assert "--resume goes on from there" in ended.stderr
    write(tmp_path / "in" / "b.jpg", "b")
    assert command("in", "--csv", "a.csv", "--resume").exit_code == 0
    assert [row["file"] for row in rows((tmp_path / "a.csv").read_text())] == [
        "in/a.jpg",
        "in/b.jpg",
        "in/c.jpg",
    ]


@pytest.mark.parametrize("content", [b"name,age\nJane,7\n", b"\xff\xfe\n", b"file\n"])
def test_a_file_of_somebody_else_is_left_alone(command, server, picture, tmp_path, content):
    (tmp_path / "other.csv").write_bytes(content)
    ended = command("lesion.jpg", "--csv", "other.csv", "--resume")
    assert (ended.exit_code, server.asked) == (2, [])
    assert "leave out --resume" in ended.stderr
    assert (tmp_path / "other.csv").read_bytes() == content


# Wrong use


@pytest.mark.parametrize("status", [401, 403, 404, 422])
def test_a_wrong_key_or_option_stops_at_once(command, server, tmp_path, status):
    for name, asks in (("a", "a"), ("b", str(status)), ("c", "c")):
        write(tmp_path / "in" / f"{name}.jpg", asks)
    ended = command("in", "--csv", "-", "--jobs", 1, DERMFED_API_KEY=KEY)
    assert ended.exit_code == 2
    assert f": {status} Refused" in ended.stderr
    assert "stopped after 1 of 3 pictures" in ended.stderr
    assert [row["file"] for row in rows(ended.stdout)] == ["in/a.jpg"]
    assert len(server.asked) == 2
    assert KEY not in ended.output


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> str:
    """A URL where nobody listens, and a client that does not wait."""
    monkeypatch.setattr("clients.api.client.wait_before_next", lambda outcome, done, retries: None)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


@pytest.mark.parametrize("form", [(), ("--json",), ("--csv", "old.csv")])
def test_no_service_is_wrong_use_and_overwrites_nothing(command, picture, tmp_path, nobody, form):
    (tmp_path / "old.csv").write_text("precious")
    ended = command("lesion.jpg", *form, "--url", nobody)
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert re.search(rf"lesion\.jpg: ConnectionFailed: {nobody} cannot be reached", ended.stderr)
    assert (tmp_path / "old.csv").read_text() == "precious"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["no-such.jpg"], "does not exist"),
        (["lesion.jpg", "--json", "--csv", "-"], "exclude each other"),
        (["lesion.jpg", "--resume"], "name it with --csv"),
        (["lesion.jpg", "--csv", "-", "--resume"], "name it with --csv"),
        (["lesion.jpg", "--jobs", "0"], "--jobs"),
        (["lesion.jpg", "--csv", "no/such/a.csv"], "cannot be written"),
        (["lesion.jpg", "--csv", "empty"], "cannot be written"),
        (["lesion.jpg", "--csv", "/dev/full"], "/dev/full cannot be written (No space left on device)"),
        (["lesion.jpg", "--top", "0"], "--top"),
        (["lesion.jpg", "--url", "localhost:3000"], "service's URL"),
        (["lesion.jpg", "--api-key", f"{KEY} x"], "API key"),
        (["lesion.jpg", "--urll", "x"], "--urll"),
        (["empty"], "no picture is there"),
    ],
)
def test_wrong_use(command, server, picture, tmp_path, arguments, says):
    (tmp_path / "empty").mkdir()
    ended = command(*arguments)
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert says in " ".join(re.sub(r"[│╭╮╰╯─]", " ", ended.stderr).split())
    assert KEY not in ended.output
    assert not server.asked or "/dev/full" in arguments


def test_a_folder_that_cannot_be_listed_is_no_empty_folder(command, server, folder, monkeypatch):
    scandir = os.scandir

    def refuse(path: str | int) -> Any:
        if not isinstance(path, int) and Path(path).name == "c":
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr("os.scandir", refuse)
    ended = command("pictures")
    assert (ended.exit_code, server.asked) == (2, [])
    assert "pictures/c cannot be read (Permission denied)" in ended.stderr


# The command itself


def test_help_does_not_show_the_key(command):
    assert KEY not in command("--help", DERMFED_API_KEY=KEY).output


def test_a_service_that_is_still_starting_is_waited_for(command, picture, monkeypatch):
    monkeypatch.setattr("clients.diagnose.LOOK_EVERY", 0.01)
    looks = iter([ConnectionFailed("http://x"), False, True])

    def ready(self):
        look = next(looks)
        if isinstance(look, Exception):
            raise look
        return look

    monkeypatch.setattr("clients.api.DermFed.ready", ready)
    ended = command(picture, "--wait", "30")
    assert ended.exit_code == 0
    assert next(looks, None) is None


TABLE = """case,close_up,dermoscopic,age,site,skin_tone,fact:weight
one,pictures/a.jpg,pictures/b.jpg,70,trunk,V,
two,pictures/b.jpg,,,,,80
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "in" / "pictures").mkdir(parents=True)
    for name in "ab":
        (tmp_path / "in" / "pictures" / f"{name}.jpg").write_bytes(JPEG + name.encode())
    (tmp_path / "in" / "cases.csv").write_text(TABLE)
    return tmp_path / "in" / "cases.csv"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("case,close_up,diagnosis\none,pictures/a.jpg,MEL\n", "the column diagnosis, which is not sent"),
        ("close_up\npictures/a.jpg\n", "no column `case`"),
        ("case,close_up\n", "no rows"),
        ("case,close_up\none,pictures/a.jpg\none,pictures/b.jpg\n", "line 3: one; each lesion has a name"),
        ("case,close_up\n,pictures/a.jpg\n", "line 2: no name; each lesion has a name"),
        ("case,age\none,70\n", "line 2: no picture"),
        ("case,close_up\none,pictures/c.jpg\n", "there is no picture"),
        ("case,close_up\none,pictures/a.jpg,70\n", "line 2: more or fewer cells"),
    ],
)
def test_a_table_that_cannot_be_sent_whole_is_refused_before_anything_is(command, server, table, text, said):
    table.write_text(text)
    done = command("--cases", str(table), "--csv", "answers.csv")
    assert done.exit_code == 2
    assert said in done.stderr
    assert server.asked == []


@pytest.fixture
def of_cases(tmp_path: Path) -> Iterator[str]:
    """The real service, with a model that takes cases."""
    places = Places(tmp_path / "registry")
    with places.open() as registry:
        release(registry, case_bundle())
    with running(places.open) as service:
        yield service.url


def test_a_case_is_asked_about_and_told(command, of_cases, tmp_path):
    (tmp_path / "close.jpg").write_bytes(encode(paint()))
    (tmp_path / "derm.jpg").write_bytes(encode(paint((90, 160, 40))))
    asked = ["close.jpg", "--dermoscopic", "derm.jpg", "--age", "70", "--sex", "male", "--url", of_cases]
    told = command(*asked)
    assert told.exit_code == 0, told.output
    assert "Given: close-up, dermoscopic; age 70, sex male (a coverage is promised for such" in told.stdout
    assert "Would help: site (in calibration 0.2 fewer classes possible, 10 more of 100" in told.stdout
    said = json.loads(command(*asked, "--json").stdout)
    assert said["inputs"]["pattern"] == "close-up+dermoscopic+some context"
    kind = json.loads(command("derm.jpg", "--kind", "dermoscopic", "--url", of_cases, "--json").stdout)
    assert kind["inputs"]["pattern"] == "dermoscopic"
    alone = json.loads(command("--dermoscopic", "derm.jpg", "--url", of_cases, "--json").stdout)
    assert {**alone, "id": "", "created": ""} == {**kind, "id": "", "created": ""}
    plain = json.loads(command("derm.jpg", "--url", of_cases, "--json").stdout)
    assert plain["inputs"]["pattern"] == "unknown"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["a.jpg", "b.jpg", "--age", "70"], "--age are of one lesion"),
        (["--age", "70"], "--age are of one lesion"),
        (["--cases", "in/cases.csv", "--age", "70"], "--age are of one lesion"),
        (["--cases", "in/cases.csv", "a.jpg"], "--cases names all pictures"),
        (["a.jpg", "--kind", "dermoscopic", "--dermoscopic", "b.jpg"], "give one of them"),
        (["--json"], "no picture is named"),
    ],
)
def test_what_does_not_go_together_is_said(command, server, table, tmp_path, options, said):
    for name in ("a.jpg", "b.jpg"):
        (tmp_path / name).write_bytes(JPEG)
    done = command(*options)
    assert done.exit_code == 2
    assert said in done.stderr
    assert server.asked == []


def test_a_table_is_gone_on_with_and_a_bad_row_does_not_stop_it(command, of_cases, tmp_path):
    (tmp_path / "close.jpg").write_bytes(encode(paint()))
    (tmp_path / "cases.csv").write_text(
        "case,close_up,age\nfirst,close.jpg,70\nsecond,close.jpg,700\n=third,close.jpg,\n"
    )
    asked = ["--cases", "cases.csv", "--csv", "answers.csv", "--url", of_cases]
    done = command(*asked)
    assert done.exit_code == 1
    rows = list(csv.DictReader(io.StringIO((tmp_path / "answers.csv").read_text())))
    assert [row["file"] for row in rows] == ["first", "second", "'=third"]
    assert [row["pattern"] for row in rows] == ["close-up+some context", "", "close-up"]
    assert [row["promised"] for row in rows] == ["yes", "", "yes"]
    assert rows[0]["would_help"] == "dermoscopic; sex, site"
    assert "age 700 is out of bounds" in rows[1]["error"]
    (tmp_path / "cases.csv").write_text(
        "case,close_up,age\nfirst,close.jpg,70\nsecond,close.jpg,71\n=third,close.jpg,\n"
    )
    again = command(*asked, "--resume")
    assert again.exit_code == 0, again.output
    assert "2 of 3 pictures were diagnosed before" in again.stderr
    rows = list(csv.DictReader(io.StringIO((tmp_path / "answers.csv").read_text())))
    assert [row["file"] for row in rows] == ["first", "'=third", "second"]
    assert all(row["decision"] for row in rows)
