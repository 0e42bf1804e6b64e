"""Files that are none of outcomes, and what is told of them: never a word of a patient."""

import io
import stat
import uuid
from datetime import UTC, date, datetime, timedelta

import pytest
from click.testing import CliRunner
from typer.main import get_command

from registry.cli.outcomes import app
from registry.outcomes.counts import field_counts
from registry.outcomes.intake import OutcomesFileError, import_outcomes, read_outcomes
from registry.outcomes.records import OutcomeRefused
from registry.outcomes.store import OutcomeStore
from tests.registry.kept_answers import kept_answer

HEADER = "id,label,confirmed_by,date"
NAME = "Erika Musterfrau"
TODAY = datetime.now(UTC).date()


def imported(store, *lines):
    """What became of a file's lines, and what was told of those that were refused."""
    told = []
    file = io.BytesIO("\n".join((HEADER, *lines)).encode())
    found = import_outcomes(store, read_outcomes(file), lambda line, why: told.append((line.number, why)))
    return found, told


def line(answer, label="MEL", by="histopathology", on=TODAY):
    return f"{answer.id},{label},{by},{on}"


def test_wrong_lines_are_refused_alone_each_with_why(store):
    one, two = kept_answer(), kept_answer()
    store.record([one, two])
    found, told = imported(
        store,
        line(kept_answer()),
        line(one),
        line(one, "NV"),
        line(one),
        line(two, "XYZ"),
        line(two, on=TODAY + timedelta(days=3)),
        line(two, "NV\0"),
        line(two, "NV"),
    )
    assert (dict(found.taken), found.refused) == ({"new": 2, "known already": 1}, 5)
    whys = [(number, str(why).split(";")[0]) for number, why in told]
    assert [number for number, _ in whys] == [2, 4, 6, 7, 8]
    assert "no answer of this id" in whys[0][1]
    assert "another outcome of this answer is known" in whys[1][1]
    assert "the label 'XYZ' is none" in whys[2][1]
    assert "in the future" in whys[3][1]
    assert sorted(field_counts(store, "demo")[0].truth.tolist()) == [0, 1]


@pytest.mark.parametrize(
    ("encoding", "why"),
    [
        ("utf-16", r"line 1 is not UTF-8 \(byte 1\); save the file as UTF-8"),
        ("utf-16-le", "line 1 names the columns"),
        ("utf-16-be", "line 1 names the columns"),
        ("utf-32", "line 1 "),
    ],
)
def test_a_file_in_another_encoding_is_refused_whole(encoding, why):
    text = f"{HEADER}\n{uuid.uuid4()},MEL,histopathology,2026-01-01\n"
    with pytest.raises(OutcomesFileError, match=why) as refused:
        list(read_outcomes(io.BytesIO(text.encode(encoding))))
    assert str(refused.value).isprintable()


def test_a_mark_of_the_order_of_bytes_is_passed_over(store):
    one = kept_answer()
    store.record([one])
    file = io.BytesIO(f"{HEADER}\n{line(one)}\n".encode("utf-8-sig"))
    assert import_outcomes(store, read_outcomes(file), lambda line, why: None).taken == {"new": 1}


@pytest.mark.parametrize(
    "first",
    [f"{HEADER},name", f"{NAME},MEL,histopathology,2026-01-01", f"{NAME};1970-01-01", f'"{NAME}'],
)
def test_a_file_with_names_of_patients_is_refused_without_telling_one(first):
    with pytest.raises(OutcomesFileError, match="may not be there") as refused:
        list(read_outcomes(io.BytesIO(f"{first}\n".encode())))
    assert NAME.lower() not in str(refused.value).lower()


@pytest.mark.parametrize(
    "wrong",
    [
        f"{NAME},MEL,histopathology,2026-01-01",
        "{id},Erika Musterfrau,histopathology,2026-01-01",
        "{id},MEL,Erika Musterfrau,2026-01-01",
        "{id},MEL,histopathology,Erika Musterfrau",
        "{id},MEL,histopathology,2026-01-01,Erika Musterfrau",
        '{id},"Erika Musterfrau',
    ],
)
def test_a_name_in_a_wrong_place_is_in_the_file_of_refused_lines_and_nowhere_else(tmp_path, wrong):
    url = f"sqlite:///{tmp_path / 'outcomes.db'}"
    answer = kept_answer()
    with OutcomeStore.open(url) as store:
        store.record([answer])
    file, refused = tmp_path / "given.csv", tmp_path / "refused.csv"
    file.write_text(f"{HEADER}\n{wrong.replace('{id}', answer.id)}\n")
    ended = CliRunner().invoke(
        get_command(app), ["import", str(file), "--refused", str(refused), "--url", url]
    )
    assert ended.exit_code == 1
    assert "line 2: " in ended.stderr
    for said in (ended.stdout, ended.stderr):
        assert "Musterfrau" not in said
    assert "Musterfrau" in refused.read_text()  # it is to be mended
    assert stat.S_IMODE(refused.stat().st_mode) == 0o600
    for written in tmp_path.glob("outcomes.db*"):
        assert b"Musterfrau" not in written.read_bytes()


def test_what_is_refused_is_told_without_what_was_written():
    why = OutcomeRefused("the id {wrote} is none", NAME)
    assert (str(why), why.unquoted) == (f"the id '{NAME}' is none", "the id something else is none")
    assert OutcomeRefused("another is known").unquoted == "another is known"


class Pipe(io.RawIOBase):
    """A file that is never whole: a first line, then the same line again and again."""

    def __init__(self, first, line, times):
        self.pending, self.line, self.left, self.longest = first, line, times, 0

    def readable(self):
        return True

    def readinto(self, buffer):
        self.longest = max(self.longest, len(buffer))
        while len(self.pending) < len(buffer) and self.left:
            self.pending += self.line
            self.left -= 1
        part, self.pending = self.pending[: len(buffer)], self.pending[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)


def test_of_a_file_of_any_length_a_part_is_held_and_no_more(monkeypatch):
    """Ten gigabytes are the benchmark's: what would be held of them shows in two megabytes."""
    monkeypatch.setattr("registry.outcomes.intake.IMPORT_BATCH", 10)
    given = []

    class Counting:
        def give(self, outcomes, key):
            given.append(len(outcomes))
            return ["known already"] * len(outcomes)

    padded = f"{uuid.uuid4()},MEL,histopathology,{date(2026, 1, 1)}".encode().ljust(1000) + b"\n"
    pipe = Pipe(HEADER.encode() + b"\n", padded, 2000)
    found = import_outcomes(Counting(), read_outcomes(io.BufferedReader(pipe), TODAY), lambda line, why: None)
    assert found.taken == {"known already": 2000}
    assert given == [10] * 200
    assert pipe.longest <= io.DEFAULT_BUFFER_SIZE
