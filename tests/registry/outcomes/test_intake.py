"""Outcomes from a CSV file and into one: what is refused and why; a kill loses and doubles nothing."""

import io
import os
import random
import signal
import stat
import subprocess
import sys
import uuid
from datetime import UTC, date, datetime, timedelta
from itertools import chain

import pytest
from PIL import Image
from typer.testing import CliRunner

from clients.data.adapters.csv_table import CsvTable
from registry.cli.outcomes import app
from registry.database.connection import reading, writing
from registry.outcomes.intake import (
    BATCH,
    LONGEST_LINE,
    OutcomesFileError,
    export_outcomes,
    import_outcomes,
    read_outcomes,
)
from registry.outcomes.metrics import monitored
from registry.outcomes.store import ANY_KEY, Outcome, OutcomeStore
from tests.registry.kept_answers import ANSWERING, kept_answer, of_version

TODAY = datetime.now(UTC).date()
HEADER = "id,label,confirmed_by,date\n"
ID = "0b0e7d9c-3f6a-4f0e-9d0c-2f1d4b5a6c7e"
NAME = "Erika Musterfrau"


def read(content):
    return list(read_outcomes(io.BytesIO(content if isinstance(content, bytes) else content.encode())))


def imported(store, content):
    """How many lines were accepted, and the numbers and reasons of the refused ones."""
    refused = []
    lines = read_outcomes(io.BytesIO(content.encode()))
    accepted = import_outcomes(store, lines, lambda line, why: refused.append((line.number, str(why))))
    return dict(accepted), refused


TABLE = """\ufeffDate;Label;ID;Confirmed_by;corrects\r
2026-05-01; MEL ;{ID};dermatologist;YES\r
\r
"""
TOMORROW = TODAY + timedelta(1)  # it is tomorrow somewhere


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (f"{HEADER}{ID},MEL,histopathology,2026-05-01\n", ("MEL", "histopathology", date(2026, 5, 1))),
        (TABLE.format(ID=ID.upper()), ("MEL", "dermatologist", date(2026, 5, 1), True)),
        (f"{HEADER}{ID},,follow-up,1990-01-01\n", (None, "follow-up", date(1990, 1, 1))),
        (f"{HEADER}{ID},NV,follow-up,{TOMORROW}\n", ("NV", "follow-up", TOMORROW)),
    ],
)
def test_a_line_is_an_outcome(content, expected):
    (line,) = read(content)
    assert (line.number, line.read) == (2, Outcome(ID, *expected, of_file=True))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "missing: id, label, confirmed_by, date; to be removed, by their places: none"),
        ("id,label,confirmed_by,date,name\n", "missing: none; to be removed, by their places: 5"),
        ("id,id,label,confirmed_by,date\n", "by their places: 2"),
        ("x" * (LONGEST_LINE + 1), "line 1 is longer"),
        (HEADER.encode() + b"ab\xff\n", r"line 2 is not UTF-8 \(byte 3\)"),
        (HEADER.encode("utf-16"), r"line 1 is not UTF-8 \(byte 1\); save the file as UTF-8"),
        (f"{NAME},MEL,histopathology,2026-01-01\n", "by their places: 1, 2"),
        (f'"{NAME}\n', "by their places: 1"),
    ],
)
def test_a_file_of_something_else_is_refused_as_a_whole_without_a_patients_name(content, why):
    with pytest.raises(OutcomesFileError, match=why) as refused:
        read(content)
    assert str(refused.value).isprintable()
    assert "musterfrau" not in str(refused.value).lower()


def test_lines_before_one_that_cannot_be_read_are_imported(store):
    answer = kept_answer()
    store.record([answer])
    file = io.BytesIO(f"{HEADER}{answer.id},MEL,histopathology,2026-05-01\n".encode() + b"\xff\n")
    with pytest.raises(OutcomesFileError):
        import_outcomes(store, read_outcomes(file), print)
    assert monitored(store, "demo")[0].malignant.tolist() == [True]


