"""Gate sets as the registry keeps them: numbered, for one model or for all, and asked at promotion."""

import pytest

from registry.errors import GateRefusal, ReleaseRefused
from registry.gates import DEFAULT, GateSet, SpreadGate
from registry.gates.running import NonInferiorityGate
from registry.gates.threshold import CountGate
from registry.releases import promote

pytestmark = pytest.mark.sqlite

MODEL = "skin-lesion"
LENIENT = GateSet(gates=(SpreadGate(limit=0.25),))
STRICT = GateSet(gates=(SpreadGate(limit=0.01), CountGate(minimum=50)))


@pytest.fixture
def filled(registry, bundle, tested):
    """Versions for everybody: 1 an unfair one, 2 a fair one."""
    registry.add(
        [bundle(metrics=tested(light=0.90, dark=0.70)), bundle(metrics=tested(light=0.90, dark=0.85))]
    )
    return registry


def test_sets_are_numbered_and_the_newest_is_asked(filled, places):
    first = filled.set_gates(LENIENT, reason="a lenient board")
    second = filled.set_gates(STRICT, reason=" a strict one ")
    assert filled.gates().gates == STRICT
    assert [filled.gates(number=number).gates for number in (0, 1, 2)] == [DEFAULT, LENIENT, STRICT]
    assert (first.kind, first.actor, first.model, first.reason) == (
        "gates-changed", "tester", "", "a lenient board",
    )  # fmt: skip
    ends = [(second.details[end]["model"], second.details[end]["number"]) for end in ("before", "after")]
    assert (second.reason, ends) == ("a strict one", [("", 1), ("", 2)])
    assert second.details["before"]["digest"] == first.details["after"]["digest"]
    assert second.details["before"]["digest"] != second.details["after"]["digest"]
    assert [event for event in filled.history(MODEL) if event.kind == "gates-changed"] == [first, second]
    with places.open() as again:
        kept = again.gates()
        assert (kept.number, kept.gates, kept.actor, kept.created.tzinfo is not None) == (
            2,
            STRICT,
            "tester",
            True,
        )
    assert filled.verify() == ()


def test_a_model_with_gates_of_its_own_is_asked_those_alone(filled, bundle):
    filled.add([bundle(model="other")])
    filled.set_gates(STRICT, reason="all")
    event = filled.set_gates(LENIENT, reason="this one", model=MODEL)
    assert [event.details[end]["model"] for end in ("before", "after")] == ["", MODEL]
    assert (filled.gates(MODEL).model, filled.gates(MODEL).number, filled.gates(MODEL).gates) == (
        MODEL,
        1,
        LENIENT,
    )
    assert filled.gates("other") == filled.gates() != filled.gates(MODEL)
    promoted = filled.promote(MODEL, [1], to="production")
    assert (promoted.gates.set_model, promoted.gates.set_number) == (MODEL, 1)
    assert [result.limit for result in promoted.gates.results] == [0.25]
    assert event not in filled.history("other")


@pytest.mark.parametrize("reason", ["", "  \n"])
def test_other_gates_need_a_reason(filled, reason):
    with pytest.raises(ReleaseRefused, match="--reason"):
        filled.set_gates(LENIENT, reason=reason)
    assert filled.gates().number == 0


def test_every_gate_that_refuses_is_told_and_all_are_kept(filled):
    filled.set_gates(GateSet(gates=(*STRICT.gates[:1], CountGate(minimum=201))), reason="strict")
    with pytest.raises(GateRefusal) as refused:
        filled.promote(MODEL, [2], to="production")
    assert "gate spread (refused)" in str(refused.value)
    assert "gate count (refused): test images for dark: 200, where at least" in str(refused.value)
    event = filled.promote(MODEL, [2], to="production", override_gates=True, reason="none better")
    assert [result.verdict for result in event.gates.results] == ["refused", "refused"]
    assert filled.history(MODEL)[-1] == event


def test_the_running_release_is_compared_of_the_same_alias(filled):
    filled.set_gates(GateSet(gates=(NonInferiorityGate(delta=0.02),)), reason="never worse")
    assert filled.promote(MODEL, [2], to="production").gates.results[0].verdict == "not applicable"
    assert filled.promote(MODEL, [1], to="staging").gates.results[0].verdict == "not applicable"
    with pytest.raises(GateRefusal, match=r"accuracy for dark: 0\.150 \(n 200, 0\.850 -> 0\.700\)"):
        filled.promote(MODEL, [1], to="production")
    better = filled.promote(MODEL, [2], to="staging")
    assert better.gates.results[0].value == pytest.approx(0)


def test_a_running_release_that_is_damaged_is_in_nobodys_way_unless_it_is_compared(
    filled, places, bundle, tested
):
    filled.promote(MODEL, [1], to="production", override_gates=True, reason="first")
    places.spoil(filled.version(MODEL, 1).digest)
    with pytest.raises(
        GateRefusal, match=r"gate non_inferiority \(refused\): the running release cannot be read"
    ):
        filled.promote(MODEL, [2], to="production")
    event = filled.promote(MODEL, [2], to="production", override_gates=True, reason="the first is damaged")
    assert [one.gate for one in event.gates.results if one.verdict == "refused"] == ["non_inferiority"]
    filled.set_gates(LENIENT, reason="nothing is compared")
    places.spoil(filled.version(MODEL, 2).digest)
    filled.add([bundle(metrics=tested(light=0.9, dark=0.9))])
    assert filled.promote(MODEL, [3], to="production") is not None


def test_gates_that_are_set_in_between_are_asked(filled, places, monkeypatch):
    """Somebody sets stricter gates between a judgement and its release."""
    swap, tries = promote.swap, []

    def interrupted(*judged):
        tries.append(judged)
        if len(tries) == 1:
            with places.open() as other:
                other.set_gates(STRICT, reason="at once")
        return swap(*judged)

    monkeypatch.setattr(promote, "swap", interrupted)
    with pytest.raises(GateRefusal, match=r"at most 0\.010 passes"):
        filled.promote(MODEL, [2], to="production")
    assert len(tries) == 1
    assert filled.release(MODEL, "production") is None


@pytest.mark.parametrize(
    ("statement", "about", "text"),
    [
        ("UPDATE gate_sets SET content = '{\"gates\": [{\"name\": \"spread\"}]}' WHERE number = 1",
         "gate set 1 for all models", "instead of"),
        ("DELETE FROM gate_sets WHERE model <> ''", f"gate set 1 of {MODEL}", "tell of it and it is gone"),
        ("UPDATE gate_sets SET number = 7 WHERE model = ''", "gate set 7 for all models", "no event tells"),
    ],
)  # fmt: skip
def test_a_gate_set_that_was_tampered_with_is_found(filled, places, statement, about, text):
    filled.set_gates(STRICT, reason="all")
    filled.set_gates(LENIENT, reason="one", model=MODEL)
    assert filled.verify() == ()
    places.tamper(statement)
    assert any(one.about == about and text in one.text for one in filled.verify())
