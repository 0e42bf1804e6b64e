"""Gate sets of one alias: which is asked, what a report tells of it, and what `verify` finds."""

import pytest

from registry.errors import GateRefusal, InvalidName
from registry.gates import GateSet, SpreadGate
from registry.gates.threshold import CountGate
from registry.releases import promote
from registry.views.changes import gate_table
from registry.views.records import event_lines

pytestmark = pytest.mark.sqlite  # queries on both databases are asked elsewhere

MODEL = "skin-lesion"
LOOSE, STRICT, TWO = (
    GateSet(gates=(SpreadGate(limit=0.9),)),
    GateSet(gates=(SpreadGate(limit=0.01),)),
    GateSet(gates=(SpreadGate(limit=0.3), CountGate(minimum=1))),
)


def test_the_narrowest_set_is_asked(registry, bundle):
    registry.add([bundle()])

    def asked(model, alias):
        kept = registry.gates(model, alias=alias)
        return kept.model, kept.alias, kept.number

    assert asked(MODEL, "production") == ("", "", 0)
    registry.set_gates(LOOSE, reason="t", alias="production")
    assert (asked(MODEL, "production"), asked(MODEL, "staging")) == (("", "production", 1), ("", "", 0))
    registry.set_gates(TWO, reason="t")
    assert (asked(MODEL, "production"), asked(MODEL, "staging")) == (("", "production", 1), ("", "", 2))
    registry.set_gates(LOOSE, reason="t", model=MODEL)
    assert (asked(MODEL, "production"), asked(MODEL, "staging")) == ((MODEL, "", 1), (MODEL, "", 1))
    registry.set_gates(STRICT, reason="t", model=MODEL, alias="production")
    assert (asked(MODEL, "production"), asked(MODEL, "staging")) == ((MODEL, "production", 2), (MODEL, "", 1))
    assert asked(None, "production") == ("", "production", 1)
    assert asked(None, None) == ("", "", 2)
    assert registry.set_gates(STRICT, reason="again", model=MODEL, alias="production") is None
    registry.set_gates(STRICT, reason="t", model=MODEL)
    assert (asked(MODEL, "production"), asked(MODEL, "staging")) == ((MODEL, "production", 2), (MODEL, "", 3))
    assert str(registry.gates(MODEL, 2)) == f"gate set 2 of {MODEL} under production"
    assert registry.verify() == ()


def test_a_promotion_asks_the_set_of_its_alias_and_tells_which(registry, bundle, tested):
    registry.add([bundle(metrics=tested(light=0.9, dark=0.7))])
    registry.set_gates(LOOSE, reason="t", model=MODEL)
    event = registry.set_gates(STRICT, reason="the ward asked", model=MODEL, alias="production")
    assert (event.alias, event.details["after"]["alias"]) == ("production", "production")
    assert f"set 1 of {MODEL} -> set 2 of {MODEL} under production" in event_lines(event)
    with pytest.raises(GateRefusal) as refused:
        registry.promote(MODEL, [1], to="production")
    assert (refused.value.report.set_number, refused.value.report.set_alias) == (2, "production")
    assert gate_table(refused.value.report).startswith(f"gate set 2 of {MODEL} under production\n")
    done = registry.promote(MODEL, [1], to="staging")
    assert (done.gates.set_number, done.gates.set_alias) == (1, "")
    assert [one.kind for one in registry.history(MODEL)].count("gates-changed") == 2
    assert registry.verify() == ()


def test_gates_of_an_alias_that_change_while_a_release_is_judged_are_asked(
    registry, bundle, tested, monkeypatch
):
    registry.add([bundle(metrics=tested(light=0.9, dark=0.7))])
    registry.set_gates(LOOSE, reason="t")
    judge = promote.judge

    def judge_and_change(*given):
        found = judge(*given)
        registry.set_gates(STRICT, reason="t", alias="production")
        return found

    monkeypatch.setattr(promote, "judge", judge_and_change)
    with pytest.raises(GateRefusal):
        registry.promote(MODEL, [1], to="production")


def test_another_alias_behind_the_registrys_back_is_found(registry, places, bundle):
    registry.set_gates(STRICT, reason="t", alias="production")
    places.tamper("UPDATE gate_sets SET alias = 'staging'")
    (issue,) = registry.verify()
    assert issue.about == "gate set 1 for all models"


def test_an_alias_that_can_be_none_gets_no_gates(registry):
    with pytest.raises(InvalidName):
        registry.set_gates(STRICT, reason="t", alias="a/b")