def test_wrong_lines_are_refused_alone_each_with_a_reason(store):
    one, two = kept_answer(), kept_answer()
    store.record([one, two])
    lines = [
        (f"{kept_answer().id},MEL,histopathology,{TODAY}", "no answer of this id"),
        (f"{one.id},MEL,histopathology,{TODAY}", None),
        (f"{one.id},NV,histopathology,{TODAY}", "another outcome of this answer is known"),
        (f"{one.id},MEL,histopathology,{TODAY}", None),
        (f"{two.id},XYZ,histopathology,{TODAY}", "the label 'XYZ' is none"),
        (f"{two.id},NV,biopsy,{TODAY}", "confirmed_by is 'biopsy'"),
        (f"{two.id},NV,follow-up,{TODAY + timedelta(days=3)}", "in the future"),
        (f"{two.id},NV,follow-up,1989-12-31", "before 1990-01-01; check the year"),
        (f"{two.id},NV,follow-up,31.03.2026", "YEAR-MONTH-DAY"),
        (f"{two.id},NV\0,follow-up,{TODAY}", "the label"),
        ("12,NV,follow-up,2026-01-01", "it is a UUID"),
        (f"{two.id},NV,follow-up", "it has 3 values for 4 columns"),
        (f'{two.id},"NV', "it is no line of a CSV file"),
        (f"{two.id},NV,follow-up,{TODAY}", None),
    ]
    accepted, refused = imported(store, HEADER + "\n".join(line for line, _ in lines))
    assert accepted == {"new": 2, "known already": 1}
    expected = [(number, why) for number, (_, why) in enumerate(lines, 2) if why]
    assert [number for number, _ in refused] == [number for number, _ in expected]
    assert [why for (_, said), (_, why) in zip(refused, expected, strict=True) if why not in said] == []
    assert imported(store, f"{HEADER[:-1]},corrects\n{one.id},NV,follow-up,{TODAY},perhaps")[1] == [
        (2, "corrects is 'perhaps'; write yes, or nothing")
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        f"{NAME},MEL,histopathology,2026-01-01",
        f"{{id}},{NAME},histopathology,2026-01-01",
        f"{{id}},MEL,{NAME},2026-01-01",
        f"{{id}},MEL,histopathology,{NAME}",
        f"{{id}},MEL,histopathology,2026-01-01,{NAME}",
        f'{{id}},"{NAME}',
    ],
)
def test_a_name_in_a_wrong_place_is_in_the_file_of_refused_lines_and_nowhere_else(tmp_path, wrong):
    url, answer = f"sqlite:///{tmp_path / 'outcomes.db'}", kept_answer()
    with OutcomeStore.open(url) as store:
        store.record([answer])
    file, refused = tmp_path / "given.csv", tmp_path / "refused.csv"
    file.write_text(HEADER + f"{wrong.replace('{id}', answer.id)}\n" * 25)
    ended = CliRunner().invoke(app, ["import", str(file), "--refused", str(refused), "--url", url])
    assert ended.exit_code == 1
    assert "line 2: " in ended.stderr
    assert len(ended.stderr.splitlines()) == 21
    assert f"and 5 more; all are in {refused}" in ended.stderr
    assert "Musterfrau" not in ended.stdout + ended.stderr
    assert refused.read_text().count("Musterfrau") >= 25  # to be mended
    assert stat.S_IMODE(refused.stat().st_mode) == 0o600
    for written in tmp_path.glob("outcomes.db*"):
        assert b"Musterfrau" not in written.read_bytes()


def test_the_command_says_what_became_of_lines(tmp_path):
    url, answer = f"sqlite:///{tmp_path / 'outcomes.db'}", kept_answer()
    with OutcomeStore.open(url) as store:
        store.record([answer])
    line = f"{HEADER}{answer.id},MEL,follow-up,{TODAY}\n"
    said = "1 outcomes: {} new, 0 corrected, 0 withdrawn, {} known already, 0 refused\n"
    for new in (1, 0):
        ended = CliRunner().invoke(app, ["import", "-", "--url", url], input=line)
        assert (ended.exit_code, ended.stdout) == (0, said.format(new, 1 - new))
    forgotten = CliRunner().invoke(app, ["forget", "--days", "1", "--url", url, "--json"])
    assert '"removed": 1' in forgotten.stdout


def test_of_a_file_of_any_length_one_batch_is_in_memory(monkeypatch):
    monkeypatch.setattr("registry.outcomes.intake.BATCH", 10)
    drawn, given = [], []

    class Counting:
        def give(self, outcomes, key):
            given.append(len(outcomes))
            assert len(drawn) == sum(given)
            return ["known already"] * len(outcomes)

    class Endless(io.BytesIO):
        def readline(self, size=-1):
            drawn.append(size)
            return super().readline(size)

    line = f"{uuid.uuid4()},MEL,histopathology,{TODAY}\n"
    lines = read_outcomes(Endless((HEADER + line * 200).encode()))
    first = next(lines)
    drawn.clear()
    drawn.append(first)
    assert import_outcomes(Counting(), chain([first], lines), print) == {"known already": 200}
    assert given == [10] * 20


