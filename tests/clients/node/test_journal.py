"""The outgoing journal: every message is in it before it leaves, and a line that is changed is missed."""

import hashlib
import json
from datetime import UTC, datetime, timedelta

import pytest
from nvflare.collab.api.decorators import is_publish
from typer.testing import CliRunner

from clients.federation.errors import JournalError
from clients.node.cli import app
from clients.node.hospital import Hospital
from clients.node.journal import FILE, FOLDER, Journal, journal_files, read_journal
from clients.node.outbound_gateway import HEARTBEATS_EVERY
from tests.clients.node.talk import ask, handshake, join, request


@pytest.fixture
def entries(kit):
    """What is in the kit's journal by now."""
    return lambda: list(read_journal(kit.path / FOLDER))


def test_every_message_is_a_line_with_its_size_and_digest(gateway, small_job, entries):
    join(gateway, small_job)
    assert [each.kind for each in entries()] == ["handshake", "properties", "roster"]
    header, _first, whole = ask(gateway, small_job, "fit", 1)
    last = entries()[-1]
    payload = gateway.receiver.payload(request(small_job, "fit", 1)[0])
    assert (last.kind, last.stage, last.round, last.ask) == ("answer", "0-federate", 1, "fit")
    assert last.holds == "tensors and numbers"
    assert last.tensors > 10
    assert last.bytes == len(header) + whole
    assert last.sha256 == hashlib.sha256(header.encode() + payload).hexdigest()
    assert last.run == "skin-1"
    assert last.job == small_job.digest


def test_refusals_are_in_it_and_what_went_wrong_is_not(gateway, small_job, entries):
    told = gateway.answer("no header of smith-jane", b"", 0)
    assert entries()[-1].kind == "refusal"
    assert entries()[-1].bytes == len(told)
    assert "smith" not in entries()[-1].model_dump_json()


def test_nothing_personal_is_in_it(gateway, small_job, kit, write_pictures, tmp_path):
    join(gateway, small_job)
    ask(gateway, small_job, "fit", 1)
    text = (kit.path / FOLDER / FILE).read_text()
    for word in (".png", str(tmp_path), "MEL", "malignant", 'fingerprint": "sha256'):
        assert word not in text


def test_heartbeats_are_a_line_a_minute(gateway, small_job, entries):
    at = [0.0]
    gateway.clock = lambda: at[0]
    for _ in range(5):
        gateway.ping()
    assert len(entries()) == 1  # the first at once, so that a journal is there
    at[0] = HEARTBEATS_EVERY
    sizes = len(gateway.ping())
    first, second = entries()
    assert (first.messages, second.messages) == (1, 5)
    assert second.bytes == 5 * sizes
    gateway.ping()
    gateway.close()
    assert sum(each.messages for each in entries()) == 7


def test_what_cannot_be_entered_does_not_leave(gateway, small_job, monkeypatch):
    join(gateway, small_job)

    def full(*_, **__):
        raise OSError(28, "No space left on device", "/data/smith")

    monkeypatch.setattr("clients.node.journal.os.fsync", full)
    for told in (
        handshake(gateway, small_job),
        gateway.register(),
        ask(gateway, small_job, "fit", 1),
        gateway.fetch("{}"),
    ):
        assert json.loads(told)["refused"].startswith("journal: it sends nothing that it cannot enter")
        assert "smith" not in told


def test_no_published_method_tells_anything_past_the_journal(gateway, small_job, entries):
    """Looks for a way out: whatever a coordinator may call is called, and the journal has a line of it."""
    component = Hospital("", "")
    component._gateway = gateway
    header, body, _ = request(small_job, "census", 1, "census")
    place = json.dumps({"session": "s1", "number": 1, "offset": 0, "size": 1})
    arguments = {"answer": (header, body, len(body)), "put": (place, b"x"), "fetch": (place,), "ping": ()}
    arguments |= {"handshake": ("{}",), "register": (), "join": ("{}",)}
    assert past_the_journal(component, arguments, entries) == []


