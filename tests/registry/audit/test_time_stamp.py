"""Time stamps of an authority outside: `openssl ts`, with certificates of our own, and no network."""

import hashlib
import json
import subprocess

import httpx
import pytest

pytest.importorskip("rfc3161_client", reason="time stamps need the extra stamp")

from rfc3161_client import TimestampRequestBuilder

from registry.audit import time_stamp
from registry.audit.checkpoint import KeptHead
from registry.audit.time_stamp import Authorities, ask, is_of, request
from registry.errors import KeyUnusable, StampError
from tests.registry.audit.stamping import make_authority

CONTENT = b'{"events":1}'
URL = "https://tsa.example.org"


@pytest.fixture
def trusted(authority):
    return Authorities.read([authority.root])


@pytest.fixture
def stamp(authority):
    return authority.answer(request(CONTENT).as_bytes())


def test_a_stamp_says_when_its_content_was_stamped(stamp, trusted):
    assert is_of(stamp, CONTENT)
    text = subprocess.run(
        ["openssl", "ts", "-reply", "-in", "/dev/stdin", "-text"],
        input=stamp,
        capture_output=True,
        check=True,
    ).stdout.decode()
    time = trusted.time_of(stamp, CONTENT)
    assert f"{time:%b} {time.day:2} {time:%H:%M:%S %Y} GMT" in text


def test_a_stamp_of_something_else_is_refused(stamp, trusted):
    assert not is_of(stamp, b"another")
    with pytest.raises(StampError, match="does not hold"):
        trusted.time_of(stamp, b"another")


def test_a_stamp_of_an_authority_that_nobody_trusts_is_refused(stamp, tmp_path):
    other = make_authority(tmp_path)
    with pytest.raises(StampError, match="an authority that --tsa-trust names"):
        Authorities.read([other.root]).time_of(stamp, CONTENT)


def test_every_changed_byte_of_a_stamp_is_noticed(stamp, trusted, authority):
    holding = []
    for place in range(0, len(stamp), 7):
        changed = bytearray(stamp)
        changed[place] ^= 1
        try:
            time = trusted.time_of(bytes(changed), CONTENT)
        except StampError:
            continue
        holding.append((place, time))
    assert {time for _, time in holding} <= {trusted.time_of(stamp, CONTENT)}  # none that says another time


def test_an_answer_without_certificates_is_checked_by_those_trusted(authority):
    query = TimestampRequestBuilder(data=CONTENT, cert_req=False).build().as_bytes()
    answer = authority.answer(query)
    own = Authorities.read([authority.root, authority.folder / "own.pem"])
    assert own.time_of(answer, CONTENT)
    with pytest.raises(StampError):
        Authorities.read([authority.root]).time_of(answer, CONTENT)


def answering(authority, change=lambda answer: answer, status=200, read=lambda question: question):
    """An authority over HTTP, in this process."""

    def handle(asked):
        assert (asked.method, asked.url) == ("POST", URL)
        assert asked.headers["content-type"] == "application/timestamp-query"
        return httpx.Response(status, content=change(authority.answer(read(asked.content))))

    return httpx.MockTransport(handle)


def test_an_authority_is_asked_over_http(authority, trusted):
    answer = ask(URL, CONTENT, answering(authority))
    assert trusted.time_of(answer, CONTENT)


@pytest.mark.parametrize(
    ("status", "change", "told"),
    [
        (503, lambda stamp: stamp, "answered with status 503"),
        (200, lambda _: b"<html>", "no answer of a time stamping authority"),
        (200, lambda _: b"", "no answer of a time stamping authority"),
        (200, "of another question", "has stamped something else"),
        (200, "refused", "refuses"),
    ],
)
def test_what_is_no_answer_to_the_question_is_refused(authority, status, change, told):
    if change == "of another question":
        old = authority.answer(request(CONTENT).as_bytes())  # another nonce
        transport = answering(authority, lambda _: old)
    elif change == "refused":
        refusal = authority.answer(b"no question")
        transport = answering(authority, lambda _: refusal)
    else:
        transport = answering(authority, change, status)
    with pytest.raises(StampError, match=told):
        ask(URL, CONTENT, transport)


