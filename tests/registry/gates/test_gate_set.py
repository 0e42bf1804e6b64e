"""Gate sets: how they are read, what a whole set says, and which set a release passed."""

import pytest

from registry.bundle.manifest import Conformal
from registry.errors import GateSetInvalid
from registry.gate_report import GateReport
from registry.gates import DEFAULT, Case, GateSet, SpreadGate, read_gate_set
from registry.gates.approval import ApprovalsGate
from registry.gates.fairness import RequiredSubgroupsGate
from registry.gates.gate_set import gate_set_of, gate_set_text
from registry.gates.running import NonInferiorityGate
from registry.gates.threshold import (
    CoverageGate,
    MinSensitivityLowerBoundGate,
    ParityGate,
    RiskGate,
    WorstMalignantSensitivityGate,
)
from tests.registry.gates.conftest import CANCER, PROMISE

MODEL = "skin-lesion"
BENIGN = tuple(label.model_copy(update={"malignancy": "benign"}) for label in CANCER)
UNKNOWN = tuple(label.model_copy(update={"malignancy": "unknown"}) for label in CANCER)
OF_MALIGNANCY = [
    WorstMalignantSensitivityGate(limit=0.8),
    MinSensitivityLowerBoundGate(limit=0.5),
    RequiredSubgroupsGate(malignant=20),
]


def test_a_set_is_read_in_its_order():
    text = "gates: [{name: approvals, people: 2}, {name: spread, limit: 1}, {name: parity, limit: 0.02}]"
    assert read_gate_set(text) == GateSet(
        gates=(ApprovalsGate(people=2), SpreadGate(limit=1.0), ParityGate(limit=0.02))
    )


def test_every_gate_is_written_and_read_back_with_its_meaning(examples):
    gates = tuple(one.gate for one in examples.values())
    whole = GateSet(gates=gates, must_apply=("spread",))
    text = gate_set_text(whole)
    assert read_gate_set(text) == whole
    assert gate_set_of(whole.model_dump(mode="json")) == whole
    for gate in gates:
        assert f"# {gate.meaning}\n  - name: {gate.name}\n" in text
    assert len({gate.meaning for gate in gates}) == len(gates)
    assert whole.needs == {"running", "signatures", "metrics_signatures", "outcomes"}
    assert DEFAULT.needs == {"running"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gates: [{name: spred}]", "gates.0: unknown gate `spred`; did you mean `spread`? valid: approvals,"),
        ("gates: [{name: spread, limits: 0.1}]", "limits: unknown key; did you mean `limit`? valid: name"),
        ("gate: [{name: spread}]", "gate: unknown key; did you mean `gates`?"),
        ("gates: []", "gates: name at least one gate"),
        ("{}", "gates: Field required"),
        ("", "no gate set; it is a mapping such as"),
        (
            "gates: [{name: spread, limit: 1.1}]",
            "set: gates.0.spread.limit: Input should be less than or equal to 1; found 1.1. An example",
        ),
        ("gates: [{name: spread, limit: .nan}]", "gates.0.spread.limit"),
        ("gates: [{name: spread, limit: true}]", "gates.0.spread.limit"),
        ("gates: [{name: spread, limit: '0.1'}]", "gates.0.spread.limit"),
        ("gates: [{name: spread, limit: 2026-01-01}]", "not JSON serializable"),
        ("gates: [{name: count, minimum: 1.5}]", "gates.0.count.minimum"),
        ("gates: [{name: approvals, people: 1, keys: [anna]}]", "keys.0"),
        ("gates: [{name: spread}, {name: spread, limit: 1}]", "spread is there twice"),
        ("gates: [{name: spread, limit: 0.1, limit: 1}]", "the key 'limit' is there twice"),
        ("{gates: [{name: spread}], must_apply: [count]}", "names count; the gates of the set are spread"),
        ("gates: !!python/object:os.system []", "cannot be read as YAML"),
        ("gates: [{name: spread, ? [a] : 1}]", "unhashable key"),
    ],
)  # fmt: skip
def test_what_is_not_valid_is_refused_with_what_is(text, said):
    with pytest.raises(GateSetInvalid) as refused:
        read_gate_set(text, "gates.yaml")
    assert said in str(refused.value)
    assert str(refused.value).startswith("gates.yaml")


def test_a_set_in_the_database_with_a_gate_that_is_gone_says_so():
    with pytest.raises(GateSetInvalid, match=r"gate set 3 in the database is no gate set.*Install the"):
        gate_set_of({"gates": [{"name": "other"}]}, "gate set 3 in the database")


