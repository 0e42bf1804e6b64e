"""A gate that does not apply has judged nothing: nobody gets past one by leaving labels or figures out."""

import pytest

from registry.bundle.evaluation import ReferenceHistograms, SubgroupHistograms
from registry.bundle.labels import Label
from registry.bundle.manifest import Conformal
from registry.errors import GateSetInvalid
from registry.gate_report import GateReport
from registry.gates import DEFAULT, Case, GateSet, SpreadGate, read_gate_set
from registry.gates.coverage import CoverageGate
from registry.gates.gate_set import gate_set_of, gate_set_text
from registry.gates.required_subgroups import RequiredSubgroupsGate
from registry.gates.threshold import RiskGate, ShownSensitivityGate, WorstMalignantSensitivityGate
from tests.registry.conftest import tones_of

CANCER = (
    Label(code="MEL", name="Melanoma", malignancy="malignant"),
    Label(code="NV", name="Naevus", malignancy="benign"),
)
BENIGN = tuple(label.model_copy(update={"malignancy": "benign"}) for label in CANCER)
UNKNOWN = tuple(label.model_copy(update={"malignancy": "unknown"}) for label in CANCER)
PROMISE = Conformal(alpha=0.1, threshold_bin=20, n=100, guarantee="global")
SENSITIVITY = 0.95
OF_MALIGNANCY = [
    WorstMalignantSensitivityGate(limit=0.8),
    ShownSensitivityGate(limit=0.5),
    RequiredSubgroupsGate(malignant=20),
]


def row(**changes):
    """Good figures of 120 pictures."""
    return {
        "n": 120, "n_malignant": 60, "n_other": 60, "accuracy": 0.9, "balanced_accuracy": 0.9,
        "malignant_sensitivity": SENSITIVITY, "reported": 0.8, "reported_risk": 0.05, "coverage": 0.92,
    } | changes  # fmt: skip


def figures(**rows):
    """Those of a release, by subgroup."""
    rows = rows or {"light": row(), "dark": row()}
    return {**row(n=120 * len(rows), n_malignant=60 * len(rows), n_other=60 * len(rows)), "by_subgroup": rows}


@pytest.fixture
def release(bundle):
    """A release of one version with these figures."""

    def make(metrics=None, **parts):
        parts = {"labels": CANCER, "conformal": PROMISE, **parts}
        return (bundle(metrics=figures() if metrics is None else metrics, **parts).manifest,)

    return make


def verdicts(gates, case):
    return {one.gate: one.verdict for one in gates.judge(case)}


def test_an_honest_release_passes_and_says_what_was_not_judged(release):
    results = DEFAULT.judge(Case(release()))
    report = GateReport(results=results)
    assert not report.refused
    assert report.not_judged == (
        "tones: no subgroup of the release names a skin tone",
        "no_worse: no release runs under this alias yet, so nothing can get worse",
    )
    assert not GateReport(results=DEFAULT.judge(Case(release(), running=release()))).refused


@pytest.mark.parametrize("gate", OF_MALIGNANCY, ids=lambda gate: gate.name)
@pytest.mark.parametrize(
    ("labels", "verdict"), [(CANCER, "passed"), (BENIGN, "not applicable"), (UNKNOWN, "refused")]
)
def test_labels_of_which_nobody_said_are_no_way_around(release, gate, labels, verdict):
    one = gate.judge(Case(release(labels=labels)))
    assert one.verdict == verdict
    if verdict == "refused":
        assert "of MEL, NV nobody said whether they are" in one.detail
        assert one.detail.endswith("or override with --override-gates --reason")


@pytest.mark.parametrize(
    ("gate", "lost"),
    [
        *((gate, {"labels": BENIGN}) for gate in OF_MALIGNANCY),
        (SpreadGate(), {"metrics": row()}),
        (SpreadGate(), {"metrics": figures(light=row())}),
        (CoverageGate(slack=0.1), {"conformal": Conformal()}),
        (RiskGate(), {"metrics": figures(light=row(), dark=row(reported=0.0, reported_risk=None))}),
    ],
    ids=["worst", "shown", "required", "no subgroup", "one subgroup", "no promise", "nobody answered"],
)
def test_what_the_running_release_was_held_to_holds(release, gate, lost):
    """Each of these let a release pass that said less than the one before."""
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


