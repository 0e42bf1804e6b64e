import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.bundle.cases import read_given, read_pattern
from registry.bundle.conclusions import Conclusions, NodeRule
from registry.bundle.counting import count
from registry.bundle.counts import Thresholds
from registry.bundle.decision import Help, decide, would_help
from registry.bundle.errors import GraphError
from registry.bundle.labels import Label, Subgroup
from registry.bundle.manifest import Conformal, KindMissed, WorkingPoint
from registry.bundle.score_bins import SCORE_BINS
from tests.case_bundles import CASE, PATTERNS, case_bundle, rules
from tests.measured import evaluation_of
from tests.represented import patients_of
from tests.thresholds import at_log_odds, triage

DARK = Subgroup(name="dark", scale="fitzpatrick", values=("5", "6"))
FOR_DARK = Conformal(alpha=0.1, threshold_bin=at_log_odds(-1.5), n=412, guarantee="subgroup")
PROBABILITIES = np.array([0.25, 0.62, 0.13])  # MEL, NV, AK


def test_the_answer_in_the_shape_that_was_promised(manifest):
    answer = decide(np.array([0.62, 0.25, 0.13]), manifest()).to_json()
    assert json.loads(json.dumps(answer)) == answer
    assert answer["decision"] == "report"
    assert [finding["code"] for finding in answer["findings"]] == ["MEL", "NV", "AK"]
    assert answer["findings"][0] == {
        "code": "MEL",
        "name": "Melanoma",
        "malignancy": "malignant",
        "probability": 0.62,
        "coding": {"icd10": "C43.9"},
    }
    assert answer["prediction_set"] == {
        "codes": ["MEL", "NV"],
        "coverage": 0.9,
        "guarantee": "global",
        "calibration_n": 412,
    }
    assert (answer["conclusion"]["code"], answer["conclusion"]["probability"]) == ("MEL", 0.62)
    assert set(answer) == {
        "triage",
        "triage_evidence",
        "conclusion",
        "decision",
        "findings",
        "prediction_set",
        "malignancy",
        "warnings",
    }


def test_a_class_of_unknown_kind_beside_malignant_ones_is_a_warning(manifest):
    labels = (Label(code="MEL", name="m", malignancy="malignant"), Label(code="X", name="x"))
    assert any(
        "leaves out X" in said for said in decide(np.array([0.7, 0.3]), manifest(labels=labels)).warnings
    )


@pytest.mark.parametrize(("highest", "reported"), [(0.5621, False), (0.5622, True), (0.6, True)])
def test_below_the_threshold_it_refers(manifest, highest, reported):
    probabilities = np.array([highest, 1 - highest - 0.01, 0.01])
    assert decide(probabilities, manifest()).reported is reported


def test_a_model_that_was_not_calibrated_refers_even_certainty(manifest):
    decision = decide(np.array([1.0, 0, 0]), manifest(conformal=Conformal(), conclusions=Conclusions()))
    assert not decision.reported
    assert decision.in_set == ("MEL", "NV", "AK")
    assert decision.guarantee == "none"
    assert any("Too few" in said for said in decision.warnings)


@pytest.mark.parametrize(
    ("tone", "scale", "guarantee", "codes", "warned"),
    [
        ("5", "fitzpatrick", "subgroup", ("NV", "MEL"), None),
        ("2", "fitzpatrick", "none", ("NV", "MEL", "AK"), "not calibrated for 2 (fitzpatrick)"),
        ("5", "monk", "none", ("NV", "MEL", "AK"), "not calibrated for 5 (monk)"),
        (None, None, "none", ("NV", "MEL", "AK"), "an undeclared tone"),
    ],
)
def test_a_subgroup_model_promises_only_to_its_own_tones(manifest, tone, scale, guarantee, codes, warned):
    whole = manifest(subgroup=DARK, conformal=FOR_DARK)
    decision = decide(PROBABILITIES, whole, skin_tone=tone, skin_tone_scale=scale)
    assert (decision.guarantee, decision.in_set) == (guarantee, codes)
    assert decision.warnings == () if warned is None else any(warned in said for said in decision.warnings)


def test_the_global_model_says_whom_it_answers_for(manifest):
    undeclared = decide(PROBABILITIES, manifest())
    declared = decide(PROBABILITIES, manifest(), skin_tone="5", skin_tone_scale="fitzpatrick")
    assert "No skin tone was declared" in undeclared.warnings[0]
    assert "nothing is promised for skin tone 5" in declared.warnings[0]
    assert undeclared.guarantee == declared.guarantee == "global"


