"""What differs between two versions, and the tables of comparisons and gates."""

from math import exp

import pytest

from registry.bundle.labels import Label
from registry.bundle.manifest import Conformal, Lineage
from registry.bundle.pictures.rule import PictureRule
from registry.gate_report import Comparison, GateFinding, GateReport, GateResult, GateSaid, SubgroupChange
from registry.records import Version, Withdrawal
from registry.views.changes import (
    FigureValue,
    changes,
    compare,
    comparison_text,
    difference_text,
    facts,
    figure_changes,
    gate_table,
)
from tests.case_bundles import case_bundle
from tests.measured import of_kind
from tests.thresholds import at_log_odds


def test_the_same_manifest_changes_nothing_and_figures_are_no_facts(bundle, tested):
    changed, unchanged = changes(bundle().manifest, bundle(metrics=tested(dark=0.5)).manifest)
    assert changed == ()
    said = {"lineage.seed", "labels.MEL.name", "picture.size", "file.sha256", "temperature.value"}
    assert said <= set(unchanged)
    assert not any(name.startswith("metrics") for name in unchanged)
    assert unchanged[:4] == ("schema_version", "model", "file.sha256", "file.size")


def test_everything_that_is_said_is_compared_in_its_direction(bundle, dark, graph):
    lineage = {"recipe": "fedavg", "data": {"north": "x"}, "seed": 3, "code_version": "0.2.0"}
    named = (("NV", "Naevus"), ("MEL", "Mel"), ("AK", "Ak"))
    other = {
        "lineage": Lineage(job="sha256:" + "1" * 64, parent="sha256:" + "2" * 64, **lineage),
        "labels": tuple(Label(code=code, name=name, malignancy="benign") for code, name in named),
        "picture": PictureRule(size=8, fit="crop"),
        "conformal": Conformal(alpha=0.2, threshold_bin=at_log_odds(-1.5), n=99, guarantee="subgroup"),
    }
    before, after = bundle().manifest, bundle(dark, graph=graph(name="another"), **other).manifest
    changed = {one.what: (one.before, one.after) for one in changes(before, after)[0]}
    assert len([what for what in changed if what.startswith("patients_by_tone.")]) == 44
    said = {
        what: both for what, both in changed.items() if what.startswith(("labels", "picture", "subgroup"))
    }
    assert said == {
        "labels.order": (["MEL", "NV", "AK"], ["NV", "MEL", "AK"]),
        "labels.NV.name": ("Nv", "Naevus"),
        "picture.fit": ("squash", "crop"),
        "subgroup.name": ("global", "dark"),
        "subgroup.scale": (None, "fitzpatrick"),
        "subgroup.values": ([], ["4", "5", "6"]),
    }
    lineage_said = [what.partition(".")[2] for what in changed if what.startswith("lineage.")]
    assert lineage_said == ["job", "recipe", "data", "seed", "parent", "code_version", "data.north"]
    assert (changed["lineage.data"], changed["lineage.data.north"]) == (({}, None), (None, "x"))
    assert changed["conformal.threshold"] == (0, pytest.approx(1 / (1 + exp(1.5))))


def test_a_model_of_cases_is_compared_by_fact_and_pattern(bundle):
    found = facts(case_bundle().manifest)
    assert found["case.facts.order"] == ["age", "sex", "site"]
    (name, *_) = found["patterns.order"]
    assert 0 <= found[f"patterns.{name}.conformal.threshold"] <= 1
    assert not any(name.startswith(("case", "patterns")) for name in facts(bundle().manifest))


def row(n, accuracy, *ends):
    return {"n": n, "accuracy": accuracy, "intervals": {"accuracy": list(ends) or None}}


def changes_of(bundle, before, after):
    found = figure_changes(bundle(metrics=before).manifest, bundle(metrics=after).manifest)
    return {(one.part, one.subgroup, one.figure): one for one in found}


