from datetime import UTC, datetime, timedelta

import pytest

from serving.access.clock import BELIEVED_SECONDS, SteadyClock
from serving.state import ServiceState

START = datetime(2026, 6, 1, 12, tzinfo=UTC)


class Clocks:
    """A wall clock and a monotonic one, which go on together until the wall clock is set."""

    def __init__(self):
        self.wall, self.at = START, 100.0

    def pass_by(self, seconds):
        self.wall += timedelta(seconds=seconds)
        self.at += seconds

    def set(self, **by):
        self.wall += timedelta(**by)


@pytest.fixture
def clocks():
    return Clocks()


@pytest.fixture
def steady(clocks):
    return SteadyClock(lambda: clocks.wall, lambda: clocks.at)


def test_it_says_what_the_wall_clock_says(steady, clocks):
    for _ in range(50):
        clocks.pass_by(1000)
        assert steady.now() == clocks.wall


def test_a_clock_that_is_set_back_does_not_set_it_back(steady, clocks):
    clocks.set(days=-500)
    assert steady.now() == START
    clocks.pass_by(60)
    assert steady.now() == START + timedelta(seconds=60)


def test_one_that_jumps_ahead_counts_as_long_as_it_does(steady, clocks):
    clocks.set(days=500)
    assert steady.now() == clocks.wall
    clocks.pass_by(1.5)
    clocks.set(days=-500)
    assert steady.now() == clocks.wall


@pytest.mark.parametrize("days", [-500, 500])
def test_what_it_has_said_for_long_is_believed(steady, clocks, days):
    clocks.set(days=days)
    steady.now()
    clocks.pass_by(BELIEVED_SECONDS - 1)
    assert (steady.now() == clocks.wall) is (days > 0)
    clocks.pass_by(1)
    assert steady.now() == clocks.wall
    clocks.set(days=-1)  # from there on, as from the beginning
    assert steady.now() == clocks.wall + timedelta(days=1)


def test_small_steps_back_do_not_add_up(steady, clocks):
    clocks.set(seconds=-30)
    for _ in range(200):
        steady.now()
        clocks.pass_by(1)
        clocks.set(seconds=-61)
    assert steady.now() == START + timedelta(seconds=200)


def test_an_expired_key_stays_expired_when_the_clock_is_set_back(
    serve, registry, promote, bundle, problem, clocks, monkeypatch
):
    promote(registry, bundle())
    clocks.wall = datetime.now(UTC)
    _, secret = registry.create_key("app", expires=timedelta(hours=1))
    begin = ServiceState.__init__

    def with_clocks(service, settings):
        begin(service, settings)
        service.clock = SteadyClock(lambda: clocks.wall, lambda: clocks.at)

    monkeypatch.setattr(ServiceState, "__init__", with_clocks)
    headers = {"Authorization": f"Bearer {secret}"}
    with serve() as service:
        assert service.diagnose(headers=headers).status_code == 200
        clocks.pass_by(3601)
        problem(service.diagnose(headers=headers), 401)
        clocks.set(days=-1)
        problem(service.diagnose(headers=headers), 401)
