"""Alarms that move an alias by themselves: where they may, once each, to a good release or nowhere."""

import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from registry.errors import PersonRefused
from registry.gates import GateSet
from registry.gates.field import FieldGate
from tests.registry.alarms.conftest import MODEL, alarmed, break_promise, serving

pytestmark = pytest.mark.sqlite_first


@pytest.fixture
def allowed(released):
    """Production is at release 3, and alarms may move it."""
    released.allow_withdraw(MODEL, "production", allowed=True)
    return released


def test_nothing_is_moved_that_nobody_allowed(released, store):
    alarmed(released, store, 3)
    assert released.act_on_alarms(MODEL).moved == ()
    assert serving(released) == [3]
    released.allow_withdraw(MODEL, "production", allowed=True)
    released.allow_withdraw(MODEL, "production", allowed=False)
    assert released.act_on_alarms(MODEL).moved == ()
    assert released.allow_withdraw(MODEL, "production", allowed=False) is None


def test_an_alias_goes_back_and_history_names_the_alarm(allowed, store):
    alarmed(allowed, store, 3)
    (event,) = allowed.act_on_alarms(MODEL).moved
    assert (event.kind, event.before, event.release, event.details["on_alarms"]) == ("rolled-back", 3, 2, [1])
    assert serving(allowed) == [2]
    assert allowed.act_on_alarms(MODEL).moved == ()
    assert allowed.verify() == ()


def test_no_alarm_of_another_version_moves_it(allowed, store):
    alarmed(allowed, store, 2)
    assert allowed.act_on_alarms(MODEL) == allowed.act_on_alarms(MODEL)
    assert serving(allowed) == [3]


def test_bad_releases_are_passed_over_and_nothing_loops(allowed, store):
    alarmed(allowed, store, 2)
    alarmed(allowed, store, 3)
    (event,) = allowed.act_on_alarms(MODEL).moved
    assert event.release == 1
    assert event.details["skipped"] == [{"release": 2, "withdrawn": [], "alarmed": [2]}]
    alarmed(allowed, store, 1)
    acted = allowed.act_on_alarms(MODEL)
    assert acted.moved == ()
    assert "no good release to go back to" in acted.stuck[0]
    assert serving(allowed) == [1]  # it stays, and is said
    assert allowed.verify() == ()


def test_a_withdrawn_release_is_passed_over(allowed, store):
    alarmed(allowed, store, 3)
    allowed.withdraw(MODEL, [2], reason="a test")
    (event,) = allowed.act_on_alarms(MODEL).moved
    assert event.release == 1


def test_the_command_ends_with_one_where_there_is_no_way_back(allowed, store, command):
    for number in (1, 2, 3):
        alarmed(allowed, store, number)
    ended = command("field", MODEL, "--act")
    assert ended.code == 1
    assert "no good release to go back to" in ended.out
    assert serving(allowed) == [3]


def test_what_is_promoted_again_is_not_moved_a_second_time(allowed, store):
    alarmed(allowed, store, 3)
    allowed.act_on_alarms(MODEL)
    allowed.promote(MODEL, [3], to="production")
    acted = allowed.act_on_alarms(MODEL)
    assert acted.moved == ()
    assert "has moved production before" in acted.stuck[0]
    assert serving(allowed) == [3]


@pytest.mark.parametrize("over", [True, False])
def test_whoever_promotes_over_the_gate_has_decided(allowed, store, over):
    alarmed(allowed, store, 3)
    allowed.rollback(MODEL, alias="production")
    if over:
        allowed.set_gates(GateSet(gates=(FieldGate(),)), reason="a test")
        allowed.promote(MODEL, [3], to="production", override_gates=True, reason="the board has decided")
    else:
        allowed.promote(MODEL, [3], to="production")  # the gate is not asked: nobody has thought of the alarm
    assert len(allowed.act_on_alarms(MODEL).moved) == (0 if over else 1)
    assert serving(allowed) == ([3] if over else [2])


def test_a_subgroup_with_a_version_of_its_own_is_not_answered_by_another(
    allowed, store, bundle, dark, tested
):
    allowed.add([bundle(dark, tested(dark=0.8))])
    allowed.promote(MODEL, [5], to="production")
    alarmed(allowed, store, 3)  # to dark, whom version 5 answers
    assert allowed.act_on_alarms(MODEL).moved == ()
    assert serving(allowed) == [3, 5]


def test_an_operator_signs_the_move(allowed, store, person):
    alarmed(allowed, store, 3)
    operator = person("olga")
    with pytest.raises(PersonRefused):
        allowed.act_on_alarms(MODEL)
    assert serving(allowed) == [3]
    assert operator.act_on_alarms(MODEL).moved[0].signed_with
    assert allowed.verify() == ()


def test_two_at_once_act_once(allowed, store, places):
    break_promise(store, 3)
    allowed.name_outcomes(MODEL, store)

    def act(_):
        with places.open() as another:
            another.tell_alarms(MODEL, another.field(MODEL, store))
            return another.act_on_alarms(MODEL).moved

    with ThreadPoolExecutor(4) as pool:
        moved = [event for events in pool.map(act, range(4)) for event in events]
    assert len(moved) == 1
    assert serving(allowed) == [2]
    assert len(allowed.alarms(MODEL)) == 1


KILLED = """
import os, signal, sys
import registry.watching
from registry.cli.app import main
registry.watching.acting.act = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
model, url, store, outcomes = sys.argv[1:]
where = ["--url", url, "--store", store]
sys.argv = ["dermfed-registry", *where, "field", model, "--act", "--outcomes", outcomes]
main()
"""


@pytest.mark.long
def test_what_was_killed_between_alarm_and_move_is_resumed(
    allowed, store, places, start, command, outcomes_url
):
    break_promise(store, 3)
    allowed.name_outcomes(MODEL, store)
    killed = start(KILLED, MODEL, places.url, places.store, outcomes_url)
    assert killed.wait(60) == -signal.SIGKILL
    assert [one.is_open for one in allowed.alarms(MODEL)] == [True]
    assert serving(allowed) == [3]
    ended = command("field", MODEL, "--act", "--outcomes", f"{outcomes_url}-gone")  # history is enough
    assert ended.code == 2
    assert "rolled-back" in ended.out
    assert serving(allowed) == [2]
    assert len(allowed.alarms(MODEL)) == 1
