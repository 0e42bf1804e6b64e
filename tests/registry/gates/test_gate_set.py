import pytest

from registry.errors import GateSetInvalid
from registry.gates.approval import ApprovalsGate
from registry.gates.fairness import SpreadGate
from registry.gates.gate_set import DEFAULT, GATES, GateSet, gate_set_of, gate_set_text, read_gate_set
from registry.gates.non_inferiority import NoWorseGate


def test_a_set_is_read_in_its_order():
    text = "gates: [{name: approvals, people: 2}, {name: spread, limit: 1}, {name: no_worse, delta: 0.02}]"
    assert read_gate_set(text) == GateSet(
        gates=(ApprovalsGate(people=2), SpreadGate(limit=1.0), NoWorseGate(delta=0.02))
    )


def test_every_gate_is_written_and_read_back_with_its_meaning(examples):
    whole = GateSet(gates=tuple(one.gate for one in examples.values()))
    text = gate_set_text(whole)
    assert read_gate_set(text) == whole
    assert gate_set_of(whole.model_dump(mode="json")) == whole
    for one in examples.values():
        assert f"# {one.gate.meaning}\n  - name: {one.gate.name}\n" in text
    assert len({one.gate.meaning for one in examples.values()}) == len(GATES.own)


def test_only_a_gate_that_compares_looks_at_the_running_release():
    assert DEFAULT.looks_at_running
    assert not GateSet(gates=(SpreadGate(),)).looks_at_running
    assert GateSet(gates=(SpreadGate(), NoWorseGate(delta=0))).looks_at_running


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gates: [{name: spred}]", "gate 1: there is no gate 'spred'; did you mean `spread`? valid: spread,"),
        ("gates: [{name: spread, limits: 0.1}]", "gate spread, has the key 'limits'; did you mean `limit`?"),
        ("gate: [{name: spread}]", "has the key 'gate'; did you mean `gates`?"),
        ("gates: [{name: spread}]\nmodel: demo", "has the key 'model'; valid: gates"),
        ("gates: [{limit: 0.1}]", "gate 1, has no name"),
        ("gates: [spread]", "gate 1, has no name"),
        ("gates: [{name: [1]}]", "there is no gate [1]"),
        ("gates: []", "gates: name at least one gate"),
        ("gates:", "gates"),
        ("{}", "gates: Field required"),
        ("", "holds no gate set; it is a file such as"),
        ("spread", "holds no gate set"),
        (
            "gates: [{name: spread, limit: 1.1}]",
            "set: gates.0.spread.limit: Input should be less than or equal to 1; found 1.1. An example",
        ),
        ("gates: [{name: spread, limit: .nan}]", "gates.0.spread.limit"),
        ("gates: [{name: spread, limit: .inf}]", "gates.0.spread.limit"),
        ("gates: [{name: spread, limit: yes}]", "gates.0.spread.limit"),
        ("gates: [{name: spread, limit: '0.1'}]", "gates.0.spread.limit"),
        ("gates: [{name: spread, limit: 2026-01-01}]", "not JSON serializable"),
        ("gates: [{name: count, minimum: 1.5}]", "gates.0.count.minimum"),
        ("gates: [{name: count}]", "gates.0.count.minimum: Field required"),
        ("gates: [{name: signature, identities: []}]", "identities"),
        ("gates: [{name: no_worse, delta: 0.1, figures: [auroc]}]", "figures"),
        ("gates: [{name: spread}, {name: spread, limit: 1}]", "spread is there twice"),
        ("gates: [{name: spread, limit: 0.1, limit: 1}]", "the key 'limit' is there twice"),
        ("gates: [", "is not YAML"),
        ("gates: !!python/object:os.system []", "is not YAML"),
        ("gates: [{name: spread, ? [a] : 1}]", "unhashable key"),
    ],
)  # fmt: skip
def test_what_does_not_hold_is_refused_with_what_is_valid(text, said):
    with pytest.raises(GateSetInvalid) as refused:
        read_gate_set(text, "gates.yaml")
    assert said in str(refused.value)
    assert str(refused.value).startswith("gates.yaml")


def test_a_set_in_the_database_that_does_not_hold_is_named():
    with pytest.raises(GateSetInvalid, match="gate set 3 in the database holds no gate set"):
        gate_set_of({"gates": [{"name": "other"}]}, "gate set 3 in the database")
