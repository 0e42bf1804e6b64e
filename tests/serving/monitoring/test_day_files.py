"""Files of a day: how lines are appended by several workers, and when old files are removed."""

import errno
import json
import os
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta

import pytest

from serving.monitoring.day_files import (
    DOUBTED_SECONDS,
    LASTS_SECONDS,
    STATE,
    Claim,
    DayFiles,
    Retention,
    days_in,
)

DAY = date(2026, 1, 31)
NEXT = date(2026, 2, 1)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "data" / "records"


@pytest.fixture
def files(folder):
    kept = DayFiles(folder)
    yield kept
    kept.close()


def held(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_each_day_has_a_file_that_nobody_else_can_read(files, folder):
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
    (folder / "diagnoses-2026-01-31.jsonl").write_bytes(b'one\n{"half')
    files.append(b"two\n", DAY)
    files.append(b"three\n", DAY)
    assert held(folder) == {"diagnoses-2026-01-31.jsonl": b'one\n{"half\ntwo\nthree\n'}


def test_half_a_line_is_taken_back(files, folder, monkeypatch):
    files.append(b"one\n", DAY)
    real = os.write
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda file, line: real(file, line[:3]))
        with pytest.raises(OSError, match="No space left") as caught:
            files.append(b"two two\n", DAY)
    assert caught.value.errno == errno.ENOSPC
    assert held(folder) == {"diagnoses-2026-01-31.jsonl": b"one\n"}
    files.append(b"three\n", DAY)
    assert held(folder) == {"diagnoses-2026-01-31.jsonl": b"one\nthree\n"}


def test_a_link_is_not_followed(files, folder, tmp_path):
    folder.mkdir(parents=True)
    (folder / "diagnoses-2026-01-31.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        files.append(b"one\n", DAY)
    assert not (tmp_path / "elsewhere").exists()


def test_the_days_of_a_folder_are_those_of_its_files(files, folder):
    assert days_in(folder) == []
    files.append(b"one\n", DAY)
    files.append(b"one\n", NEXT)
    others = [
        "notes.txt",
        "diagnoses-2020.jsonl",
        "diagnoses-2020-01-01.jsonl.gz",
        "x-diagnoses-2020-01-01.jsonl",
    ]
    for name in (*others, "diagnoses-2020-02-31.jsonl"):
        (folder / name).touch()
    assert sorted(days_in(folder)) == [DAY, NEXT]


WRITE = """
import json, sys
from datetime import date
from pathlib import Path
from serving.monitoring.day_files import DayFiles
files = DayFiles(Path(sys.argv[1]))
for n in range(500):
    line = json.dumps([sys.argv[2], n, "x" * (n % 200)]).encode() + b"\\n"
    files.append(line, date(2026, 1, 31 - n // 250))
"""


def test_lines_of_several_workers_do_not_mix(folder):
    command = [sys.executable, "-c", WRITE, str(folder)]
    writing = [subprocess.Popen([*command, str(n)]) for n in range(4)]
    assert [one.wait(60) for one in writing] == [0] * 4
    lines = [line for content in held(folder).values() for line in content.splitlines()]
    told = [json.loads(line) for line in lines]
    assert sorted((who, n) for who, n, _ in told) == [(f"{who}", n) for who in range(4) for n in range(500)]
    assert len(held(folder)) == 2


HOUR = 3600.0
START = datetime(2026, 6, 1, 12, tzinfo=UTC)


class Clock:
    """A wall clock and a monotonic one, which go on together until the wall clock is set."""

    def __init__(self):
        self.wall, self.at = START, 5000.0

    def now(self):
        return self.wall

    def monotonic(self):
        return self.at

    def pass_by(self, seconds):
        self.wall += timedelta(seconds=seconds)
        self.at += seconds

    def set(self, **by):
        self.wall += timedelta(**by)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def old(folder, clock):
    """Files of 402 days, all but the oldest of which are to be kept."""
    for days in range(402):
        write(folder, clock.wall - timedelta(days=days))
    return f"diagnoses-{(clock.wall - timedelta(days=401)).date()}.jsonl"


def write(folder, day):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"diagnoses-{day.date()}.jsonl").write_text("{}\n")


def names(folder):
    return {path.name for path in folder.glob("diagnoses-*")}


@pytest.fixture
def kept(folder, clock):
    found = Retention(folder, 400, clock.now, clock.monotonic)
    yield found
    found.close(1)


