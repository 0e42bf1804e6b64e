"""Files of a day: how lines are appended by several workers, and when old files are removed."""

import errno
import json
import os
import subprocess
import sys
from datetime import date, timedelta

import pytest

from serving.monitoring.decision_log import DayFiles, days_in, path_of

DAY = date(2026, 1, 31)
NEXT = date(2026, 2, 1)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "data" / "records"


@pytest.fixture
def files(folder):
    kept = DayFiles(folder, 400)
    yield kept
    kept.close()


def held(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_each_day_has_a_file_that_no_other_user_can_read(files, folder):
    files.append(b"one\n", DAY)
    files.append(b"two\n", DAY)
    files.append(b"three\n", NEXT)
    files.append(b"late\n", DAY)  # of a request that was answered around midnight
    assert held(folder) == {
        "diagnoses-2026-01-31.jsonl": b"one\ntwo\nlate\n",
        "diagnoses-2026-02-01.jsonl": b"three\n",
    }
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_line_that_a_killed_worker_left_unfinished_stands_alone(files, folder):
    folder.mkdir(parents=True)
    path_of(folder, DAY).write_bytes(b'one\n{"half')
    files.append(b"two\n", DAY)
    files.append(b"three\n", DAY)
    assert path_of(folder, DAY).read_bytes() == b'one\n{"half\ntwo\nthree\n'


def test_half_a_line_is_taken_back(files, folder, monkeypatch):
    files.append(b"one\n", DAY)
    real = os.write
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda file, line: real(file, line[:3]))
        with pytest.raises(OSError) as caught:
            files.append(b"two two\n", DAY)
    assert caught.value.errno == errno.ENOSPC
    assert path_of(folder, DAY).read_bytes() == b"one\n"
    files.append(b"three\n", DAY)
    assert path_of(folder, DAY).read_bytes() == b"one\nthree\n"


def test_a_link_is_not_followed(files, folder, tmp_path):
    folder.mkdir(parents=True)
    path_of(folder, DAY).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        files.append(b"one\n", DAY)
    assert not (tmp_path / "elsewhere").exists()


def test_the_days_of_a_folder_are_those_of_its_files(files, folder):
    assert days_in(folder) == []
    files.append(b"one\n", DAY)
    files.append(b"one\n", NEXT)
    for name in ("notes.txt", "diagnoses-2020.jsonl", "diagnoses-2020-01-01.jsonl.gz"):
        (folder / name).touch()
    for name in ("x-diagnoses-2020-01-01.jsonl", "diagnoses-2020-02-31.jsonl"):
        (folder / name).touch()
    assert sorted(days_in(folder)) == [DAY, NEXT]


WRITE = """
import json, sys
from datetime import date
from pathlib import Path
from serving.monitoring.decision_log import DayFiles
files = DayFiles(Path(sys.argv[1]), 400)
for n in range(500):
    line = json.dumps([sys.argv[2], n, "x" * (n % 200)]).encode() + b"\\n"
    files.append(line, date(2026, 1, 31 - n // 250))
"""


def test_lines_of_several_workers_do_not_mix(folder):
    command = [sys.executable, "-c", WRITE, str(folder)]
    writing = [subprocess.Popen([*command, str(n)]) for n in range(4)]
    assert [one.wait(60) for one in writing] == [0] * 4
    lines = [json.loads(line) for content in held(folder).values() for line in content.splitlines()]
    assert sorted((who, n) for who, n, _ in lines) == [(f"{who}", n) for who in range(4) for n in range(500)]
    assert len(held(folder)) == 2


# When old files are removed


@pytest.fixture
def year(folder):
    """Files of the 400 days that are kept, the last of them the day before `DAY`."""
    for ago in range(1, 401):
        write(folder, DAY - timedelta(days=ago))
    return names(folder)


def write(folder, day):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"diagnoses-{day}.jsonl").write_text("{}\n")


def names(folder):
    return {path.name for path in folder.glob("diagnoses-*")}


def test_a_file_goes_when_three_days_past_its_retention_have_records(files, folder, year):
    oldest = f"diagnoses-{DAY - timedelta(days=400)}.jsonl"
    for later in range(4):
        assert oldest in names(folder)
        files.append(b"one\n", DAY + timedelta(days=later))
    assert year - names(folder) == {oldest}


@pytest.mark.parametrize("days", [2, 500, 36500])
@pytest.mark.parametrize("jumps", [1, 2])
def test_a_clock_that_jumps_for_a_moment_costs_nothing(folder, year, days, jumps):
    for jump in range(jumps):
        for day in (DAY, DAY + timedelta(days=days + jump), DAY):
            files = DayFiles(folder, 400)  # of a worker that starts at this moment
            files.append(b"one\n", day)
            files.close()
    assert year <= names(folder)


def test_a_year_of_rest_costs_nothing_at_once(files, folder, year):
    """Nobody can tell it from a clock that is a year ahead."""
    for later in range(3):
        assert year <= names(folder)
        files.append(b"one\n", DAY + timedelta(days=365 + later))
    first = DAY + timedelta(days=365)
    assert year & names(folder) == {
        f"diagnoses-{first - timedelta(days=ago)}.jsonl" for ago in range(366, 401)
    }


def test_a_clock_that_is_set_back_removes_nothing(files, folder, year):
    for later in range(3):
        write(folder, DAY + timedelta(days=500 + later))
    files.append(b"one\n", DAY)
    assert year <= names(folder)


def test_what_cannot_be_removed_is_logged_and_stops_nothing(files, folder, year, caplog):
    oldest = folder / f"diagnoses-{DAY - timedelta(days=400)}.jsonl"
    oldest.unlink()
    oldest.mkdir()
    for later in range(5):
        files.append(b"one\n", DAY + timedelta(days=later))
    assert f"{oldest} cannot be removed" in caplog.text
    assert len(year - names(folder)) == 1
