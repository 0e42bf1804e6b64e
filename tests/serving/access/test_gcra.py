from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.access import limits
from serving.access.limits import MINUTE, Rate, RateLimiter, conform

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


@given(RATES, st.integers(-(2**62), 2**62), st.integers(0, 2**40))
def test_a_time_from_nowhere_harms_for_a_window_at_most(rate, stored, now):
    """As after a restart of the machine, or where the rate was another one."""
    verdict, _ = conform(stored, now, rate)
    assert verdict.wait <= rate.interval
    assert verdict.restored <= rate.window


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is moved; nanoseconds."""
    now = [10 * MINUTE]
    monkeypatch.setattr(limits.time, "monotonic_ns", lambda: now[0])
    return now


@pytest.fixture
def kept():
    return RateLimiter()


def test_each_name_has_its_own(kept, clock):
    rate = Rate(per_minute=1, burst=2)
    assert [kept.spend("a", rate).admitted for _ in range(3)] == [True, True, False]
    assert [kept.spend("b", rate).admitted for _ in range(3)] == [True, True, False]
    clock[0] += MINUTE
    assert kept.spend("a", rate).admitted
    assert not kept.spend("a", rate).admitted
    assert kept.spend("\ud800", rate).admitted


def test_any_number_of_names_fit_once_their_time_has_passed(kept, clock, monkeypatch):
    monkeypatch.setattr(limits, "MOST_NAMES", 100)
    rate = Rate(per_minute=1, burst=1)
    for start in range(0, 1_000, 100):
        assert all(kept.spend(f"{start + n}", rate).admitted for n in range(100))
        assert not kept.spend(f"{start}", rate).admitted
        assert len(kept._arrivals) <= 100
        clock[0] += MINUTE


def test_more_names_than_fit_get_no_burst_of_their_own(kept, clock, monkeypatch):
    monkeypatch.setattr(limits, "MOST_NAMES", 10)
    rate = Rate(per_minute=1, burst=2)
    for n in range(10):
        assert [kept.spend(f"{n}", rate).admitted for _ in range(2)] == [True, True]
    assert not any(kept.spend(f"other {n}", rate).admitted for n in range(50))
    assert len(kept._arrivals) <= 10


def test_threads_admit_together_what_one_would(kept, clock):
    rate = Rate(per_minute=1, burst=50)
    with ThreadPoolExecutor(8) as asking:
        results = list(asking.map(lambda _: kept.spend("a", rate).admitted, range(200)))
    assert sum(results) == 50