def test_with_an_empty_set_a_warning_says_so(manifest):
    strict = manifest(
        conformal=Conformal(alpha=0.4, threshold_bin=at_log_odds(1.5), n=412, guarantee="global")
    )
    decision = decide(PROBABILITIES, strict)
    assert decision.in_set == ()
    assert any("No class is likely enough" in said for said in decision.warnings)


def working_point(threshold_bin):
    return WorkingPoint(
        target=0.95, level=0.95, threshold_bin=threshold_bin, sensitivity_low=0.96, n=80, reached=True
    )


FIGURES = {"sensitivity_at_threshold": 0.9, "specificity_at_threshold": 0.6, "n_malignant": 40, "n_other": 60}


@pytest.mark.parametrize(
    ("probabilities", "above", "held_back"),
    [
        ([0.25, 0.62, 0.13], True, True),
        ([0.15, 0.72, 0.13], False, False),
        ([0.62, 0.25, 0.13], True, False),  # the answer is malignant
    ],
)
def test_what_is_suspicious_and_not_answered_as_malignant_comes_with_a_warning(
    manifest, probabilities, above, held_back
):
    whole = manifest(working_point=working_point(at_log_odds(-1.5)), evaluation=evaluation_of(FIGURES))
    assert not decide(np.array(probabilities), manifest()).held_back, "without a working point"
    decision = decide(np.array(probabilities), whole)
    assert decision.held_back is held_back
    assert decision.reported is (probabilities[0] > 0.6)
    assert decision.malignancy.above is above
    assert (
        any("not ruled out, and the picture is referred" in said for said in decision.warnings) is held_back
    )
    assert decision.to_json()["malignancy"] == {
        "probability": probabilities[0],
        "threshold": pytest.approx(1 / (1 + np.exp(1.5))),
        "above": above,
        "sensitivity": 0.9,
        "specificity": 0.6,
        "n": 40,
    }


@pytest.mark.parametrize(
    ("tone", "figures"), [("5", [0.5, 0.7, 8]), ("2", [0.9, 0.6, 40]), (None, [0.9, 0.6, 40])]
)
def test_figures_at_the_working_point_are_of_the_subgroup_where_the_model_was_tested_on_it(
    manifest, tone, figures
):
    dark = {"sensitivity_at_threshold": 0.5, "specificity_at_threshold": 0.7, "n_malignant": 8, "n_other": 10}
    histograms = {"confidence": (0,) * SCORE_BINS, "scores": ((0,) * SCORE_BINS,) * 3}
    whole = manifest(
        working_point=working_point(at_log_odds(-1.5)),
        evaluation=evaluation_of({**FIGURES, "by_subgroup": {"dark": dark}}),
        reference={**histograms, "by_subgroup": [{**histograms, "subgroup": DARK}]},
    )
    scale = "fitzpatrick" if tone else None
    said = decide(PROBABILITIES, whole, skin_tone=tone, skin_tone_scale=scale).malignancy
    assert [said.sensitivity, said.specificity, said.n] == figures


def test_a_subgroups_figures_are_told_to_nobody_else(manifest):
    whole = manifest(
        subgroup=DARK,
        conformal=FOR_DARK,
        evaluation=evaluation_of(FIGURES),
        working_point=working_point(at_log_odds(-1.5)),
    )
    own, other = (
        decide(PROBABILITIES, whole, skin_tone=tone, skin_tone_scale="fitzpatrick").malignancy
        for tone in ("6", "1")
    )
    assert (own.sensitivity, own.n) == (0.9, 40)
    assert (other.sensitivity, other.specificity, other.n, other.above) == (None, None, None, True)


