import os
import subprocess
import sys
import time
from contextlib import contextmanager
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.access import gcra
from serving.access.gcra import MINUTE, WAYS, Rate, RateLimiter, conform

RATES = st.builds(Rate, per_minute=st.integers(1, 1_000_000), burst=st.integers(1, 300))
STEPS = st.lists(st.integers(0, 3 * MINUTE) | st.integers(0, 10**8), min_size=1, max_size=60)


class Bucket:
    """An exact bucket of `burst` tokens that gets one every T: the same law, told the other way round."""

    def __init__(self, rate):
        self.most = Fraction(rate.burst)
        self.each = rate.interval
        self.tokens = self.most
        self.last = 0

    def ask(self, now):
        self.tokens = min(self.most, self.tokens + Fraction(now - self.last, self.each))
        self.last = now
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True

    def until(self, tokens):
        return max(Fraction(0), (tokens - self.tokens) * self.each)


@given(RATES, STEPS)
def test_it_admits_what_an_exact_bucket_admits_and_says_truly_how_one_stands(rate, steps):
    bucket, stored, now = Bucket(rate), 0, 10 * rate.window
    bucket.last = now
    for step in steps:
        now += step
        verdict, stored = conform(stored, now, rate)
        assert verdict.admitted == bucket.ask(now)
        assert verdict.remaining == int(bucket.tokens)
        assert verdict.wait == bucket.until(1)
        assert verdict.restored == bucket.until(bucket.most)


@given(RATES, STEPS)
def test_one_is_admitted_when_the_wait_is_over_and_not_before(rate, steps):
    stored, now = 0, 10 * rate.window
    for step in steps:
        now += step
        verdict, stored = conform(stored, now, rate)
        if verdict.wait:
            assert not conform(stored, now + verdict.wait - 1, rate)[0].admitted
        assert conform(stored, now + verdict.wait, rate)[0].admitted
        assert conform(stored, now + verdict.restored, rate)[0].remaining == rate.burst - 1


@given(RATES, st.integers(-(2**62), 2**62), st.integers(0, 2**40))
def test_a_time_from_nowhere_harms_for_a_window_at_most(rate, stored, now):
    """As after a restart of the machine, or where the rate was another one."""
    verdict, _ = conform(stored, now, rate)
    assert verdict.wait <= rate.interval
    assert verdict.restored <= rate.window