def test_each_subgroup_is_set_side_by_side(bundle):
    rows = {"dark": row(40, 0.5, 0.3, 0.6), "light": row(50, 0.9)}
    before = {**row(90, 0.7, 0.6, 0.8), "by_subgroup": rows, "fairness": {"spread": 0.4}}
    after = {**row(95, 0.8, 0.7, 0.9), "by_subgroup": {"dark": row(44, 0.75, 0.65, 0.85)}}
    found = changes_of(bundle, before, after)
    everybody, dark, light, *fairness = found.values()
    assert list(found)[2:4] == [("subgroup", "light", "accuracy"), ("fairness", None, "variance")]
    assert (dark.before, dark.after) == (
        FigureValue(0.5, (0.3, 0.6), 40),
        FigureValue(0.75, (0.65, 0.85), 44),
    )
    assert (dark.difference, dark.overlap) == (pytest.approx(0.25), False)
    assert (everybody.difference, everybody.overlap) == (pytest.approx(0.1), True)
    assert (light.after, light.difference, light.overlap) == (FigureValue(None, None, None), None, None)
    assert fairness[3].before == FigureValue(pytest.approx(0.4), None, None)


KINDS = (
    Label(code="MEL", name="melanoma", malignancy="malignant"),
    Label(code="BCC", name="basal", malignancy="malignant"),
    Label(code="NV", name="naevus", malignancy="benign"),
)


def test_sensitivity_is_set_side_by_side_by_kind(bundle):
    def made(number, **kinds):
        row = {"n": 120, "n_malignant": 60, "n_other": 60, "malignant_sensitivity": 0.9, "by_kind": kinds}
        one = bundle(metrics={"by_subgroup": {"dark": row}}, labels=KINDS)
        return Version("demo", number, one.digest, one.manifest.subgroup, None), one.manifest

    first, second = made(1, melanoma=of_kind(28, found=26)), made(2, melanoma=of_kind(28, found=14))
    found = {one.kind: one for one in figure_changes(first[1], second[1]) if one.subgroup == "dark"}
    assert (found["melanoma"].figure, found["melanoma"].after.n) == ("malignant_sensitivity", 28)
    assert (found["melanoma"].difference, found["melanoma"].overlap) == (pytest.approx(-12 / 28), False)
    assert found["basal"].before == FigureValue(None, None, None)
    text = difference_text(compare([first, second], [first[0], second[0]]))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "dark malignant sensitivity, basal too few to tell too few to tell unknown unknown" in lines


@pytest.mark.parametrize(
    ("before", "after", "overlap"),
    [
        ((0.1, 0.2), (0.2, 0.3), True),
        ((0.2, 0.3), (0.1, 0.2), True),
        ((0.1, 0.9), (0.4, 0.5), True),
        ((0.1, 0.2), (0.21, 0.3), False),
        ((0.21, 0.3), (0.1, 0.2), False),
        ((0.1, 0.2), (), None),
    ],
)
def test_intervals_overlap_where_they_have_a_value_in_common(bundle, before, after, overlap):
    first, second = (row(100, ends[0] if ends else 0.5, *ends) for ends in (before, after))
    found = changes_of(bundle, first, second)
    assert found["all", None, "accuracy"].overlap is overlap


def test_the_difference_of_two_versions_in_words(bundle, dark):
    first = bundle(metrics={"by_subgroup": {"dark": row(40, 0.5, 0.3, 0.6)}})
    lineage = first.manifest.lineage.model_copy(update={"parent": first.digest, "recipe": "r" * 70})
    second = bundle(dark, {"by_subgroup": {"dark": row(45, 0.75)}, "absent": ["light"]}, lineage=lineage)
    versions = [
        Version("demo", number, one.digest, one.manifest.subgroup, None)
        for number, one in enumerate((first, second), start=1)
    ]
    gone = Withdrawal("demo", 1, first.digest, "", "harm", None)
    pair = list(zip(versions, (first.manifest, second.manifest), strict=True))
    lines = [" ".join(line.split()) for line in difference_text(compare(pair, versions, [gone])).splitlines()]
    assert lines[:3] == [
        "demo: version 1 (global) -> version 2 (dark)",
        "version 2 (dark) began from version 1",
        "version 1 (global) is WITHDRAWN at : harm",
    ]
    assert f"lineage.parent none {first.digest[:19]}…" in lines
    assert f"lineage.recipe fedauto {'r' * 59}…" in lines
    assert lines[-1] == "dark accuracy 0.500 (0.300 to 0.600), n 40 0.750, n 45 +0.250 unknown"
    bare = [(version, bundle(metrics={}).manifest) for version in versions]
    same = difference_text(compare(bare, versions))
    assert "everything but figures is the same" in same
    assert "neither version has test figures" in same


