"""What is found wrong, by hand; first a run whose accuracy rose while it failed a skin tone."""

from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from registry.bundle.counts.counting import count
from registry.bundle.labels import Label
from registry.bundle.metrics.patient import Judged, Kind, findings
from registry.bundle.metrics.summary import summarise

LABELS = [Label(code="MEL", name="Melanoma", malignancy="malignant"),
          Label(code="NV", name="Naevus", malignancy="benign")]  # fmt: skip
TARGETS = {"abstention": {"target_risk": 0.1}, "working_point": {"target": 0.95}}


def block(found, missed, cleared, suspected):
    labels = np.repeat([0, 0, 1, 1], [found, missed, cleared, suspected])
    answers = np.repeat([0, 1, 1, 0], [found, missed, cleared, suspected])
    probabilities = np.full((len(labels), 2), 0.2)
    probabilities[np.arange(len(labels)), answers] = 0.8
    return count(probabilities, labels, malignant=np.array([True, False]))


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
        "malignant pictures), by 52.4 points ("
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


def test_each_subgroup_is_held_against_the_risk_of_the_model_that_answers_for_it():
    details = {
        "dark": {"reported_risk": 0.17, "intervals": {"reported_risk": [0.118, 0.238]}},
        "light": {"reported_risk": 0.17, "intervals": {"reported_risk": [0.05, 0.3]}},
        "medium": {"reported_risk": 0.17, "intervals": {"reported_risk": [0.118, 0.238]}},
    }
    models = {"global": TARGETS, "medium": {"abstention": {"target_risk": 0.2}}}
    stage = judged("calibrate", models=models, details=details, **dict.fromkeys(details, block(9, 1, 9, 1)))
    missed = {one.subgroup: one for one in of_kind("missed_risk", [stage])}
    assert {name: (one.value, one.limit) for name, one in missed.items()} == {
        "dark": (0.17, 0.1),
        "light": (0.17, 0.1),
    }
    assert missed["dark"].text == (
        "dark: 17.0 % (11.8 to 23.8) of the answers given are wrong, where at most 10.0 % are allowed. "
        "That is more than chance."
    )
    assert missed["light"].text.endswith("It may be chance.")


@pytest.mark.parametrize("kind", get_args(Kind))
def test_every_kind_is_documented(kind):
    docs = Path(__file__).parents[4] / "docs"
    assert f"| `{kind}` |" in (docs / "report.md").read_text(encoding="utf-8")