def test_by_hand():
    rate = Rate(per_minute=60, burst=3)
    second = MINUTE // 60
    assert (rate.interval, rate.window) == (second, 3 * second)
    stored, told = 0, []
    for now in (100, 100, 100, 100, 100.5, 101, 101.5, 110, 110, 110, 110):
        verdict, stored = conform(stored, int(now * second), rate)
        told.append((verdict.admitted, verdict.remaining, verdict.wait / second))
    assert told == [
        (True, 2, 0), (True, 1, 0), (True, 0, 1), (False, 0, 1), (False, 0, 0.5), (True, 0, 1),
        (False, 0, 0.5), (True, 2, 0), (True, 1, 0), (True, 0, 1), (False, 0, 1),
    ]  # fmt: skip


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is moved; nanoseconds."""
    now = [10 * MINUTE]
    monkeypatch.setattr(gcra.time, "monotonic_ns", lambda: now[0])
    return now


@pytest.fixture(params=["file", "memory"])
def kept(request, tmp_path):
    found = RateLimiter(tmp_path / "rates" / "keys" if request.param == "file" else None)
    yield found
    assert found.health_issue == ""
    found.close()


def test_each_name_has_its_own(kept, clock):
    rate = Rate(per_minute=1, burst=2)
    assert [kept.spend("a", rate).admitted for _ in range(3)] == [True, True, False]
    assert [kept.spend("b", rate).admitted for _ in range(3)] == [True, True, False]
    clock[0] += MINUTE
    assert kept.spend("a", rate).admitted
    assert not kept.spend("a", rate).admitted
    assert kept.spend("\ud800", rate).admitted


def test_any_number_of_names_fit_once_their_time_has_passed(kept, clock):
    rate = Rate(per_minute=1, burst=1)
    for start in range(0, 8_000, 100):
        assert all(kept.spend(f"{start + n}", rate).admitted for n in range(100))
        assert not kept.spend(f"{start}", rate).admitted
        clock[0] += MINUTE


def test_too_many_at_once_are_refused_rather_than_admitted(kept, clock):
    rate = Rate(per_minute=1, burst=1)
    admitted = sum(kept.spend(f"{n}", rate).admitted for n in range(3 * gcra.SETS * WAYS))
    assert gcra.SETS * WAYS * 0.9 < admitted <= gcra.SETS * WAYS


def test_one_file_is_shared_and_private(tmp_path, clock):
    path = tmp_path / "rates" / "keys"
    one, other = RateLimiter(path), RateLimiter(path)
    rate = Rate(per_minute=1, burst=3)
    assert [each.spend("a", rate).remaining for each in (one, other, one)] == [2, 1, 0]
    assert not other.spend("a", rate).admitted
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert b"a" * 3 not in path.read_bytes()
    one.close()
    other.close()
    again = RateLimiter(path)
    assert not again.spend("a", rate).admitted
    again.close()


def unusable(tmp_path, how):
    path = tmp_path / "rates" / "keys"
    path.parent.mkdir(mode=0o700)
    if how == "folder":
        path.mkdir()
    elif how == "link":
        path.symlink_to(tmp_path / "elsewhere")
    elif how == "open to all":
        path.parent.chmod(0o777)
    return path


@pytest.mark.parametrize("how", ["folder", "link", "open to all"])
def test_without_the_file_it_counts_by_itself_and_says_so(tmp_path, how):
    kept = RateLimiter(unusable(tmp_path, how))
    rate = Rate(per_minute=1, burst=2)
    assert [kept.spend("a", rate).admitted for _ in range(3)] == [True, True, False]
    assert "each counts by itself" in kept.health_issue
    assert not (tmp_path / "elsewhere").exists()
    kept.close()


def test_a_disk_that_fills_up_stops_nothing(tmp_path, monkeypatch):
    kept = RateLimiter(tmp_path / "rates" / "keys")
    rate = Rate(per_minute=1, burst=2)
    assert kept.spend("a", rate).admitted
    monkeypatch.setattr(os, "pwrite", lambda *arguments: 0)
    assert [kept.spend("a", rate).admitted for _ in range(3)] == [True, True, False]
    assert "the disk is full" in kept.health_issue
    kept.close()


def test_what_is_in_the_file_can_be_anything(tmp_path):
    path = tmp_path / "rates" / "keys"
    path.parent.mkdir(mode=0o700)
    path.write_bytes(bytes(range(256)) * 1000)
    kept = RateLimiter(path)
    rate = Rate(per_minute=1_000_000, burst=100)
    answers = [kept.spend(f"{n}", rate) for n in range(300)]
    assert all(one.wait <= rate.interval for one in answers)
    assert kept.health_issue == ""
    kept.close()


HOLD = """
import fcntl, os, sys
from serving.access.gcra import SETS, _SET
file = os.open(sys.argv[1], os.O_RDWR)
fcntl.lockf(file, fcntl.LOCK_EX, SETS * _SET.size, 0)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held(path):
    """The rates in a file, held by another process, as by a worker that was stopped."""
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holding:
        assert holding.stdout.readline() == b"held\n"
        yield
        holding.stdin.close()


def test_a_set_that_another_process_holds_is_waited_for_only_so_long(tmp_path):
    path = tmp_path / "rates" / "keys"
    kept, rate = RateLimiter(path), Rate(per_minute=1, burst=2)
    assert kept.spend("a", rate).admitted
    with held(path):
        assert [kept.spend("a", rate).admitted for _ in range(3)] == [True, True, False]  # it counts alone
        assert "just now" in kept.health_issue
    assert [kept.spend("a", rate).admitted for _ in range(2)] == [True, False]  # and together again
    assert kept.health_issue == ""
    kept.close()


ASK = """
import itertools, sys, time
from pathlib import Path
from serving.access.gcra import Rate, RateLimiter
path, until = Path(sys.argv[1]), float(sys.argv[2])
rates, rate, admitted = RateLimiter(path), Rate(per_minute=60_000, burst=50), 0
for asked in itertools.count():
    if asked > 200 and time.monotonic() > until:
        break
    admitted += rates.spend("key", rate).admitted
print(admitted, rates.health_issue)
"""


def test_several_processes_together_admit_no_more_than_allowed(tmp_path):
    path, rate = tmp_path / "rates" / "keys", Rate(per_minute=60_000, burst=50)
    began = time.monotonic_ns()
    until = time.monotonic() + 0.5
    command = [sys.executable, "-c", ASK, str(path), str(until)]
    asking = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    answers = [one.communicate(timeout=300)[0].split() for one in asking]
    ended = time.monotonic_ns()
    assert [len(one) for one in answers] == [1] * 4  # and no trouble
    together = sum(int(one[0]) for one in answers)
    assert rate.burst <= together <= rate.burst + (ended - began) // rate.interval