def look_for(kept, clock, seconds, each=HOUR):
    """Looks every so often, for so long."""
    kept.look()
    for _ in range(int(seconds // each)):
        clock.pass_by(each)
        kept.look()


def test_a_file_goes_when_the_clock_has_said_so_for_hours(kept, folder, clock, old):
    before = names(folder)
    look_for(kept, clock, LASTS_SECONDS - HOUR)
    assert names(folder) == before
    assert kept.doubt == ""
    clock.pass_by(HOUR)
    kept.look()
    assert names(folder) == before - {old}
    assert not (folder / STATE).exists()


@pytest.mark.parametrize("days", [1, 500, 36500])
def test_a_clock_that_jumps_for_a_moment_costs_nothing(kept, folder, clock, days):
    for ago in range(400):
        write(folder, clock.wall - timedelta(days=ago))
    before = names(folder)
    kept.look()
    clock.set(days=days)
    for _ in range(5):
        write(folder, clock.wall)  # somebody asks meanwhile
        clock.pass_by(0.3)
        kept.look()
    clock.set(days=-days)
    look_for(kept, clock, 10 * HOUR)
    assert names(folder) - before == {f"diagnoses-{(clock.wall + timedelta(days=days)).date()}.jsonl"}
    assert before <= names(folder)


def test_a_clock_that_is_far_ahead_is_doubted_and_told_until_it_has_lasted(kept, folder, clock, old):
    before = names(folder)
    clock.set(days=500)
    write(folder, clock.wall)
    look_for(kept, clock, DOUBTED_SECONDS - HOUR)
    assert before <= names(folder)
    assert "newest records before that" in kept.doubt
    assert "2026-06-01" in kept.doubt
    clock.pass_by(HOUR)
    kept.look()
    assert not before & names(folder)
    assert kept.doubt == ""


def test_no_more_is_removed_than_by_the_day_that_was_said_all_the_time(kept, folder, clock, old):
    before = names(folder)
    look_for(kept, clock, LASTS_SECONDS - HOUR)
    clock.pass_by(HOUR)
    clock.set(days=300)
    kept.look()  # the hour in which it jumped does not count
    assert names(folder) == before
    clock.set(days=-300)
    kept.look()
    clock.pass_by(HOUR)
    kept.look()
    assert names(folder) == before - {old}


def test_a_clock_that_is_set_back_starts_anew(kept, folder, clock, old):
    before = names(folder)
    look_for(kept, clock, LASTS_SECONDS - HOUR)
    clock.set(days=-30)
    kept.look()
    assert not (folder / STATE).exists()
    clock.set(days=30)
    look_for(kept, clock, LASTS_SECONDS - HOUR)
    assert names(folder) == before
    clock.pass_by(HOUR)
    kept.look()
    assert names(folder) == before - {old}


def test_time_adds_up_over_restarts(folder, clock, old):
    before = names(folder)
    for _ in range(int(LASTS_SECONDS // HOUR)):
        assert names(folder) == before
        started = Retention(folder, 400, clock.now, clock.monotonic)
        look_for(started, clock, HOUR, each=HOUR / 4)
        started.close(1)
        clock.at = 7.0  # another process, perhaps of a machine that was started anew
        clock.set(hours=1)  # while nothing ran
    assert names(folder) == before - {old}


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b'{"day": "1000-01-01", "seconds": "x"}', b"\xff", b"null"]
)
def test_a_state_that_cannot_be_read_is_none(kept, folder, clock, old, content):
    (folder / STATE).write_bytes(content)
    before = names(folder)
    kept.look()
    assert names(folder) == before
    assert json.loads((folder / STATE).read_text()) == {"day": "2026-06-01", "seconds": 0.0}


def test_a_state_from_elsewhere_removes_no_more_than_its_day_says(kept, folder, clock, old):
    before = names(folder)
    Claim(clock.wall.date() + timedelta(days=300), 1e9).write(folder / STATE)
    kept.look()  # it is not that day
    assert names(folder) == before


def test_what_cannot_be_removed_is_told_and_stops_nothing(kept, folder, clock, old, caplog):
    (folder / old).unlink()
    (folder / old).mkdir()
    other = clock.wall - timedelta(days=500)
    write(folder, other)
    look_for(kept, clock, LASTS_SECONDS)
    assert f"{old} cannot be removed" in caplog.text
    assert f"diagnoses-{other.date()}.jsonl" not in names(folder)


def test_of_several_workers_one_counts_the_time(kept, folder, clock, old):
    """Were each to add what it has seen, two would be twice as fast."""
    other = Retention(folder, 400, clock.now, clock.monotonic)
    before = names(folder)
    kept.look()
    other.look()
    assert not other._hold()
    for _ in range(int(LASTS_SECONDS // HOUR) - 1):
        clock.pass_by(HOUR)
        kept.look()
        other.look()
    assert names(folder) == before
    kept.close(1)  # the other goes on where it has ended
    other.look()
    clock.pass_by(HOUR)
    other.look()
    assert names(folder) == before - {old}
    other.close(1)
