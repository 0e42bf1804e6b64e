"""What a promoter reads before promoting: subgroup, version, figures of both releases, gates."""

import pytest

from registry.bundle.labels import Label, Subgroup
from registry.errors import GateRefusal, NotFound, ReleaseRefused
from registry.gates import GateSet, SpreadGate
from registry.gates.running import NonInferiorityGate
from registry.gates.threshold import CountGate, ParityGate
from registry.releases.compare import darkness
from registry.views.changes import comparison_text
from registry.views.records import event_lines
from tests.measured import of_kind

pytestmark = pytest.mark.sqlite  # queries on both databases are asked elsewhere

MODEL = "skin-lesion"
GATES = GateSet(
    gates=(NonInferiorityGate(delta=0.1, metrics=("malignant_sensitivity",)), SpreadGate(limit=0.3))
)


def row(n_malignant, n_other, sensitivity, accuracy=0.7):
    ends = {} if sensitivity is None else {"malignant_sensitivity": [sensitivity - 0.1, 0.99]}
    return {
        "n": n_malignant + n_other,
        "n_malignant": n_malignant,
        "n_other": n_other,
        "malignant_sensitivity": sensitivity,
        "malignant_specificity": 0.75,
        "sensitivity_at_threshold": sensitivity,
        "malignancy_auroc": None if sensitivity is None else 0.8,
        "balanced_accuracy": 0.7,
        "accuracy": accuracy,
        "intervals": ends,
    }


@pytest.fixture
def running(registry, bundle, dark, monkeypatch):
    """Release 1: version 1 for everybody, 2 for dark; version 3 for dark is worse there than both."""
    # Made to be read: no pictures have just these figures.
    monkeypatch.setattr("registry.releases.add.check_counts", lambda *_: None)
    everybody = {"n": 112, "by_subgroup": {"light": row(10, 12, 0.9), "dark": row(21, 79, 0.333)}}
    registry.add(
        [
            bundle(metrics=everybody),
            bundle(dark, {"by_subgroup": {"dark": row(20, 80, 0.857)}}),
            bundle(dark, {"by_subgroup": {"dark": row(20, 70, 0.8, 0.6)}}, seed=1),
        ]
    )
    registry.set_gates(GATES, reason="a test")
    registry.promote(MODEL, [1, 2], to="production")
    return registry


def by_name(found):
    return {one.subgroup: one for one in found.subgroups}


def figures(one):
    return {figure.figure: figure for figure in one.figures}


def test_a_gate_on_each_version_tells_the_global_one_too(running):
    running.set_gates(GateSet(gates=(ParityGate(limit=1.0),)), reason="each version")
    found = by_name(running.compare(MODEL, [3], to="production"))
    assert set(found) == {"global", "dark", "light"}
    assert (found["global"].running.version, found["global"].candidate.version) == (1, 1)


def test_each_subgroup_is_told_with_both_versions_and_figures_the_darkest_first(running):
    found = running.compare(MODEL, [3], to="production")
    assert [one.subgroup for one in found.subgroups] == ["dark", "light"]
    dark, light = found.subgroups
    assert (dark.running.version, dark.candidate.version, dark.version_changes) == (2, 3, True)
    assert (light.running.version, light.candidate.version, light.version_changes) == (1, 1, False)
    assert (dark.running.own, light.running.own) == (True, False)
    assert (dark.running.n_malignant, dark.running.n_other) == (20, 80)
    assert (dark.candidate.n_malignant, dark.candidate.n_other) == (20, 70)
    assert [one.figure for one in dark.figures] == [
        "malignant_sensitivity",
        "sensitivity_at_threshold",
        "malignant_specificity",
        "malignancy_auroc",
        "balanced_accuracy",
    ]
    first = dark.figures[0]
    assert (first.running.value, first.candidate.value) == (0.857, 0.8)
    assert first.running.interval == (pytest.approx(0.757), 0.99)
    assert first.change == pytest.approx(-0.057)
    assert [one.figure for one in dark.figures if one.lost] == [
        "malignant_sensitivity",
        "sensitivity_at_threshold",
    ]
    assert not light.lost
    assert found.losses == ("dark: sensitivity", "dark: sensitivity at the working point")
    assert (found.release, found.running, found.candidate) == (1, (1, 2), (1, 3))
    assert not found.refused


def test_a_subgroup_that_was_never_tested_has_no_figures(running, bundle, dark):
    rows = {"by_subgroup": {"light": row(10, 12, 0.9)}}
    running.add([bundle(dark, rows, seed=2)])
    found = by_name(running.compare(MODEL, [4], to="production"))["dark"]
    assert (found.candidate.version, found.candidate.n) == (4, None)
    assert {one.candidate for one in found.figures} == {None}