@given(
    seed=st.integers(0, 2**32),
    in_set_from=st.integers(0, 200),
    concluded_from=st.integers(100, 200),
    suspicious_from=st.integers(100, 200),
    ruled_out_below=st.integers(0, 200),
    urgent_from=st.integers(100, SCORE_BINS),
    malignant=st.integers(1, 11),
)
@settings(max_examples=40, deadline=None)
def test_what_is_decided_is_what_was_counted(
    manifest,
    predictions,
    seed,
    in_set_from,
    concluded_from,
    suspicious_from,
    ruled_out_below,
    urgent_from,
    malignant,
):
    """Of however many classes: sets, conclusions, triage, sensitivity and specificity."""
    labels = tuple(
        Label(code=f"C{k}", name=f"c{k}", malignancy="malignant" if k < malignant else "benign")
        for k in range(12)
    )
    kinds = [KindMissed(kind=f"c{k}", n=113, missed=4, high=0.08) for k in range(malignant)]
    probabilities, truth = predictions(seed, 40, 12)
    probabilities = probabilities.astype(np.float32)
    whole = manifest(
        labels=labels,
        conformal=Conformal(alpha=0.1, threshold_bin=in_set_from, n=99, guarantee="global"),
        working_point=working_point(suspicious_from),
        triage=triage(None, *kinds).model_copy(
            update={"ruled_out_below": ruled_out_below, "urgent_from": urgent_from}
        ),
        conclusions=Conclusions(
            nodes=tuple(
                NodeRule(level=level, code=code, threshold_bin=concluded_from, n=60, wrong=0, risk_high=0.09)
                for level, code in (("diagnosis", "C0"), ("diagnosis", "C11"), ("malignancy", "malignant"))
            )
        ),
    )
    decisions = [decide(row, whole) for row in probabilities]
    nodes = tuple(whole.conclusions.thresholds(whole.tree).tolist())
    thresholds = Thresholds(in_set_from, suspicious_from, ruled_out_below, urgent_from, nodes)
    counted = count(
        probabilities,
        truth,
        malignant=np.arange(12) < malignant,
        thresholds=thresholds,
        concluded=whole.tree.count(probabilities, truth, np.arange(12) < malignant, thresholds),
    ).decisions
    said = [decision.reported for decision in decisions]
    levels = [one.triage.level for one in decisions]
    wrong = [
        one.conclusion is not None and k not in one.conclusion.node.classes
        for one, k in zip(decisions, truth, strict=True)
    ]
    above = np.array([decision.malignancy.above for decision in decisions])
    assert counted.covered.x[0] == sum(f"C{k}" in one.in_set for one, k in zip(decisions, truth, strict=True))
    assert counted.set_sizes.x[0] == sum(len(decision.in_set) for decision in decisions)
    assert counted.reported.x[0] == sum(said)
    assert counted.answered.x[0] == sum(
        done or level != "routine" for done, level in zip(said, levels, strict=True)
    )
    assert counted.wrong.x[0] == sum(np.array(wrong) & np.array(said))
    assert counted.suspicious.x[0] == above[truth < malignant].sum()
    assert counted.cleared.x[0] == (~above[truth >= malignant]).sum()


@pytest.mark.parametrize(
    "probabilities", [np.array([0.5, 0.5]), np.array([[0.2, 0.3, 0.5]]), np.array([np.nan] * 3)]
)
def test_what_is_no_answer_is_refused(manifest, probabilities):
    with pytest.raises(GraphError, match="one finite number for each of the 3 labels"):
        decide(probabilities, manifest())


@pytest.mark.parametrize(
    ("pattern", "in_set", "reported"),
    [
        ("close-up", ["MEL", "NV", "AK"], False),
        ("close-up+dermoscopic", ["MEL", "NV"], True),
        ("dermoscopic+context", ["MEL", "NV", "AK"], False),
    ],
)
def test_the_rules_of_what_is_given_decide(pattern, in_set, reported):
    manifest = case_bundle().manifest
    decision = decide(np.array([0.62, 0.29, 0.09]), manifest, pattern=read_pattern(pattern))
    assert list(decision.in_set) == in_set
    assert decision.reported is reported
    rules = manifest.rules_of(read_pattern(pattern))
    assert (decision.guarantee == "none") is (rules is None)
    assert decision.set_calibrated_on == (412 if rules is None else 90)


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("dermoscopic+context", "not calibrated on dermoscopic pictures with all facts"),
        ("unknown", "of what kind each picture is: close-up or dermoscopic"),
        ("close-up", None),
    ],
)
def test_what_was_not_calibrated_promises_nothing_and_says_so(pattern, said):
    warnings = " ".join(decide(PROBABILITIES, case_bundle().manifest, pattern=read_pattern(pattern)).warnings)
    assert said is None or said in warnings
    assert ("promises nothing" in warnings) is (said is not None)
    assert ("of what kind" in warnings) is (pattern == "unknown")