def test_a_stamp_of_other_content_for_the_same_question_is_refused(authority):
    said, other = (hashlib.sha256(one).digest() for one in (CONTENT, b"another"))
    transport = answering(authority, read=lambda question: question.replace(said, other))
    with pytest.raises(StampError, match="has stamped something else"):
        ask(URL, CONTENT, transport)


@pytest.mark.parametrize("url", ["ftp://tsa.example.org", "tsa", "http://[", "http://127.0.0.1:9"])
def test_an_authority_that_cannot_be_asked_is_named(url):
    with pytest.raises(StampError, match="cannot be asked") as told:
        ask(url, CONTENT)
    assert url in str(told.value)


@pytest.mark.parametrize("content", [None, "", "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"])
def test_a_file_without_certificates_is_refused(tmp_path, content):
    file = tmp_path / "root.pem"
    if content is not None:
        file.write_text(content)
    with pytest.raises(KeyUnusable, match=r"root\.pem"):
        Authorities.read([file])


@pytest.mark.sqlite
def test_the_commands_keep_and_check_a_stamp(registry, bundle, command, authority, monkeypatch, tmp_path):
    registry.add([bundle()])
    asked = []
    monkeypatch.setattr(
        time_stamp, "ask", lambda url, content: asked.append(url) or ask(url, content, answering(authority))
    )
    file = tmp_path / "head.json"
    ended = command("head", "--out", file, "--stamp", URL, "--tsa-trust", authority.root)
    assert (ended.code, asked) == (0, [URL])
    assert "stamped on 20" in ended.out
    assert KeptHead.read(str(file)).stamp is not None
    assert "its time stamp was not checked" in command("verify", "--head", file).out
    ended = command("verify", "--head", file, "--tsa-trust", authority.root, "--json")
    assert (ended.code, json.loads(ended.out)["heads"][0]["stamped"][:2]) == (0, "20")

    other = tmp_path / "other"
    other.mkdir()
    ended = command("verify", "--head", file, "--tsa-trust", make_authority(other).root)
    assert ended.code == 1
    assert "the head of 1 events: its time stamp does not hold" in ended.out


@pytest.mark.sqlite
def test_a_stamp_is_checked_without_dermfed_as_the_docs_say(registry, command, authority, tmp_path):
    query, stamp, line = (tmp_path / name for name in ("head.tsq", "head.tsr", "line"))
    told = json.loads(command("head", "--query", query, "--json").out)
    stamp.write_bytes(authority.answer(query.read_bytes()))
    line.write_text(f'{{"events":{told["events"]},"hash":"{told["hash"]}","registry":"{told["registry"]}"}}')
    asked = ["openssl", "ts", "-verify", "-data", line, "-in", stamp, "-CAfile", authority.root]
    assert subprocess.run(asked, capture_output=True, check=False).returncode == 0
    line.write_text(line.read_text() + "\n")
    assert subprocess.run(asked, capture_output=True, check=False).returncode == 1


@pytest.mark.sqlite
def test_a_question_is_written_without_asking_anybody(registry, command, authority, monkeypatch, tmp_path):
    monkeypatch.setattr(time_stamp, "ask", None)
    head = command("head").out.strip()
    query, stamp = tmp_path / "head.tsq", tmp_path / "head.tsr"
    assert command("head", "--query", query).code == 0
    stamp.write_bytes(authority.answer(query.read_bytes()))
    ended = command("verify", "--head", head, "--stamp", stamp, "--tsa-trust", authority.root)
    assert ended.code == 0
    assert "stamped on 20" in ended.out
    stamp.write_bytes(b"no answer")
    ended = command("verify", "--head", head, "--stamp", stamp)
    assert ended.code == 2
    assert f"{stamp}: this is no answer" in ended.err


@pytest.mark.sqlite
def test_heads_need_no_package_of_time_stamps_until_one_is_asked_for(start, places):
    program = (
        "import sys; sys.modules['rfc3161_client'] = None\n"
        "from registry.cli.app import main\n"
        "sys.argv = ['dermfed-registry', '--url', sys.argv[1], '--store', sys.argv[2], *sys.argv[3:]]\n"
        "main()"
    )
    assert start(program, places.url, places.store, "head").wait() == 0
    told = start(program, places.url, places.store, "head", "--query", "x.tsq")
    assert "install dermfed[stamp]" in told.communicate()[1]