# A gate that does not apply has judged nothing: leaving labels or metrics out is no way around it.


def row(**changes):
    """Good metrics of 120 images."""
    return {
        "n": 120, "n_malignant": 60, "n_other": 60, "accuracy": 0.9, "balanced_accuracy": 0.9,
        "malignant_sensitivity": 0.95, "answered": 0.8, "reported": 0.8, "reported_risk": 0.05,
        "coverage": 0.92,
    } | changes  # fmt: skip


def figures(**rows):
    """Those of a release, by subgroup."""
    rows = rows or {"light": row(), "dark": row()}
    return {**row(n=120 * len(rows), n_malignant=60 * len(rows), n_other=60 * len(rows)), "by_subgroup": rows}


@pytest.fixture
def release(bundle):
    """A release of one version with these metrics."""

    def make(metrics=None, **parts):
        parts = {"labels": CANCER, "conformal": PROMISE, **parts}
        return (bundle(metrics=figures() if metrics is None else metrics, **parts).manifest,)

    return make


def verdicts(gates, manifests, running=()):
    return {one.gate: one.verdict for one in gates.judge(Case(manifests, running=running))}


def refused_by(gates, manifests, running=()):
    return [name for name, verdict in verdicts(gates, manifests, running).items() if verdict == "refused"]


def test_an_honest_release_passes_and_says_what_was_not_judged(release):
    report = GateReport(results=DEFAULT.judge(Case(release())))
    assert not report.refused
    assert report.not_judged == (
        "tones: no subgroup of the release names a skin tone",
        "non_inferiority: no release runs under this alias yet, so nothing can get worse",
        "triage: no version has triage",
    )
    assert refused_by(DEFAULT, release(), release()) == []


@pytest.mark.parametrize("gate", OF_MALIGNANCY, ids=lambda gate: gate.name)
@pytest.mark.parametrize(
    ("labels", "verdict"), [(CANCER, "passed"), (BENIGN, "not applicable"), (UNKNOWN, "refused")]
)
def test_labels_of_unknown_kind_are_no_way_around(release, gate, labels, verdict):
    one = gate.judge(Case(release(labels=labels)))
    assert one.verdict == verdict
    if verdict == "refused":
        assert "MEL, NV do not say whether they are" in one.detail
        assert one.detail.endswith("or override with --override-gates --reason")


LOST = [
    *((gate, {"labels": BENIGN}) for gate in OF_MALIGNANCY),
    (SpreadGate(), {"metrics": row()}),
    (SpreadGate(), {"metrics": figures(light=row())}),
    (CoverageGate(slack=0.1), {"conformal": Conformal()}),
    (RiskGate(), {"metrics": figures(light=row(), dark=row(answered=0.0, reported=0.0, reported_risk=None))}),
]


@pytest.mark.parametrize(("gate", "lost"), LOST)
def test_what_the_running_release_was_judged_by_is_required(release, gate, lost):
    """Each of these let a release pass that says less than the one before."""
    gates = GateSet(gates=(gate,))
    (alone,) = gates.judge(Case(release(**lost)))
    assert alone.verdict != "refused"  # a first release may say so
    assert GateReport(results=(alone,)).not_judged
    (one,) = gates.judge(Case(release(**lost), running=release()))
    assert one.verdict == "refused"
    assert one.detail.startswith("of the running release this gate judges ")
    assert one.detail.endswith("or override with --override-gates --reason")
    (before_too,) = gates.judge(Case(release(**lost), running=release(**lost)))
    assert before_too.verdict == alone.verdict  # nor did the one that runs


@pytest.mark.parametrize(("gate", "lost"), LOST)
def test_a_set_may_say_that_a_gate_must_apply(release, gate, lost):
    gates = GateSet(gates=(gate,), must_apply=(gate.name,))
    assert verdicts(gates, release()) == {gate.name: "passed"}
    (one,) = gates.judge(Case(release(**lost)))
    assert one.verdict == "refused"
    assert "the gate set says that it must apply" in one.detail


def test_only_the_subgroups_that_the_running_release_was_judged_by_are_required(release):
    referred = row(answered=0.0, reported=0.0, reported_risk=None)
    before, now = figures(light=row(), dark=referred), figures(light=row(), dark=referred, third=referred)
    (one,) = GateSet(gates=(RiskGate(),)).judge(Case(release(now), running=release(before)))
    assert one.verdict == "passed"
    lost = figures(light=referred, dark=row(), third=referred)
    (one,) = GateSet(gates=(RiskGate(),)).judge(Case(release(lost), running=release(before)))
    refused = {finding.subgroup for finding in one.findings if finding.verdict == "refused"}
    assert (one.verdict, refused) == ("refused", {"light"})