def finding(**parts):
    return GateFinding(**{"subgroup": "dark", "measure": "loss", "verdict": "passed", **parts})


@pytest.mark.parametrize(
    ("parts", "told", "limit"),
    [
        ({}, "loss", ""),
        ({"value": 0.7154, "limit": 0.75, "bound": "at least"}, "loss 0.715", "at least 0.750"),
        ({"value": 11.0, "limit": 20}, "loss 11", "at most 20"),
        ({"value": 0, "limit": 20, "bound": "at least"}, "loss 0", "at least 20"),
        ({"value": 1.5}, "loss 1.500", ""),
        ({"value": 0.00012, "n": 7}, "loss 0.00012 (n 7)", ""),
        ({"value": 0, "interval": (-0.1, 0.2), "note": "why"}, "loss 0.000 (-0.100 to 0.200, why)", ""),
    ],
)
def test_a_finding_of_a_gate_in_words(parts, told, limit):
    results = [
        GateResult(gate="first", verdict="passed", findings=(finding(**parts),), detail="fine"),
        GateResult(gate="second", verdict="not applicable", detail="nothing to judge"),
    ]
    title, _, line, other, detail = gate_table(GateReport(results=tuple(results), set_number=3)).splitlines()
    assert title == "gate set 3 for all models"
    cells = [one.strip() for one in line.split("  ") if one.strip()]
    assert cells == ["first", *filter(None, ["dark", told, limit, "passed"])]
    assert (other.split()[0], detail) == ("second", "gate second: not applicable: nothing to judge")


def comparison(**parts):
    said = (GateSaid("a", "passed", "fine"), GateSaid("b", "refused", "why"), GateSaid("c", "passed", ""))
    one = SubgroupChange("release", None, None, True, (), said[:1], lost=False, refused=False)
    found = {
        "model": "demo", "alias": "production", "release": None, "named": (2,), "without": (), "running": (),
        "candidate": (2, 1), "changes_nothing": False, "unreadable": "", "warnings": ("mind it",),
        "subgroups": (one,), "gates": said, "losses": (), "refused": True, "report": GateReport(results=()),
    }  # fmt: skip
    return Comparison(**{**found, **parts})


OTHERWISE = {"release": 7, "without": ("dark",), "changes_nothing": True, "unreadable": "gone"}


@pytest.mark.parametrize(
    ("parts", "refusals", "first", "last"),
    [
        ({}, True, "nothing runs -> versions 1, 2", ["gate b: refused: why", "mind it", "no figure is lost"]),
        ({"losses": ("dark: ECE",)}, False, "nothing runs -> versions 1, 2", ["mind it", "LOSES: dark: ECE"]),
        (OTHERWISE, False, "release 7 -> versions 1, 2, without a version for dark",
         ["the running release cannot be read: gone", "mind it",
          "nothing would change: exactly this release runs"]),
    ],
)  # fmt: skip
def test_a_comparison_says_first_what_would_run_and_last_what_is_lost(parts, refusals, first, last):
    title, _, gates, lines = comparison_text(comparison(**parts), refusals=refusals).split("\n\n")
    assert (title, lines.splitlines()) == (f"demo, production: {first}", last)
    said = [" ".join(line.split()) for line in gates.splitlines()[1:]]
    assert said == ["release a", "release b a, c"]  # a subgroup may be called as the line of the whole
