"""What matters for a patient, findings by hand, and Tango's limits of a gain against his equation."""

from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import norm

from registry.bundle.counting import count
from registry.bundle.labels import Label
from registry.bundle.lesion_counts import PairedCounts
from registry.bundle.metrics.patient import (
    ALL,
    FIGURES,
    GAINS,
    Judged,
    Kind,
    findings,
    patient_figures,
    sides,
    tango_low,
)
from registry.bundle.metrics.summary import summarise
from tests.measured import of_kind as kind_row

LABELS = [Label(code="MEL", name="Melanoma", malignancy="malignant"),
          Label(code="NV", name="Naevus", malignancy="benign")]  # fmt: skip


def block(found, missed, cleared, suspected, malignant=(True, False)):
    labels = np.repeat([0, 0, 1, 1], [found, missed, cleared, suspected])
    answers = np.repeat([0, 1, 1, 0], [found, missed, cleared, suspected])
    probabilities = np.full((len(labels), 2), 0.2)
    probabilities[np.arange(len(labels)), answers] = 0.8
    return count(probabilities, labels, malignant=np.array(malignant))


def told(**blocks):
    return patient_figures(summarise(blocks, LABELS, list(blocks)))


def test_how_many_of_either_side_is_told():
    summary = summarise({"dark": block(18, 3, 60, 19), "light": block(40, 10, 80, 20)}, LABELS, ["dark"])
    assert sides(summary["by_subgroup"]["dark"]) == "21 malignant, 79 other"
    assert sides(summary) == "71 malignant, 179 other"
    assert sides({"n": 40}) == sides({"n_other": 3}) == ""


def test_each_subgroup_has_what_counts_with_its_numbers_and_intervals():
    found = told(dark=block(18, 3, 60, 19), light=block(40, 10, 80, 20))
    dark = found["dark"].figures
    assert list(dark) == list(FIGURES)
    assert dark["malignant_sensitivity"].value == pytest.approx(18 / 21)
    assert dark["malignant_sensitivity"].interval == pytest.approx((0.637, 0.970), abs=0.001)
    assert dark["malignant_specificity"].value == pytest.approx(60 / 79)
    assert dark["balanced_accuracy"].value == pytest.approx((18 / 21 + 60 / 79) / 2)
    assert (found["dark"].n, found["dark"].n_malignant, found["dark"].n_other) == (100, 21, 79)
    assert found[ALL].figures["malignant_sensitivity"].value == pytest.approx(58 / 71)


def test_the_working_point_is_told_where_there_is_one():
    row = {"n": 9, "sensitivity_at_threshold": 0.95, "intervals": {"sensitivity_at_threshold": [0.8, 0.99]}}
    figures = patient_figures({"by_subgroup": {"dark": row}})["dark"].figures
    assert str(figures["sensitivity_at_threshold"]) == "0.950 (0.800 to 0.990)"
    assert "specificity_at_threshold" not in figures


def test_sensitivity_is_told_by_kind_with_its_number_and_limits():
    kinds = {"melanoma": kind_row(28, found=20, suspicious=26, ruled_out=1)}
    row = {"n": 200, "malignant_sensitivity": 0.9, "by_kind": kinds, "intervals": {}}
    found = patient_figures({"by_subgroup": {"dark": row}}, ["melanoma", "basal"])["dark"].by_kind
    assert found["basal"] is None  # too few to tell
    assert (found["melanoma"].n, list(found["melanoma"].figures)) == (
        28,
        ["malignant_sensitivity", "sensitivity_at_threshold", "ruled_out"],
    )
    assert str(found["melanoma"].figures["malignant_sensitivity"]) == "0.714 (0.513 to 0.868), n 28"
    assert patient_figures({"by_kind": kinds})[ALL].by_kind == {}  # one kind: all that is malignant
    named = {**row, "by_kind": {**kinds, "basal": kinds["melanoma"]}}
    assert list(patient_figures(named)[ALL].by_kind) == ["melanoma", "basal"]


def by_likelihood(gained, lost, n, level):
    """The limit from the score test whose q is found by maximising the likelihood, not by its root."""

    def score(difference):
        def minus_log(q):
            p = np.array([q + difference, q, 1 - 2 * q - difference])
            return -(np.array([gained, lost, n - gained - lost]) * np.log(np.maximum(p, 1e-300))).sum()

        low, high = max(0.0, -difference), (1 - difference) / 2
        q = minimize_scalar(minus_log, bounds=(low, high), method="bounded", options={"xatol": 1e-12}).x
        return (gained - lost - n * difference) / np.sqrt(n * (2 * q + difference * (1 - difference)))

    return brentq(lambda difference: score(difference) - norm.ppf(level), -0.999, (gained - lost) / n - 1e-9)