def test_with_everything_left_out_the_default_still_judges(release):
    """No label, subgroup or guarantee: `min_answer_rate` applies, and where it passes so does `risk`."""
    evading = {"labels": BENIGN, "conformal": Conformal()}
    always = {"min_answer_rate", "risk"}
    judged = verdicts(DEFAULT, release(row(), **evading))
    assert {name for name, verdict in judged.items() if verdict == "passed"} == always
    assert always <= set(refused_by(DEFAULT, release({}, **evading)))
    referred = verdicts(DEFAULT, release(row(answered=0.0, reported=0.0, reported_risk=None), **evading))
    assert (referred["min_answer_rate"], referred["risk"]) == ("refused", "not applicable")


# Which gates let a release through, and what those of today say of it.


@pytest.fixture
def unfair(registry, bundle, tested):
    """Release 1, of an unfair version, let through by a set that was loosened for it."""
    registry.add([bundle(metrics=tested(light=0.9, dark=0.7))])
    registry.set_gates(GateSet(gates=(SpreadGate(limit=0.9),)), reason="for a day", model=MODEL)
    registry.promote(MODEL, [1], to="production")
    return registry


STRICT = GateSet(gates=(SpreadGate(limit=0.01),))


@pytest.mark.sqlite
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
    told = "release 1 was let through by gate set 1 of skin-lesion (set by tester at "
    assert found.sentence.startswith(told)
    assert "for a day); in force now is gate set 2 of skin-lesion (set by tester at " in found.sentence
    report = unfair.judge_again(MODEL, alias="production")
    assert [(one.gate, one.verdict) for one in report.results] == [("spread", "refused")]
    assert report.set_number == 2
    assert unfair.compare(MODEL, [1], to="production").warnings == (found.sentence,)


@pytest.mark.sqlite
def test_a_set_for_the_alias_is_in_force_there_alone(unfair):
    unfair.promote(MODEL, [1], to="staging")
    unfair.set_gates(STRICT, reason="t", model=MODEL, alias="production")
    found = unfair.let_through(MODEL, "production")
    assert (found.differs, found.in_force.alias) == (True, "production")
    assert not unfair.let_through(MODEL, "staging").differs


@pytest.mark.sqlite
def test_a_set_of_the_same_number_for_all_models_is_another(unfair, bundle, tested):
    unfair.add([bundle(model="other", metrics=tested(light=0.9, dark=0.7))])
    unfair.set_gates(GateSet(gates=(SpreadGate(limit=0.8),)), reason="t")
    unfair.promote("other", [1], to="production")
    unfair.set_gates(STRICT, reason="t", model="other")
    found = unfair.let_through("other", "production")
    assert (found.asked.number, found.in_force.number, found.differs) == (1, 1, True)


@pytest.mark.sqlite
def test_gates_that_became_again_what_they_were_ask_the_same(registry, bundle, tested):
    """Also those of the beginning, whose digest only the event that replaced them holds."""
    registry.add([bundle(metrics=tested(light=0.9, dark=0.7))])
    registry.promote(MODEL, [1], to="production", override_gates=True, reason="t")
    registry.set_gates(STRICT, reason="t")
    assert registry.let_through(MODEL, "production").differs
    registry.set_gates(DEFAULT, reason="t")
    assert not registry.let_through(MODEL, "production").differs


@pytest.mark.sqlite
def test_today_it_is_compared_with_what_it_replaced_and_its_approvals_count(unfair, person, bundle, tested):
    anna, unfair = person("anna", "approver"), person("olga")
    unfair.add([bundle(metrics=tested(light=0.5, dark=0.5))])
    anna.approve(MODEL, [2], to="production")
    unfair.promote(MODEL, [2], to="production")
    gates = (NonInferiorityGate(delta=0.1, metrics=("accuracy",)), ApprovalsGate(people=1))
    unfair.set_gates(GateSet(gates=gates), reason="t", model=MODEL)

    def today():
        report = unfair.judge_again(MODEL, alias="production")
        return [one.verdict for one in report.results]

    assert today() == ["refused", "passed"]
    unfair.rollback(MODEL, alias="production")
    assert today() == ["not applicable", "refused"]


@pytest.mark.sqlite
def test_gates_that_cannot_be_asked_keep_nothing_from_being_shown(unfair, command, places):
    places.tamper("""UPDATE gate_sets SET content = '{"gates": [{"name": "gone"}]}'""")
    ended = command("show", MODEL)
    assert ended.code == 0
    assert "what today's gates say of it is not known: " in ended.out
