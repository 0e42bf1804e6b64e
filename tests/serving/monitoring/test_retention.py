import json
from datetime import UTC, datetime, timedelta

import pytest

from serving.monitoring.day_files import DOUBTED_SECONDS, LASTS_SECONDS, STATE, Claim, Retention

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
def folder(tmp_path):
    found = tmp_path / "records"
    found.mkdir()
    return found


@pytest.fixture
def old(folder, clock):
    """Files of 402 days, all but the oldest of which are to be kept."""
    for days in range(402):
        write(folder, clock.wall - timedelta(days=days))
    return f"diagnoses-{(clock.wall - timedelta(days=401)).date()}.jsonl"


def write(folder, day):
    (folder / f"diagnoses-{day.date()}.jsonl").write_text("{}\n")


def files(folder):
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
    before = files(folder)
    look_for(kept, clock, LASTS_SECONDS - HOUR)
    assert files(folder) == before
    assert kept.doubt == ""
    clock.pass_by(HOUR)
    kept.look()
    assert files(folder) == before - {old}
    assert not (folder / STATE).exists()


@pytest.mark.parametrize("days", [1, 500, 36500])
def test_a_clock_that_jumps_for_a_moment_costs_nothing(kept, folder, clock, days):
    for ago in range(400):
        write(folder, clock.wall - timedelta(days=ago))
    before = files(folder)
    kept.look()
    clock.set(days=days)
    for _ in range(5):
        write(folder, clock.wall)  # somebody asks meanwhile
        clock.pass_by(0.3)
        kept.look()
    clock.set(days=-days)
    look_for(kept, clock, 10 * HOUR)
    assert files(folder) - before == {f"diagnoses-{(clock.wall + timedelta(days=days)).date()}.jsonl"}
    assert before <= files(folder)


def test_a_clock_that_is_far_ahead_is_doubted_and_told_until_it_has_lasted(kept, folder, clock, old):
    before = files(folder)
    clock.set(days=500)
    write(folder, clock.wall)
    look_for(kept, clock, DOUBTED_SECONDS - HOUR)
    assert before <= files(folder)
    assert "newest records before that" in kept.doubt
    assert "2026-06-01" in kept.doubt
    clock.pass_by(HOUR)
    kept.look()
    assert not before & files(folder)
    assert kept.doubt == ""


def test_no_more_is_removed_than_by_the_day_that_was_said_all_the_time(kept, folder, clock, old):
    before = files(folder)
    look_for(kept, clock, LASTS_SECONDS - HOUR)
    clock.pass_by(HOUR)
    clock.set(days=300)
    kept.look()  # the hour in which it jumped does not count
    assert files(folder) == before
    clock.set(days=-300)
    kept.look()
    clock.pass_by(HOUR)
    kept.look()
    assert files(folder) == before - {old}


def test_a_clock_that_is_set_back_starts_anew(kept, folder, clock, old):
    before = files(folder)
    look_for(kept, clock, LASTS_SECONDS - HOUR)
    clock.set(days=-30)
    kept.look()
    assert not (folder / STATE).exists()
    clock.set(days=30)
    look_for(kept, clock, LASTS_SECONDS - HOUR)
    assert files(folder) == before
    clock.pass_by(HOUR)
    kept.look()
    assert files(folder) == before - {old}


def test_time_adds_up_over_restarts(folder, clock, old):
    before = files(folder)
    for _ in range(int(LASTS_SECONDS // HOUR)):
        assert files(folder) == before
        started = Retention(folder, 400, clock.now, clock.monotonic)
        look_for(started, clock, HOUR, each=HOUR / 4)
        started.close(1)
        clock.at = 7.0  # another process, perhaps of a machine that was started anew
        clock.set(hours=1)  # while nothing ran
    assert files(folder) == before - {old}


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b'{"day": "1000-01-01", "seconds": "x"}', b"\xff", b"null"]
)
def test_a_state_that_cannot_be_read_is_none(kept, folder, clock, old, content):
    (folder / STATE).write_bytes(content)
    before = files(folder)
    kept.look()
    assert files(folder) == before
    assert json.loads((folder / STATE).read_text()) == {"day": "2026-06-01", "seconds": 0.0}


def test_a_state_from_elsewhere_removes_no_more_than_its_day_says(kept, folder, clock, old):
    before = files(folder)
    Claim(clock.wall.date() + timedelta(days=300), 1e9).write(folder / STATE)
    kept.look()  # it is not that day
    assert files(folder) == before


def test_what_cannot_be_removed_is_told_and_stops_nothing(kept, folder, clock, old, caplog):
    (folder / old).unlink()
    (folder / old).mkdir()
    other = clock.wall - timedelta(days=500)
    write(folder, other)
    look_for(kept, clock, LASTS_SECONDS)
    assert f"{old} cannot be removed" in caplog.text
    assert f"diagnoses-{other.date()}.jsonl" not in files(folder)


def test_nothing_else_is_removed(kept, folder, clock):
    write(folder, clock.wall - timedelta(days=1))
    others = [
        "notes.txt",
        "diagnoses-2020.jsonl",
        "diagnoses-2020-01-01.jsonl.gz",
        "x-diagnoses-2020-01-01.jsonl",
    ]
    for name in (*others, "diagnoses-2020-02-31.jsonl", "diagnoses-2020-01-02.jsonl"):
        (folder / name).touch()
    look_for(kept, clock, LASTS_SECONDS)
    assert {path.name for path in folder.iterdir()} == {
        *others, "diagnoses-2020-02-31.jsonl", f"diagnoses-{(START - timedelta(days=1)).date()}.jsonl",
    }  # fmt: skip


def test_of_several_workers_one_counts_the_time(kept, folder, clock, old):
    """Were each to add what it has seen, two would be twice as fast."""
    other = Retention(folder, 400, clock.now, clock.monotonic)
    before = files(folder)
    kept.look()
    other.look()
    assert not other._hold()
    for _ in range(int(LASTS_SECONDS // HOUR) - 1):
        clock.pass_by(HOUR)
        kept.look()
        other.look()
    assert files(folder) == before
    kept.close(1)  # the other goes on where it has ended
    other.look()
    clock.pass_by(HOUR)
    other.look()
    assert files(folder) == before - {old}
    other.close(1)