@pytest.mark.parametrize(
    ("gained", "lost", "n"), [(12, 1, 75), (1, 12, 75), (5, 5, 40), (8, 2, 20), (3, 9, 30)]
)
@pytest.mark.parametrize("level", [0.9, 0.95, 0.995])
def test_the_limit_is_where_the_score_test_rejects(gained, lost, n, level):
    found = tango_low(*(np.array(float(each)) for each in (gained, lost, n)), level)
    assert found == pytest.approx(by_likelihood(gained, lost, n, level), abs=2e-4)


def counts_of(rows):
    """Paired counts of independent pictures: n, gained and lost of each row."""
    n, gained, lost = np.array(rows, dtype=np.int64).T
    return PairedCounts(n, gained, lost, n)


def test_the_gain_of_balanced_accuracy_is_the_mean_over_classes_that_have_pictures():
    counts = counts_of([(10, 4, 1), (40, 2, 6), (0, 0, 0), (10, 3, 0), (40, 1, 1)])
    found = GAINS["balanced_accuracy"](counts, 0.95)
    assert found.value == pytest.approx((0.3 - 0.1) / 2)
    lows = [float(tango_low(*(np.array(float(x)) for x in row), 0.95)) for row in ((4, 1, 10), (2, 6, 40))]
    assert found.low == pytest.approx(0.1 - np.hypot(0.3 - lows[0], -0.1 - lows[1]) / 2)
    assert (found.n, found.gained, found.lost) == (50, 6, 7)
    sensitivity = GAINS["malignant_sensitivity"](counts, 0.95)
    assert (sensitivity.value, sensitivity.n) == (pytest.approx(0.3), 10)
    assert GAINS["malignant_sensitivity"](counts_of([(3, 0, 0), (0, 0, 0), (3, 0, 0)]), 0.95) is None


def test_pictures_of_one_lesion_are_worth_less():
    alone = counts_of([(40, 8, 0), (0, 0, 0), (40, 8, 0)])
    lesions_of_four = PairedCounts(alone.n, alone.gained, alone.lost, alone.n * 4)
    assert GAINS["malignant_sensitivity"](alone, 0.95) is None
    wide, narrow = GAINS["balanced_accuracy"](lesions_of_four, 0.95), GAINS["balanced_accuracy"](alone, 0.95)
    assert wide.value == narrow.value
    expected = tango_low(np.array(2.0), np.array(0.0), np.array(10.0), 0.95)
    assert wide.low == pytest.approx(float(expected))
    assert wide.low < narrow.low


TARGETS = {"conclusions": {"target_risk": 0.1}, "working_point": {"target": 0.95}}


def judged(stage, fair_over=(), models=(), details=None, **blocks):
    return Judged(stage, summarise(blocks, LABELS, [*fair_over, *blocks], details), dict(models))


def of_kind(kind, stages):
    return [one for one in findings(stages) if one.kind == kind]


def test_a_stage_that_gains_accuracy_and_loses_sensitivity_on_dark_skin_is_named():
    light = block(80, 20, 150, 50)
    before = judged("federate", light=light, dark=block(18, 3, 55, 24))
    after = judged("personalize", light=light, dark=block(7, 14, 72, 7))
    told = [stage.test["by_subgroup"]["dark"] for stage in (before, after)]
    assert told[1]["accuracy"] > told[0]["accuracy"]
    assert [round(one["malignant_sensitivity"], 3) for one in told] == [0.857, 0.333]

    lost = {one.subgroup: one for one in of_kind("lost_sensitivity", [before, after])}

    dark = lost["dark"]
    assert (dark.figure, round(dark.value, 3), round(dark.limit, 3)) == (
        "malignant_sensitivity",
        0.333,
        0.857,
    )
    assert dark.text.startswith(
        "dark: personalize lowered malignant sensitivity from 85.7 % to 33.3 % (18 of 21, then 7 of 21 "
        "malignant pictures), by 52.4 points (20.1 to 74.2)"  # Clopper and Pearson's, by Newcombe's rule
    )
    assert dark.text.endswith("That is more than chance.")
    assert set(lost) == {"dark", "all"}, "98 of 121, then 87 of 121"


@pytest.mark.parametrize(("found", "told"), [(21, 0), (20, 0), (19, 1)])
def test_of_21_pictures_one_more_missed_is_told_of_nobody_and_two_may_be_chance(found, told):
    stages = [
        judged(name, dark=block(x, 21 - x, 9, 1)) for name, x in (("federate", 21), ("personalize", found))
    ]
    lost = of_kind("lost_sensitivity", stages)
    assert len(lost) == told
    assert all(one.text.endswith("It may be chance.") for one in lost)