def test_sensitivity_is_compared_by_kind(running, bundle, graph):
    """Melanomas are lost where the sensitivity of all malignant pictures is kept."""
    labels = (
        Label(code="MEL", name="melanoma", malignancy="malignant"),
        Label(code="BCC", name="basal", malignancy="malignant"),
        Label(code="SCC", name="squamous", malignancy="malignant"),
        Label(code="NV", name="naevus", malignancy="benign"),
    )
    for melanomas in (9, 4):
        kinds = {"melanoma": of_kind(10, found=melanomas), "basal": of_kind(30, found=30)}
        rows = {"light": {**row(60, 60, 0.9), "by_kind": kinds}}
        parts = {"labels": labels, "model": "kinds", "graph": graph(classes=4)}
        running.add([bundle(metrics={"by_subgroup": rows}, seed=melanomas, **parts)])
    running.set_gates(GateSet(gates=(SpreadGate(limit=1.0),)), reason="t")
    running.promote("kinds", [1], to="production")
    found = running.compare("kinds", [2], to="production")
    told = {(one.figure, one.kind): one for one in found.subgroups[0].figures}
    lost = told["malignant_sensitivity", "melanoma"]
    assert list(told)[:3] == [("malignant_sensitivity", kind) for kind in (None, "melanoma", "basal")]
    assert (lost.running.n, lost.change, lost.lost) == (10, pytest.approx(-0.5), True)
    assert str(told["malignant_sensitivity", "squamous"].candidate) == "too few to tell"
    assert found.losses == ("light: sensitivity, melanoma",)
    assert "0.400 (0.122 to 0.738), n 10" in comparison_text(found)


def test_a_figure_or_a_subgroup_that_goes_is_a_loss(running, bundle):
    running.add(
        [bundle(metrics={"n": 12, "by_subgroup": {"light": row(0, 12, None)}, "absent": ["monk 10"]}, seed=7)]
    )
    running.set_gates(GateSet(gates=(CountGate(minimum=1),)), reason="t")
    found = running.compare(MODEL, [4], to="production", without=["dark"])
    light, dark = by_name(found)["light"], by_name(found)["dark"]
    told = figures(light)["malignant_sensitivity"]
    assert (told.lost, told.change, str(told.candidate)) == (True, None, "no malignant pictures")
    assert (dark.candidate, dark.running.version, dark.lost) == (None, 2, True)
    assert by_name(found)["monk 10"].gates[0].verdict == "refused"
    text = comparison_text(found)
    assert "GONE" in text
    assert "nobody" in text


def test_a_running_release_that_cannot_be_read_is_said_and_keeps_nothing_out(running, places):
    places.spoil(running.version(MODEL, 2).digest)
    running.set_gates(GateSet(gates=(SpreadGate(limit=0.9),)), reason="t")
    found = running.compare(MODEL, [3], to="production")
    assert "bundle.json of version 2" in found.unreadable
    assert "cannot be read" in comparison_text(found)
    assert all(one.running is None for one in found.subgroups)
    assert running.promote(MODEL, [3], to="production").release == 2


@pytest.mark.parametrize(
    ("scale", "tones", "expected"),
    [
        ("fitzpatrick", ("VI",), 1.0),
        ("milk10k", ("0",), 1.0),
        ("milk10k", ("5",), 0.0),
        ("monk", ("1", "10"), 0.5),
        ("no scale", ("1",), 0.5),
    ],
)
def test_how_dark_a_subgroup_is(scale, tones, expected):
    assert darkness(Subgroup(name="one", scale=scale, values=tones)) == pytest.approx(expected)


def test_a_promotion_and_a_refusal_bring_the_comparison(running):
    with pytest.raises(GateRefusal) as refused:
        running.promote(MODEL, [], to="production", without=["dark"])
    assert refused.value.comparison == running.compare(MODEL, [], to="production", without=["dark"])
    expected = running.compare(MODEL, [3], to="production")
    done = running.promote_and_tell(MODEL, [3], to="production")
    assert (done.event.release, done.comparison) == (2, expected)
    again = running.promote_and_tell(MODEL, [3], to="production")
    assert (again.event, again.comparison) == (None, None)


def test_without_a_subgroup_the_global_version_answers_it(running):
    event = running.promote(
        MODEL, [], to="production", without=["dark", "dark"], override_gates=True, reason="it referred nobody"
    )
    assert (event.versions, event.details["without"]) == ((), ["dark"])
    assert "    without a version for: dark\n" in event_lines(event)
    release = running.release(MODEL, "production")
    assert [one.number for one in release.versions] == [1]
    assert release.for_subgroup("dark") is None
    assert running.verify() == ()
    running.rollback(MODEL, alias="production")
    assert [one.number for one in running.release(MODEL, "production").versions] == [1, 2]


def test_an_approval_is_for_the_release_without_it(running, person):
    from registry.gates.approval import ApprovalsGate

    anna, running = person("anna", "approver"), person("olga")
    running.set_gates(GateSet(gates=(ApprovalsGate(people=1),)), reason="t")
    with pytest.raises(GateRefusal, match=r"approve skin-lesion --without dark --to production --key FILE`"):
        running.promote(MODEL, [], to="production", without=["dark"])
    anna.approve(MODEL, [], to="production", without=["dark"])
    with pytest.raises(GateRefusal):
        running.promote(MODEL, [3], to="production")
    assert running.promote(MODEL, [], to="production", without=["dark"]).kind == "promoted"


@pytest.mark.parametrize(
    ("numbers", "without", "error", "text"),
    [
        ([], ["drak"], NotFound, "no subgroup 'drak' with a version of its own.*the nearest: dark"),
        ([1], ["light"], NotFound, "no subgroup 'light'"),
        ([], ["global"], ReleaseRefused, "cannot be without its version for everybody"),
        ([3], ["dark"], ReleaseRefused, "not both"),
        ([], [], ReleaseRefused, "no version of skin-lesion is named"),
    ],
)
def test_what_cannot_be_left_out(running, numbers, without, error, text):
    with pytest.raises(error, match=text):
        running.promote(MODEL, numbers, to="production", without=without)
    with pytest.raises(error, match=text):
        running.approve(MODEL, numbers, to="production", without=without)
