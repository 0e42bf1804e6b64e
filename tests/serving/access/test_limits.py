import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from serving import limits
from serving.limits import MINUTE, UNKNOWN_KEY_RATE, Rate, RateLimiter, conform, network_address

RATES = st.builds(Rate, per_minute=st.integers(1, 1_000_000), burst=st.integers(1, 300))
STEPS = st.lists(st.integers(0, 3 * MINUTE) | st.integers(0, 10**8), min_size=1, max_size=60)


class Bucket:
    """An exact bucket of `burst` tokens that gets one every T: the oracle of GCRA."""

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
def test_a_rate_admits_what_an_exact_bucket_admits_and_says_what_is_left(rate, steps):
    bucket, stored, now = Bucket(rate), 0, 10 * rate.window
    bucket.last = now
    for step in steps:
        now += step
        result, stored = conform(stored, now, rate)
        assert result.admitted == bucket.ask(now)
        assert result.remaining == int(bucket.tokens)
        assert result.wait == bucket.until(1)
        assert result.restored == bucket.until(bucket.most)


@given(RATES, st.integers(-(2**62), 2**62), st.integers(0, 2**40))
def test_a_time_of_another_rate_or_clock_harms_for_a_window_at_most(rate, stored, now):
    result, _ = conform(stored, now, rate)
    assert result.wait <= rate.interval
    assert result.restored <= rate.window


@pytest.fixture
def clock(monkeypatch):
    """A clock of the rates alone, which stands still until it is moved; nanoseconds."""
    now = [10 * MINUTE]
    standing = SimpleNamespace(monotonic=time.monotonic, sleep=time.sleep, monotonic_ns=lambda: now[0])
    monkeypatch.setattr(limits, "time", standing)
    return now


@pytest.fixture
def kept():
    return RateLimiter()


def test_each_name_has_its_own_rate(kept, clock):
    rate = Rate(per_minute=1, burst=2)
    assert [kept.spend("a", rate).admitted for _ in range(3)] == [True, True, False]
    assert [kept.spend("b", rate).admitted for _ in range(3)] == [True, True, False]
    clock[0] += MINUTE
    assert [kept.spend("a", rate).admitted for _ in range(2)] == [True, False]
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


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::", "2001:db8:1:3::/64"),
        ("::1", "::/64"),
        ("testclient", "testclient"),
        (None, ""),
    ],
)
def test_one_caller_has_one_address(host, address):
    request = Request({"type": "http", "headers": [], "client": host and (host, 5)})
    assert network_address(request) == address


# Over HTTP.


@pytest.fixture
def ask(statuses):
    """The statuses of so many requests with a key."""
    return lambda service, secret, times, path="/v1/models": statuses(service, secret, [path] * times)


def test_a_key_is_refused_until_the_time_that_it_is_given(serve, keyed, problem, clock, bearer, ask):
    with serve(requests_per_minute=6, burst=3) as service:
        answers = [service.client.get("/v1/models", headers=bearer(keyed)) for _ in range(3)]
        assert [one.status_code for one in answers] == [200] * 3
        assert {one.headers["ratelimit-policy"] for one in answers} == {'"key";q=3;w=30'}
        left = [one.headers["ratelimit"] for one in answers]
        assert left == ['"key";r=2;t=10', '"key";r=1;t=20', '"key";r=0;t=30']

        clock[0] += MINUTE // 20
        answer = service.diagnose(headers=bearer(keyed))
        said = problem(answer, 429)
        assert said["type"] == "urn:dermfed:problem:too-many-requests"
        assert "6 times a minute" in said["detail"]
        assert "ask again in 7 s" in said["detail"]
        assert answer.headers["retry-after"] == "7"
        assert answer.headers["ratelimit"] == '"key";r=0;t=27'
        assert answer.headers["ratelimit-policy"] == '"key";q=3;w=30'

        clock[0] += MINUTE // 60 * 7 - 1
        assert ask(service, keyed, 1) == [429]
        clock[0] += 1
        assert ask(service, keyed, 2) == [200, 429]
        clock[0] += MINUTE
        counted = service.client.get("/metrics", headers=bearer(keyed)).text
        assert 'dermfed_refused_total{why="limited"} 3.0' in counted


def test_a_keys_own_rate_counts_before_the_services(serve, registry, keyed, clock, ask):
    _, slow = registry.create_key("slow", per_minute=2)
    _, fast = registry.create_key("fast", per_minute=30)
    with serve(requests_per_minute=4, burst=20) as service:
        assert ask(service, slow, 4) == [200] * 2 + [429] * 2
        assert ask(service, keyed, 6) == [200] * 4 + [429] * 2
        assert ask(service, fast, 22) == [200] * 20 + [429] * 2
        clock[0] += MINUTE // 2
        assert ask(service, slow, 2) == [200, 429]


def test_a_request_beyond_the_scope_of_its_key_counts_too(serve, registry, keyed, clock, bearer, ask):
    _, reader = registry.create_key("reader", scopes=["read"])
    with serve(requests_per_minute=10, burst=3) as service:
        assert ask(service, reader, 4, "/metrics") == [403] * 3 + [429]
        assert service.diagnose(headers=bearer(reader)).status_code == 429
        assert ask(service, keyed, 1) == [200]


def test_this_machine_has_a_limit_where_one_is_set(serve, released, problem, clock, ask):
    with serve(requests_per_minute=1, burst=5) as service:
        assert ask(service, "none", 20) == [200] * 20
    with serve(open_per_minute=3, burst=5) as service:
        assert ask(service, "none", 3) == [200] * 3
        said = problem(service.client.get("/v1/models"), 429)
        assert "this machine may ask 3 times a minute" in said["detail"]
        assert ask(service, None, 1, "/livez") == [200]
        assert ask(service, None, 1, "/readyz") == [200]


def test_guesses_run_out_and_good_keys_do_not(serve, keyed, registry, problem, clock, bearer, ask):
    key, over = registry.create_key("over")
    registry.revoke_key(key.id)
    burst = UNKNOWN_KEY_RATE.burst
    with serve() as service:
        assert ask(service, over, burst + 2) == [401] * (burst + 2)  # it is known
        assert ask(service, None, 5) == [401] * 5
        assert [ask(service, f"dfk_{n:012x}_guess", 1) for n in range(burst)] == [[401]] * burst
        answer = service.client.get("/v1/models", headers=bearer("dfk_another"))
        assert "keys that are not known" in problem(answer, 429)["detail"]
        assert answer.headers["retry-after"] == "2"
        assert "dfk_another" not in answer.text
        assert ask(service, keyed, 3) == [200] * 3
        assert ask(service, over, 1) == [401]
        clock[0] += MINUTE // 30
        assert ask(service, "guess", 2) == [401, 429]


def test_each_of_several_workers_admits_its_share(serve, keyed, clock, bearer, ask):
    with serve(requests_per_minute=6, burst=4, workers=2) as service:
        assert ask(service, keyed, 3) == [200] * 2 + [429]
        said = service.client.get("/v1/models", headers=bearer(keyed)).json()["detail"]
        assert "6 times a minute" in said, "of the key, whichever worker says so"
        clock[0] += MINUTE // 3
        assert ask(service, keyed, 2) == [200, 429]
