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
    path_of,
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
    lines = [json.loads(line) for content in held(folder).values() for line in content.splitlines()]
    assert sorted((who, n) for who, n, _ in lines) == [(f"{who}", n) for who in range(4) for n in range(500)]
    assert len(held(folder)) == 2


# When old files are removed

HOUR = 3600.0


class Records:
    """A folder of records that are kept for 400 days, with a clock that can be set."""

    def __init__(self, folder):
        self.folder = folder
        self.wall, self.at = datetime(2026, 6, 1, 12, tzinfo=UTC), 5000.0
        folder.mkdir(parents=True)

    def retention(self):
        return Retention(self.folder, 400, lambda: self.wall, lambda: self.at)

    def pass_by(self, seconds):
        self.wall += timedelta(seconds=seconds)
        self.at += seconds

    def write(self, ago=0):
        """Writes a line of some days ago; gives the file's name."""
        path = path_of(self.folder, (self.wall - timedelta(days=ago)).date())
        path.write_text("{}\n")
        return path.name

    @property
    def names(self):
        return {path.name for path in self.folder.glob("diagnoses-*")}

    def look(self, *looking, seconds=0.0, each=HOUR):
        """Has these look now, and then every so often for so long."""
        for n in range(int(seconds // each) + 1):
            self.pass_by(each * bool(n))
            for one in looking:
                one.look()


@pytest.fixture
def records(folder):
    """With files of 401 days, none of which is old."""
    made = Records(folder)
    for ago in range(401):
        made.write(ago)
    return made


@pytest.fixture
def old(records):
    """The name of the one file that is old."""
    return records.write(ago=401)


@pytest.fixture
def kept(records):
    found = records.retention()
    yield found
    found.close(1)


def test_a_file_goes_when_the_clock_has_said_so_for_hours(kept, records, old):
    before = records.names
    records.look(kept, seconds=LASTS_SECONDS - HOUR)
    assert records.names == before
    assert kept.doubt == ""
    records.pass_by(HOUR)
    kept.look()
    assert records.names == before - {old}
    assert not (records.folder / STATE).exists()


@pytest.mark.parametrize("days", [1, 500, 36500])
def test_a_clock_that_jumps_for_a_moment_costs_nothing(kept, records, days):
    before = records.names
    kept.look()
    records.wall += timedelta(days=days)
    for _ in range(5):
        written = records.write()  # a request comes meanwhile
        records.pass_by(0.3)
        kept.look()
    records.wall -= timedelta(days=days)
    records.look(kept, seconds=10 * HOUR)
    assert records.names == before | {written}


def test_a_clock_that_is_far_ahead_is_doubted_and_reported_until_it_has_lasted(kept, records, old):
    before = records.names
    records.wall += timedelta(days=500)
    records.write()
    records.look(kept, seconds=DOUBTED_SECONDS - HOUR)
    assert before <= records.names
    assert "newest records before that" in kept.doubt
    assert "2026-06-01" in kept.doubt
    records.pass_by(HOUR)
    kept.look()
    assert not before & records.names
    assert kept.doubt == ""


@pytest.mark.parametrize(
    ("days", "hours"),
    [
        pytest.param(300, 1, id="ahead, and no more is removed than by the day that was said all the time"),
        pytest.param(-30, LASTS_SECONDS / HOUR, id="back, and the time begins again"),
    ],
)
def test_a_clock_that_is_set_takes_longer_to_be_believed(kept, records, old, days, hours):
    before = records.names
    records.look(kept, seconds=LASTS_SECONDS - HOUR)
    records.pass_by(HOUR if days > 0 else 0)
    records.wall += timedelta(days=days)
    kept.look()  # the hour in which it jumped does not count
    assert (records.folder / STATE).exists() == (days > 0)
    records.wall -= timedelta(days=days)
    records.look(kept, seconds=(hours - 1) * HOUR)
    assert records.names == before
    records.pass_by(HOUR)
    kept.look()
    assert records.names == before - {old}


def test_time_adds_up_over_restarts(records, old):
    before = records.names
    for _ in range(int(LASTS_SECONDS // HOUR)):
        assert records.names == before
        started = records.retention()
        records.look(started, seconds=HOUR, each=HOUR / 4)
        started.close(1)
        records.at = 7.0  # another process, perhaps of a machine that was restarted
        records.wall += timedelta(hours=1)  # while nothing ran
    assert records.names == before - {old}


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b'{"day": "1000-01-01", "seconds": "x"}', b"\xff", b"null"]
)
def test_a_state_that_cannot_be_read_is_none(kept, records, old, content):
    (records.folder / STATE).write_bytes(content)
    kept.look()
    assert old in records.names
    assert json.loads((records.folder / STATE).read_text()) == {"day": "2026-06-01", "seconds": 0.0}


def test_a_state_from_elsewhere_removes_no_more_than_its_day_says(kept, records, old):
    Claim(records.wall.date() + timedelta(days=300), 1e9).write(records.folder / STATE)
    kept.look()  # it is not that day
    assert old in records.names


def test_what_cannot_be_removed_is_logged_and_stops_nothing(kept, records, old, caplog):
    (records.folder / old).unlink()
    (records.folder / old).mkdir()
    other = records.write(ago=500)
    records.look(kept, seconds=LASTS_SECONDS)
    assert f"{old} cannot be removed" in caplog.text
    assert other not in records.names


def test_of_several_workers_one_counts_the_time(kept, records, old):
    """Were each to add what it has seen, two would be twice as fast."""
    other = records.retention()
    records.look(kept, other, seconds=LASTS_SECONDS - HOUR)
    assert not other._hold()
    assert old in records.names
    kept.close(1)  # the other goes on where it has ended
    records.look(other, seconds=HOUR)
    assert old not in records.names
    other.close(1)