def test_with_everything_left_out_the_default_still_judges(release):
    """No label, subgroup or promise: `answered` applies to everybody, and where it passes so does `risk`."""
    evading = {"labels": BENIGN, "conformal": Conformal()}
    judged = verdicts(DEFAULT, Case(release(row(), **evading)))
    assert {name for name, verdict in judged.items() if verdict == "passed"} == {"answered", "risk"}
    nothing = verdicts(DEFAULT, Case(release({}, **evading)))
    assert {"answered", "risk"} <= {name for name, verdict in nothing.items() if verdict == "refused"}
    referred = verdicts(DEFAULT, Case(release(row(reported=0.0, reported_risk=None), **evading)))
    assert (referred["answered"], referred["risk"]) == ("refused", "not applicable")


@pytest.mark.parametrize(
    ("gate", "lost"),
    [
        (ShownSensitivityGate(limit=0.5), {"labels": BENIGN}),
        (SpreadGate(), {"metrics": row()}),
        (CoverageGate(slack=0.1), {"conformal": Conformal()}),
    ],
    ids=lambda given: getattr(given, "name", ""),
)
def test_a_set_may_say_that_a_gate_must_apply(release, gate, lost):
    gates = GateSet(gates=(gate,), must_apply=(gate.name,))
    assert verdicts(gates, Case(release())) == {gate.name: "passed"}
    (one,) = gates.judge(Case(release(**lost)))
    assert one.verdict == "refused"
    assert "the gate set says that it must apply" in one.detail


def test_must_apply_is_written_read_and_checked():
    gates = GateSet(gates=(SpreadGate(),), must_apply=("spread",))
    assert read_gate_set(gate_set_text(gates)) == gates
    assert gate_set_of(gates.model_dump(mode="json")) == gates
    assert "must_apply" not in DEFAULT.model_dump(mode="json")  # sets that name none are kept as ever
    with pytest.raises(GateSetInvalid, match="must_apply names coverage; the gates of the set are spread"):
        read_gate_set("{gates: [{name: spread}], must_apply: [coverage]}")
    with pytest.raises(GateSetInvalid, match="did you mean `must_apply`"):
        read_gate_set("{gates: [{name: spread}], must_aply: [spread]}")


@pytest.fixture
def over(release):
    """A release whose test names a subgroup `dark` over these tones."""

    def make(*tones, name="dark"):
        counts = {"confidence": [0] * 320, "scores": [[0] * 320] * 2}
        tested = SubgroupHistograms(subgroup=tones_of(name, *tones), **counts)
        reference = ReferenceHistograms(by_subgroup=(tested,), **counts)
        return release(figures(light=row(), **{name: row()}), reference=reference)

    return make


ASKED = RequiredSubgroupsGate(malignant=20, tones={"dark": {"fitzpatrick": ("5", "6")}})


@pytest.mark.parametrize(
    ("tones", "name", "verdict"),
    [
        (("5", "6"), "dark", "passed"),
        (("4", "5", "6"), "dark", "passed"),
        (("V", "VI"), "dark", "passed"),
        (("6",), "dark", "refused"),
        (("1", "2"), "dark", "refused"),
        (("5", "6"), "Dark", "refused"),
        (("5", "6"), "dark ", "refused"),
    ],
)
def test_a_name_does_not_stand_for_other_tones(over, tones, name, verdict):
    one = ASKED.judge(Case(over(*tones, name=name)))
    assert one.verdict == verdict
    if tones == ("1", "2"):
        assert "subgroup dark is over 1, 2 (fitzpatrick), and is asked for over 5, 6" in one.detail


def test_a_subgroup_keeps_the_tones_that_it_has_in_the_running_release(over, release):
    gate = RequiredSubgroupsGate(malignant=20)
    assert gate.judge(Case(over("1", "2"))).verdict == "passed"
    assert gate.judge(Case(over("5", "6"), running=over("V", "VI"))).verdict == "passed"
    one = gate.judge(Case(over("1", "2"), running=over("5", "6")))
    assert one.verdict == "refused"
    assert "dark is over 1, 2 (fitzpatrick), and over 5, 6 (fitzpatrick) in the running release" in one.detail
    assert ASKED.judge(Case(release())).verdict == "refused"  # no tones are told
