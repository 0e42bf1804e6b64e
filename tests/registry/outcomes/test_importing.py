"""Outcomes from a CSV file: what is read, what is refused and why; a kill loses and doubles nothing."""

import io
import os
import random
import signal
import subprocess
import sys
from datetime import date

import pytest

from registry.database.connection import reading, writing
from registry.outcomes.counts import field_counts
from registry.outcomes.intake import (
    IMPORT_BATCH,
    LONGEST_LINE,
    OutcomesFileError,
    import_outcomes,
    read_outcomes,
)
from registry.outcomes.records import Outcome
from tests.registry.kept_answers import kept_answer

TODAY = date(2026, 6, 1)
HEADER = "id,label,confirmed_by,date\n"
ID = "0b0e7d9c-3f6a-4f0e-9d0c-2f1d4b5a6c7e"


def read(text, encoding="utf-8"):
    return list(read_outcomes(io.BytesIO(text.encode(encoding)), TODAY))


def test_a_line_is_an_outcome():
    (line,) = read(f"{HEADER}{ID},MEL,histopathology,2026-05-01\n")
    assert line.read == Outcome(ID, "MEL", "histopathology", date(2026, 5, 1), of_file=True)
    assert line.number == 2


def test_a_spreadsheets_file_is_read_too():
    text = f"Date;Label;ID;Confirmed_by;corrects\r\n2026-05-01; MEL ;{ID.upper()};dermatologist;YES\r\n\r\n"
    (line,) = read(text, "utf-8-sig")
    assert line.read == Outcome(ID, "MEL", "dermatologist", date(2026, 5, 1), corrects=True, of_file=True)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "id, label, confirmed_by, date are missing"),
        ("id,label,confirmed_by,date,name\n", "column 5 may not be there"),
        ("id,label,confirmed_by\n", "date is missing"),
        ("id,id,label,confirmed_by,date\n", "a column is there twice"),
        ("x" * (LONGEST_LINE + 1), "line 1 is longer"),
        (HEADER + "x" * (LONGEST_LINE + 1), "line 2 is longer"),
    ],
)
def test_a_file_of_something_else_is_refused_whole(text, why):
    with pytest.raises(OutcomesFileError, match=why):
        read(text)


def test_a_file_that_is_no_text_is_refused_where_it_ceases_to_be():
    with pytest.raises(OutcomesFileError, match=r"line 2 is not UTF-8 \(byte 3\)"):
        list(read_outcomes(io.BytesIO(HEADER.encode() + b"ab\xff\n"), TODAY))


def test_what_came_before_a_line_that_cannot_be_read_is_kept(store):
    answer = kept_answer()
    store.record([answer])
    file = io.BytesIO(f"{HEADER}{answer.id},MEL,histopathology,2026-05-01\n".encode() + b"\xff\n")
    with pytest.raises(OutcomesFileError):
        import_outcomes(store, read_outcomes(file, TODAY), lambda line, why: None)
    assert field_counts(store, "demo")[0].truth.tolist() == [0]


KILLED = """
import os, signal, sys
from registry.outcomes.intake import read_outcomes
from registry.outcomes.intake import import_outcomes
from registry.outcomes.store import OutcomeStore
def kill(found):
    if found.lines >= int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
import_outcomes(OutcomeStore.open(sys.argv[1]), read_outcomes(open(sys.argv[2], "rb")), print, kill)
"""


def everything(store):
    """Every row of the outcomes but its number."""
    with reading(store.engine) as connection:
        rows = connection.exec_driver_sql("SELECT * FROM outcomes ORDER BY number").fetchall()
    return sorted(map(str, (tuple(row)[1:] for row in rows)))


def file_of_all_kinds(answers):
    """New ones, corrected ones, some that are taken back, and both; some lines twice."""
    today = date.today().isoformat()
    lines = [f"{one.id},MEL,histopathology,{today},no" for one in answers]
    lines += [f"{one.id},NV,dermatologist,{today},yes" for one in answers[::3]]
    lines += [f"{one.id},,follow-up,{today},no" for one in answers[::2]]
    lines += [f"{one.id},BCC,follow-up,{today},yes" for one in answers[::4]]
    return "\n".join(["id,label,confirmed_by,date,corrects", *lines, *lines[:5], ""]).encode()


def test_a_file_that_is_imported_again_from_any_line_on_changes_nothing(store, monkeypatch):
    answers = [kept_answer() for _ in range(24)]
    store.record(answers)
    content = file_of_all_kinds(answers)
    import_outcomes(store, read_outcomes(io.BytesIO(content)), lambda line, why: None)
    whole = everything(store)
    monkeypatch.setattr("registry.outcomes.intake.IMPORT_BATCH", 7)
    import_outcomes(store, read_outcomes(io.BytesIO(content)), lambda line, why: None)
    assert everything(store) == whole


@pytest.mark.long
def test_imports_that_are_killed_anywhere_end_as_one_that_nobody_disturbed(store, url, tmp_path):
    answers = [kept_answer() for _ in range(6 * IMPORT_BATCH)]
    store.record(answers)
    file = tmp_path / "outcomes.csv"
    file.write_bytes(file_of_all_kinds(answers))
    command = [sys.executable, "-c", KILLED, url, str(file), "1000000000"]
    assert subprocess.run(command, env=os.environ, check=False, stdout=subprocess.DEVNULL).returncode == 0
    whole = everything(store)
    with writing(store.engine) as connection:
        connection.exec_driver_sql("DELETE FROM outcomes")
    rng, killed = random.Random(0), 0
    for _ in range(4):
        process = subprocess.Popen(command, env=os.environ, stdout=subprocess.DEVNULL)
        until = len(everything(store)) + rng.randrange(len(whole) // 4)
        while process.poll() is None and len(everything(store)) < until:
            pass
        process.kill()
        killed += process.wait() == -signal.SIGKILL
    assert killed
    assert subprocess.run(command, env=os.environ, check=False, stdout=subprocess.DEVNULL).returncode == 0
    assert everything(store) == whole