def test_a_pattern_of_too_few_cases_is_told_from_one_that_was_not_looked_at():
    few = PATTERNS[0].model_copy(update={"conformal": Conformal(n=5)})
    decision = decide(PROBABILITIES, case_bundle(patterns=(few,)).manifest, pattern=read_pattern("close-up"))
    assert any("Too few cases of close-up pictures without facts" in said for said in decision.warnings)


FEW = KindMissed(kind="Melanoma", n=12, missed=0, high=0.23)
OWN = {"subgroup": DARK, "conformal": FOR_DARK, "patients_by_tone": patients_of(DARK)}
FOUND = np.array([0.05, 0.9, 0.05])
"""Probabilities that are ruled out by `triage()`."""


@pytest.mark.parametrize(
    ("rules", "parts", "tone", "pattern", "level", "warned"),
    [
        (triage(), {}, None, None, "ruled-out", None),
        (triage(), OWN, "V", None, "ruled-out", None),
        (triage(), {}, "V", None, "routine", "for skin tone V (fitzpatrick): this version has not shown"),
        (triage(), OWN, "2", None, "routine", "for skin tone 2 (fitzpatrick): this version has not shown"),
        (triage(), OWN, None, None, "routine", "where no skin tone is declared: this version has not shown"),
        (triage(None, FEW), OWN, "V", None, "routine", "lesions of Melanoma (12) to show that at most 10 %"),
        (triage(None), OWN, "V", None, "routine", ": no threshold is low enough to show"),
        (
            triage(None).model_copy(update={"kinds": ()}),
            OWN,
            "V",
            None,
            "routine",
            "lesions of a kind of malignancy to show",
        ),
        (
            triage(),
            {},
            None,
            "dermoscopic+context",
            "routine",
            ": the model was not calibrated on dermoscopic",
        ),
        (None, {}, "V", None, None, None),
    ],
)
def test_why_nothing_is_ruled_out_is_a_warning(manifest, rules, parts, tone, pattern, level, warned):
    scale = tone and "fitzpatrick"
    made = (case_bundle().manifest if pattern else manifest(**parts)).model_copy(update={"triage": rules})
    decision = decide(
        FOUND, made, pattern=pattern and read_pattern(pattern), skin_tone=tone, skin_tone_scale=scale
    )
    assert (decision.triage and decision.triage.level) == level
    said = [one for one in decision.warnings if one.startswith("No lesion is ruled out")]
    assert len(said) == (warned is not None)
    assert warned is None or warned in said[0]


@pytest.mark.parametrize("urgent_from", [200, SCORE_BINS])
def test_why_no_lesion_is_urgent_is_a_warning(manifest, urgent_from):
    rules = triage().model_copy(update={"urgent_from": urgent_from})
    said = decide(FOUND, manifest().model_copy(update={"triage": rules})).warnings
    assert any(one.startswith("No lesion is called urgent") for one in said) is (urgent_from == SCORE_BINS)


ALL = {"age": "70", "sex": "male", "site": "trunk"}


def helps(kinds, facts, **parts):
    manifest = case_bundle(**parts).manifest
    return would_help(read_given(CASE, kinds, facts), manifest)


@pytest.mark.parametrize(
    ("kinds", "facts", "expected"),
    [
        (["close-up"], {}, (Help(("dermoscopic",), 0.9, 0.3), Help(("age", "sex", "site"), 0.5, 0.15))),
        (["close-up"], {"age": "70"}, (Help(("dermoscopic",), 0.6, 0.2), Help(("sex", "site"), 0.2, 0.05))),
        (["close-up", "dermoscopic"], ALL, ()),
        (["dermoscopic"], {}, (Help(("close-up",), 0.5, 0.2),)),  # with facts it was not calibrated
        ([None], {}, ()),
    ],
)
def test_the_best_of_what_is_missing_comes_first_with_what_it_brought_in_calibration(kinds, facts, expected):
    assert helps(kinds, facts) == expected


def test_from_what_promises_nothing_every_class_is_spared():
    none = rules("close-up", -3, 1, 2.4, 0.4).model_copy(update={"set_size": None, "reported": None})
    patterns = (none, rules("close-up+dermoscopic", -2, 0.25, 1.25, 0.7))
    assert helps(["close-up"], {}, patterns=patterns) == (Help(("dermoscopic",), 1.8, 0.7),)
