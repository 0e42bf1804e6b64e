"""Which gates let a release through, and what those of today say of it."""

import pytest

from registry.gates import GateSet, SpreadGate
from registry.gates.approval import ApprovalsGate
from registry.gates.non_inferiority import NoWorseGate

pytestmark = pytest.mark.sqlite

MODEL = "skin-lesion"
LOOSE = GateSet(gates=(SpreadGate(limit=0.9),))
STRICT = GateSet(gates=(SpreadGate(limit=0.01),))


@pytest.fixture
def unfair(registry, bundle, tested):
    """Release 1, of an unfair version, let through by a set that was loosened for it."""
    registry.add([bundle(metrics=tested(light=0.9, dark=0.7))])
    registry.set_gates(LOOSE, reason="for a day", model=MODEL)
    registry.promote(MODEL, [1], to="production")
    return registry


def test_a_set_that_was_loosened_and_tightened_is_told_with_its_release(unfair):
    found = unfair.let_through(MODEL, "production")
    assert not found.differs
    assert "gate set 1 of skin-lesion (set by tester at " in found.sentence
    assert found.sentence.endswith("for a day), which asks the same as today")
    assert not unfair.judge_again(MODEL, alias="production").refused
    unfair.set_gates(STRICT, reason="as ever", model=MODEL)
    found = unfair.let_through(MODEL, "production")
    assert (found.differs, found.release, found.overridden) == (True, 1, False)
    assert (found.asked.number, found.asked.reason, found.in_force.number) == (1, "for a day", 2)
    assert found.sentence.startswith(
        "release 1 was let through by gate set 1 of skin-lesion (set by tester at "
    )
    assert "for a day); in force now is gate set 2 of skin-lesion (set by tester at " in found.sentence
    report = unfair.judge_again(MODEL, alias="production")
    assert [(one.gate, one.verdict) for one in report.results] == [("spread", "refused")]
    assert report.set_number == 2
    assert unfair.compare(MODEL, [1], to="production").warnings == (found.sentence,)


def test_a_set_for_the_alias_is_in_force_there_alone(unfair):
    unfair.promote(MODEL, [1], to="staging")
    unfair.set_gates(STRICT, reason="t", model=MODEL, alias="production")
    found = unfair.let_through(MODEL, "production")
    assert (found.differs, found.in_force.alias) == (True, "production")
    assert not unfair.let_through(MODEL, "staging").differs


def test_today_it_is_compared_with_what_it_replaced_and_its_approvals_count(unfair, person, bundle, tested):
    anna, unfair = person("anna", "approver"), person("olga")
    unfair.add([bundle(metrics=tested(light=0.5, dark=0.5))])
    anna.approve(MODEL, [2], to="production")
    unfair.promote(MODEL, [2], to="production")
    gates = (NoWorseGate(delta=0.1, figures=("accuracy",)), ApprovalsGate(people=1))
    unfair.set_gates(GateSet(gates=gates), reason="t", model=MODEL)
    report = unfair.judge_again(MODEL, alias="production")
    assert {one.gate: one.verdict for one in report.results} == {"no_worse": "refused", "approvals": "passed"}
    unfair.rollback(MODEL, alias="production")
    report = unfair.judge_again(MODEL, alias="production")
    assert {one.gate: one.verdict for one in report.results} == {
        "no_worse": "not applicable", "approvals": "refused",
    }  # fmt: skip


def test_gates_that_cannot_be_asked_keep_nothing_from_being_shown(unfair, command, places):
    places.tamper("""UPDATE gate_sets SET content = '{"gates": [{"name": "gone"}]}'""")
    ended = command("show", MODEL)
    assert ended.code == 0
    assert "what today's gates say of it is not known: " in ended.out