def test_a_method_that_went_past_it_would_be_found(gateway, entries, monkeypatch):
    def leak(self):
        return "bytes"

    leak._collab_is_publish = True
    monkeypatch.setattr(Hospital, "leak", leak, raising=False)
    component = Hospital("", "")
    component._gateway = gateway
    assert past_the_journal(component, {"leak": ()}, entries, only=("leak",)) == ["leak"]


def past_the_journal(component, arguments, entries, only=None):
    """The published methods of which the journal has no line after they were called."""
    found = []
    for name in only or [each for each in dir(Hospital) if is_publish(getattr(Hospital, each))]:
        before = len(entries())
        getattr(component, name)(*arguments[name])
        if len(entries()) == before:
            found.append(name)
    return found


@pytest.fixture
def filled(tmp_path):
    """A journal of many lines over several files, and what wrote it."""
    at = [datetime(2026, 3, 2, tzinfo=UTC)]

    def clock():
        at[0] += timedelta(seconds=1)
        return at[0]

    journal = Journal(tmp_path / "journal", full=600, kept=3, clock=clock)
    for number in range(12):
        journal.add(run="r", job="j", kind="answer", size=number)
    return tmp_path / "journal"


def test_it_is_turned_over_and_old_files_go(filled):
    files = journal_files(filled)
    assert len(files) == 4
    assert [each.bytes for each in read_journal(filled)][-1] == 11
    assert all(path.stat().st_mode & 0o077 == 0 for path in files)


@pytest.mark.parametrize("file", [0, 1, 2])
def test_a_line_that_was_changed_or_taken_out_is_missed(filled, file):
    path = journal_files(filled)[file]
    lines = path.read_bytes().splitlines(keepends=True)
    for spoiled in (
        lines[:1] + lines[2:],
        [lines[0], lines[1].replace(b'"bytes":', b'"bytes":9'), *lines[2:]],
    ):
        path.write_bytes(b"".join(spoiled))
        with pytest.raises(JournalError, match=r"does not follow|missing"):
            list(read_journal(filled))
    path.write_bytes(b"".join(lines))
    assert list(read_journal(filled))


def test_a_file_in_between_that_is_gone_is_missed(filled):
    journal_files(filled)[1].unlink()
    with pytest.raises(JournalError, match="missing"):
        list(read_journal(filled))


def test_a_power_cut_in_a_line_stops_no_node(tmp_path):
    journal = Journal(tmp_path)
    journal.add(run="r", job="j", kind="answer", size=1)
    with (tmp_path / FILE).open("ab") as file:
        file.write(b'{"at": "2026')
    journal.add(run="r", job="j", kind="answer", size=2)
    assert len((tmp_path / FILE).read_bytes().splitlines()) == 3
    with pytest.raises(JournalError, match="line 2 is no entry"):
        list(read_journal(tmp_path))


def test_the_command_lists_it_and_ends_with_one_where_it_was_changed(gateway, small_job, kit):
    join(gateway, small_job)
    ask(gateway, small_job, "fit", 1)
    run = ["journal", "--kit", str(kit.path)]
    told = CliRunner().invoke(app, run)
    assert told.exit_code == 0
    assert "answer, 0-federate round 1 fit, tensors and numbers" in told.output
    assert "messages, " in told.output.splitlines()[-1]
    only = json.loads(CliRunner().invoke(app, [*run, "--json", "--last", "1"]).output)
    assert [each["kind"] for each in only["entries"]] == ["answer"]
    assert json.loads(CliRunner().invoke(app, [*run, "--json", "--run", "other"]).output)["entries"] == []
    path = kit.path / FOLDER / FILE
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
    assert CliRunner().invoke(app, run).exit_code == 0  # what went from its very beginning nobody misses
    path.write_text("".join(path.read_text().splitlines(keepends=True)[::2]))
    assert CliRunner().invoke(app, run).exit_code == 1
