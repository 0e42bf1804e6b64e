"""The gates that hold a figure of every subgroup against one limit, and `count`."""

import pytest

from registry.bundle.labels import Label
from registry.gates import Case
from registry.gates.threshold import (
    CalibrationGate,
    CountGate,
    WorstBalancedAccuracyGate,
    WorstMalignantSensitivityGate,
)

CANCER = (
    Label(code="MEL", name="Melanoma", malignancy="malignant"),
    Label(code="NV", name="Naevus", malignancy="benign"),
)
FIGURES = {
    "balanced_accuracy": WorstBalancedAccuracyGate,
    "malignant_sensitivity": WorstMalignantSensitivityGate,
    "ece": CalibrationGate,
}


@pytest.mark.parametrize("figure", FIGURES)
def test_the_worst_is_told_of_the_version_that_answers(bundle, told, dark, figure):
    everybody = bundle(metrics=told(figure, light=0.6, dark=0.1, medium=0.5), labels=CANCER).manifest
    own = bundle(dark, told(figure, dark=0.55, light=0.0), labels=CANCER).manifest
    result = FIGURES[figure](limit=0.5 if figure != "ece" else 0.6).judge(Case((everybody, own)))
    assert result.verdict == "passed"
    assert [(one.subgroup, one.value) for one in result.findings] == [
        ("dark", 0.55), ("light", 0.6), ("medium", 0.5),
    ]  # fmt: skip
    assert result.worst.subgroup == ("light" if figure == "ece" else "medium")
    assert result.value == result.worst.value


@pytest.mark.parametrize("figure", FIGURES)
@pytest.mark.parametrize("broken", [None, "0.9", True, 1.5, -0.1])
def test_a_subgroup_without_the_figure_was_never_tested(bundle, told, figure, broken):
    metrics = told(figure, light=0.5, dark=broken)
    result = FIGURES[figure](limit=0.5).judge(Case((bundle(metrics=metrics, labels=CANCER).manifest,)))
    assert (result.verdict, result.untested) == ("refused", ("dark",))
    assert "subgroup dark was never tested" in result.detail
    assert "Test dark, or override" in result.detail
    assert result.worst.subgroup == "light"


@pytest.mark.parametrize("figure", FIGURES)
def test_where_the_test_names_no_subgroup_all_its_pictures_are_judged(bundle, figure):
    gate = FIGURES[figure](limit=0.5)
    for value, verdict in ((0.5, "passed"), (0.9 if figure == "ece" else 0.1, "refused")):
        manifest = bundle(metrics={"n": 9, figure: value}, labels=CANCER).manifest
        result = gate.judge(Case((manifest,)))
        assert (result.verdict, result.worst.subgroup, result.worst.n) == (verdict, "global", 9)
    result = gate.judge(Case((bundle(metrics={}, labels=CANCER).manifest,)))
    assert (result.verdict, result.untested) == ("refused", ("global",))


def test_pictures_without_a_declared_tone_are_no_subgroup(bundle, told):
    metrics = told("ece", light=0.1, undeclared=0.9)
    assert CalibrationGate(limit=0.2).judge(Case((bundle(metrics=metrics).manifest,))).verdict == "passed"


def test_where_no_label_is_malignant_there_is_nothing_to_find(bundle):
    result = WorstMalignantSensitivityGate(limit=1).judge(Case((bundle(metrics={}).manifest,)))
    assert result.verdict == "not applicable"
    assert "no label of the model is malignant" in result.detail


def test_pictures_are_counted_of_the_version_that_answers(bundle, told, dark):
    everybody = bundle(metrics=told("accuracy", 100, light=0.9, dark=0.9)).manifest
    own = bundle(dark, told("accuracy", 29, dark=0.9)).manifest
    assert CountGate(minimum=100).judge(Case((everybody,))).verdict == "passed"
    result = CountGate(minimum=30).judge(Case((everybody, own)))
    assert (result.verdict, result.value, result.untested) == ("refused", 29, ())
    assert "there are 29 test pictures of dark; at least 30" in result.detail
    assert CountGate(minimum=29).judge(Case((everybody, own))).verdict == "passed"


def test_a_subgroup_of_which_the_test_had_no_picture_counts_as_none(bundle, told, dark):
    metrics = {**told("accuracy", 40, light=0.9), "absent": ["dark", 7, "global"]}
    result = CountGate(minimum=1).judge(Case((bundle(metrics=metrics).manifest,)))
    assert (result.verdict, result.value, result.untested) == ("refused", 0, ("dark",))
    assert [(one.subgroup, one.note) for one in result.findings] == [("light", ""), ("dark", "never tested")]
    own = bundle(dark, told("accuracy", 35, dark=0.9)).manifest
    assert CountGate(minimum=35).judge(Case((bundle(metrics=metrics).manifest, own))).verdict == "passed"


def test_without_subgroups_all_pictures_are_counted(bundle):
    assert CountGate(minimum=9).judge(Case((bundle(metrics={"n": 9}).manifest,))).verdict == "passed"
    assert CountGate(minimum=1).judge(Case((bundle(metrics={}).manifest,))).untested == ("global",)