def everything(store):
    """Every row of the outcomes but its number."""
    with reading(store.engine) as connection:
        rows = connection.exec_driver_sql("SELECT * FROM outcomes").fetchall()
    return sorted(str(tuple(row)[1:]) for row in rows)


def file_of_all_kinds(answers):
    """New outcomes, corrected ones, some that are withdrawn, and both; some lines twice."""
    lines = [f"{one.id},MEL,histopathology,{TODAY},no" for one in answers]
    lines += [f"{one.id},NV,dermatologist,{TODAY},yes" for one in answers[::3]]
    lines += [f"{one.id},,follow-up,{TODAY},no" for one in answers[::2]]
    lines += [f"{one.id},BCC,follow-up,{TODAY},yes" for one in answers[::4]]
    return "\n".join([f"{HEADER[:-1]},corrects", *lines, *lines[:5], ""])


def test_a_file_that_is_imported_again_from_any_line_on_changes_nothing(store, monkeypatch):
    answers = [kept_answer() for _ in range(24)]
    store.record(answers)
    content = file_of_all_kinds(answers)
    imported(store, content)
    whole = everything(store)
    monkeypatch.setattr("registry.outcomes.intake.BATCH", 7)
    imported(store, content)
    assert everything(store) == whole


@pytest.mark.long
def test_imports_that_are_killed_anywhere_end_as_an_undisturbed_one(store, url, tmp_path):
    answers = [kept_answer() for _ in range(6 * BATCH)]
    store.record(answers)
    file = tmp_path / "outcomes.csv"
    file.write_text(file_of_all_kinds(answers))
    code = "from registry.cli.outcomes import main; main()"
    command = [sys.executable, "-c", code, "import", str(file), "--url", url]

    def start():
        return subprocess.Popen(command, env=os.environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    start().wait()
    whole = everything(store)
    with writing(store.engine) as connection:
        connection.exec_driver_sql("DELETE FROM outcomes")
    rng, killed = random.Random(0), 0
    for _ in range(4):
        process = start()
        until = len(everything(store)) + rng.randrange(len(whole) // 4)
        while process.poll() is None and len(everything(store)) < until:
            pass
        process.kill()
        killed += process.wait() == -signal.SIGKILL
    assert killed
    start().wait()
    assert everything(store) == whole


def test_an_exported_file_has_each_outcome_as_it_is_known_now(tmp_path):
    url, path, day = f"sqlite:///{tmp_path / 'outcomes.db'}", tmp_path / "outcomes.csv", date(2026, 3, 31)
    other = of_version(4, "other")
    answers = [kept_answer(), kept_answer(), kept_answer(answering=other), kept_answer()]
    ids = [one.id for one in answers]
    given = [
        Outcome(ids[0], "MEL", "histopathology", day),
        Outcome(ids[1], "NV", "follow-up", day),
        Outcome(ids[1], "BCC", "histopathology", day, corrects=True),
        Outcome(ids[2], "NV", "dermatologist", day),
        Outcome(ids[2], None, "dermatologist", day),
    ]
    with OutcomeStore.open(url) as store:
        store.record(answers)
        assert store.give(given, ANY_KEY) == ["new", "new", "corrected", "new", "withdrawn"]
        file = io.StringIO()
        assert export_outcomes(store, file, "other") == 1
    expected = [
        "id,label,confirmed_by,date,model,version",
        f"{ids[0]},MEL,histopathology,2026-03-31,demo,1",
        f"{ids[1]},BCC,histopathology,2026-03-31,demo,1",
        f"{ids[2]},,dermatologist,2026-03-31,other,4",
    ]
    assert file.getvalue().splitlines() == [expected[0], expected[3]]
    export = ["export", str(path), "--url", url]
    ended = CliRunner().invoke(app, export)
    assert (ended.exit_code, ended.stdout) == (0, f"{path}: 3 outcomes\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text().splitlines() == expected
    assert ANSWERING.subgroup not in path.read_text()  # nor any other fact about a person
    for id_ in ids[:3]:
        Image.new("RGB", (8, 8)).save(tmp_path / f"{id_}.png")
    manifest = CsvTable(table="outcomes.csv", image="id", label="label").manifest(tmp_path)
    assert [row.label for row in manifest.rows] == ["MEL", "BCC", ""]
    path.write_text("kept")
    assert CliRunner().invoke(app, export).exit_code != 0
    assert path.read_text() == "kept"
    assert CliRunner().invoke(app, ["export", "-", "--url", url]).stdout.splitlines() == expected