def test_a_small_loss_that_is_more_than_chance_is_told():
    stages = [
        judged("federate", dark=block(5000, 0, 9, 1)),
        judged("personalize", dark=block(4900, 100, 9, 1)),
    ]
    (lost,) = of_kind("lost_sensitivity", stages)
    assert lost.text.endswith("That is more than chance.")


def test_a_missed_working_point_is_told_apart_from_one_that_is_not_shown():
    details = {
        "dark": {"sensitivity_at_threshold": 0.6, "intervals": {"sensitivity_at_threshold": [0.4, 0.78]}},
        "medium": {"sensitivity_at_threshold": 0.9, "intervals": {"sensitivity_at_threshold": [0.7, 0.99]}},
        "light": {"sensitivity_at_threshold": 0.95, "intervals": {"sensitivity_at_threshold": [0.9, 0.99]}},
    }
    three = dict.fromkeys(details, block(9, 1, 9, 1))
    stage = judged("calibrate", models={"global": TARGETS}, details=details, **three)
    missed = {one.subgroup: one for one in of_kind("missed_sensitivity", [stage])}
    assert set(missed) == {"dark", "medium"}
    assert (missed["dark"].value, missed["dark"].limit) == (0.6, 0.95)
    assert "60.0 % (40.0 to 78.0)" in missed["dark"].text
    assert missed["dark"].text.endswith("the target is missed.")
    assert missed["medium"].text.endswith("it is not shown to be reached.")


def test_a_kind_that_is_missed_for_certain_is_named():
    """Ten of ten basal cell carcinomas hide melanomas; of few of a kind nothing is certain."""
    kinds = {
        "melanoma": kind_row(40, found=20, suspicious=20),
        "basal cell carcinoma": kind_row(900, found=900, suspicious=900),
        "squamous cell carcinoma": kind_row(5, found=4, suspicious=4),
    }
    details = {"dark": {"sensitivity_at_threshold": 0.97, "by_kind": kinds, "intervals": {}}}
    stage = judged("calibrate", models={"global": TARGETS}, details=details, dark=block(9, 1, 9, 1))
    (missed,) = of_kind("missed_sensitivity", [stage])
    assert (missed.subgroup, missed.value, missed.limit) == ("dark", 0.5, 0.95)
    assert "50.0 % (33.8 to 66.2) of the malignant test pictures of melanoma are suspicious" in missed.text


def test_each_subgroup_is_held_against_the_risk_of_the_model_that_answers_for_it():
    details = {
        "dark": {"reported_risk": 0.17, "intervals": {"reported_risk": [0.118, 0.238]}},
        "light": {"reported_risk": 0.17, "intervals": {"reported_risk": [0.05, 0.3]}},
        "medium": {"reported_risk": 0.17, "intervals": {"reported_risk": [0.118, 0.238]}},
    }
    models = {"global": TARGETS, "medium": {"conclusions": {"target_risk": 0.2}}}
    stage = judged("calibrate", models=models, details=details, **dict.fromkeys(details, block(9, 1, 9, 1)))
    missed = {one.subgroup: one for one in of_kind("missed_risk", [stage])}
    assert {name: (one.value, one.limit) for name, one in missed.items()} == {
        "dark": (0.17, 0.1),
        "light": (0.17, 0.1),
    }
    assert missed["dark"].text == (
        "dark: 17.0 % (11.8 to 23.8) of the conclusions are wrong, where at most 10.0 % are allowed. "
        "That is more than chance."
    )
    assert missed["light"].text.endswith("It may be chance.")


def test_few_answers_and_what_was_not_tested_are_reported():
    details = {"dark": {"answered": 0.19}, "light": {"answered": 0.2}}
    two = {"dark": block(9, 1, 9, 1), "light": block(0, 0, 9, 1)}
    stage = judged("calibrate", ("medium", "undeclared"), {"global": TARGETS}, details, **two)
    assert [(one.kind, one.subgroup, one.figure, one.value) for one in findings([stage])] == [
        ("nearly_nobody_answered", "dark", "answered", 0.19),
        ("untested", "medium", "n", None),
        ("untested", "light", "n_malignant", 0),
    ]


@pytest.mark.parametrize("kind", get_args(Kind))
def test_every_kind_is_documented(kind):
    docs = Path(__file__).parents[4] / "docs"
    assert f"| `{kind}` |" in (docs / "report.md").read_text(encoding="utf-8")
