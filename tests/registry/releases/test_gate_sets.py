"""Gate sets as the registry keeps them: numbered, of a model and alias or of all, and asked at promotion."""

import pytest

from registry.errors import GateRefusal, InvalidName, ReleaseRefused
from registry.gates import DEFAULT, GateSet, SpreadGate
from registry.gates.running import NonInferiorityGate
from registry.gates.threshold import CountGate
from registry.releases import promote
from registry.releases.gate_sets import takes_the_place_of
from registry.views.changes import gate_table
from registry.views.records import event_lines

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
        assert (kept.number, kept.gates, kept.actor) == (2, STRICT, "tester")
    assert filled.verify() == ()
    for reason in ("", "  \n"):
        with pytest.raises(ReleaseRefused, match="--reason"):
            filled.set_gates(LENIENT, reason=reason)
    with pytest.raises(InvalidName):
        filled.set_gates(LENIENT, reason="t", alias="a/b")
    assert filled.gates().number == 2


def test_the_narrowest_set_is_asked_and_a_promotion_says_which(filled, bundle):
    filled.add([bundle(model="other")])

    def asked(model, alias):
        kept = filled.gates(model, alias=alias)
        return kept.model, kept.alias, kept.number

    assert asked(MODEL, "production") == ("", "", 0)
    filled.set_gates(LENIENT, reason="t", alias="production")
    assert (asked(MODEL, "production"), asked(MODEL, "staging")) == (("", "production", 1), ("", "", 0))
    filled.set_gates(STRICT, reason="t")
    assert (asked(MODEL, "production"), asked(MODEL, "staging")) == (("", "production", 1), ("", "", 2))
    own = filled.set_gates(LENIENT, reason="t", model=MODEL)
    assert (asked(MODEL, "production"), asked(MODEL, "staging")) == ((MODEL, "", 1), (MODEL, "", 1))
    event = filled.set_gates(STRICT, reason="t", model=MODEL, alias="production")
    assert (asked(MODEL, "production"), asked(MODEL, "staging")) == ((MODEL, "production", 2), (MODEL, "", 1))
    assert (asked("other", "production"), asked(None, None)) == (("", "production", 1), ("", "", 2))
    assert filled.set_gates(STRICT, reason="again", model=MODEL, alias="production") is None
    assert str(filled.gates(MODEL, 2)) == f"gate set 2 of {MODEL} under production"
    assert f"set 1 of {MODEL} -> set 2 of {MODEL} under production" in event_lines(event)
    assert own not in filled.history("other")
    with pytest.raises(GateRefusal) as refused:
        filled.promote(MODEL, [1], to="production")
    assert (refused.value.report.set_number, refused.value.report.set_alias) == (2, "production")
    assert gate_table(refused.value.report).startswith(f"gate set 2 of {MODEL} under production\n")
    done = filled.promote(MODEL, [1], to="staging")
    assert (done.gates.set_model, done.gates.set_number, done.gates.set_alias) == (MODEL, 1, "")
    assert [result.limit for result in done.gates.results] == [0.25]
    assert filled.verify() == ()


ALL, PRODUCTION, OF_MODEL, BOTH = ("", ""), ("", "production"), (MODEL, ""), (MODEL, "production")


@pytest.mark.parametrize(
    ("place", "replaced"),
    [
        (ALL, {ALL}),
        (PRODUCTION, {ALL, PRODUCTION}),
        (OF_MODEL, {ALL, PRODUCTION, OF_MODEL}),
        (BOTH, {ALL, PRODUCTION, OF_MODEL, BOTH}),
    ],
)
def test_a_set_takes_the_place_of_wider_ones_where_they_overlap(place, replaced):
    places = [ALL, PRODUCTION, OF_MODEL, BOTH, ("", "staging"), ("other", ""), ("other", "production")]
    if place == OF_MODEL:  # under any alias
        replaced = {*replaced, ("", "staging")}
    assert {other for other in places if takes_the_place_of(place, other)} == replaced


def test_every_gate_that_refuses_is_named_and_all_are_kept(filled):
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
    assert filled.promote(MODEL, [2], to="staging").gates.results[0].value == pytest.approx(0)


def test_a_running_release_that_is_damaged_keeps_nothing_out_unless_it_is_compared(
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


@pytest.mark.parametrize("alias", [None, "production"])
def test_gates_that_are_set_while_a_release_is_judged_are_asked(filled, places, monkeypatch, alias):
    swap, tries = promote.swap, []

    def interrupted(*judged):
        tries.append(judged)
        if len(tries) == 1:
            with places.open() as other:
                other.set_gates(STRICT, reason="at once", alias=alias)
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
        ("DELETE FROM gate_sets WHERE model <> ''", f"gate set 1 of {MODEL}", "it is gone"),
        ("UPDATE gate_sets SET number = 7 WHERE model = ''", "gate set 7 for all models", "no event"),
        ("UPDATE gate_sets SET alias = 'staging' WHERE model = ''", "gate set 1 for all models", "staging"),
    ],
)  # fmt: skip
def test_a_gate_set_that_was_tampered_with_is_found(filled, places, statement, about, text):
    filled.set_gates(STRICT, reason="all", alias="production")
    filled.set_gates(LENIENT, reason="one", model=MODEL)
    assert filled.verify() == ()
    places.tamper(statement)
    assert any(one.about == about and text in one.text for one in filled.verify())
