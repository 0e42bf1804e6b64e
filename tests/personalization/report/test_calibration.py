"""ECE and MCE of one filled bin are |confidence − share right|, before and after.

The table of working points, whose every cell follows from twelve numbers.

The table of the patients behind each skin tone.

Coverage, set sizes and answers by hand: a picture answered at 0.8 holds probabilities 0.8 and 0.2.
"""

from dataclasses import replace

import numpy as np
import pytest

from personalization.calibration.conformal import ConformalThreshold
from personalization.calibration.temperature import Temperature
from personalization.report.calibration import (
    calibration_error_table,
    decided,
    ood_table,
    served_table,
    tones_table,
    working_point_table,
)
from personalization.report.data import CalibratedModel, StageFacts, tones_of
from personalization.report.measures import ALL
from registry.bundle.conclusions import Conclusions, NodeRule, Tree
from registry.bundle.counts.counting import count
from registry.bundle.counts.counts import Thresholds
from registry.bundle.counts.score_bins import LOGIT_BINS, score_bin
from registry.bundle.labels import UNDECLARED, Label
from registry.bundle.manifest import WorkingPoint
from training.data.subgroups import ToneSubgroups


@pytest.fixture
def at():
    """`at(confidence, right, wrong)`: so many answers at one confidence."""

    def make(confidence, right, wrong):
        labels = np.zeros(right + wrong, dtype=int)
        answers = np.where(np.arange(right + wrong) < right, 0, 1)
        probabilities = np.full((right + wrong, 2), 1 - confidence)
        probabilities[np.arange(right + wrong), answers] = confidence
        return count(probabilities, labels, malignant=np.array([True, False]))

    return make


def off(confidence, right):
    """How far answers of this confidence, stated as the middle of its bin, are from the share right."""
    stated = LOGIT_BINS.middles[LOGIT_BINS.bin(np.array(confidence))]
    assert abs(stated - confidence) < 0.01
    return f"{abs(stated - right):.3f}"


def of_stages(report, counts, kinds):
    data = report(counts=counts)
    return replace(data, facts=[StageFacts(name, kind, {}) for name, kind in kinds.items()])


def test_both_errors_before_and_after_by_hand(report, at):
    # 30 of 40 right: stated as the middle of a bin, some 0.9 is off by 0.15 and 0.76 by 0.01.
    before = {"light": at(0.9001, 30, 10), "dark": at(0.9001, 10, 10)}
    after = {"light": at(0.7601, 30, 10), "dark": at(0.7601, 10, 10)}
    stages = {"federate": "federate", "calibrate": "calibrate"}

    table = calibration_error_table(of_stages(report, {"federate": before, "calibrate": after}, stages))

    light, dark, everything = ([cell.text for cell in row.cells] for row in table.rows)
    assert table.columns == ("subgroup", "pictures", "ECE before", "ECE after", "MCE before", "MCE after")
    assert light == ["40", off(0.9001, 0.75), off(0.7601, 0.75), off(0.9001, 0.75), off(0.7601, 0.75)]
    assert dark == ["20", off(0.9001, 0.5), off(0.7601, 0.5), off(0.9001, 0.5), off(0.7601, 0.5)]
    assert everything[0] == "60"
    assert table.rows[-1].is_total
    assert "after federate and after calibrate" in table.caption


def test_before_is_the_stage_right_before_the_last_calibration(report, at):
    counts = {
        "federate": {"light": at(0.6001, 20, 20)},
        "1-calibrate": {"light": at(0.7001, 20, 20)},
        "2-calibrate": {"light": at(0.8001, 20, 20)},
    }
    stages = {"federate": "federate", "1-calibrate": "calibrate", "2-calibrate": "calibrate"}

    table = calibration_error_table(of_stages(report, counts, stages))

    assert [cell.text for cell in table.rows[0].cells][1:3] == [off(0.7001, 0.5), off(0.8001, 0.5)]


FACTS = {
    "threshold": 51.234567,
    "rate": 0.05,
    "n": 88,
    "trained_on": 1960,
    "classes": ["MEL", "NV"],
    "flagged": 0.071,
}


def test_one_row_per_model_that_learned_it(report):
    models = {
        "global": {"novelty": FACTS},
        "light": {"novelty": {**FACTS, "classes": ["NV"]}},
        "dark": {"novelty": {**FACTS, "threshold": None, "flagged": None, "n": 9}},
        "olive": {},
        "other": {"novelty": None},
    }
    table = ood_table(report("calibrate", {"models": models}))

    assert table.caption == "Pictures unlike those trained on"
    everybody, light, dark = table.rows
    assert [cell.text for cell in everybody.cells] == [
        "1\u202f960",
        "2 of 2",
        "88",
        "5.0\u202f%",
        "51.2",
        "7.1\u202f%",
    ]
    assert (light.cells[1].text, light.cells[1].note) == ("1 of 2", "without MEL")
    assert [cell.text for cell in dark.cells][-2:] == ["flags none", "–"]


LABELS = [Label(code="M", name="m", malignancy="malignant"), Label(code="B", name="b")]
PERCENT = "\u202f%"


def model(name, point):
    conformal = ConformalThreshold(0, 0.9, 50, 46)
    return CalibratedModel(name, Temperature(1.0, 1.0, 50), conformal, working_point=point)


def point(probability, *, low=0.95, n=80, reached=True):
    at = int(score_bin(np.array(probability)))
    return WorkingPoint(target=0.95, level=0.95, threshold_bin=at, sensitivity_low=low, n=n, reached=reached)


def counted(scores, labels, of):
    """A block of pictures with these probabilities of malignancy."""
    malignancy = np.array(scores)
    thresholds = Thresholds(0, None if of is None else of.threshold_bin)
    probabilities = np.stack([malignancy, 1 - malignancy], axis=1)
    return count(probabilities, np.array(labels), malignant=np.array([True, False]), thresholds=thresholds)


def texts(row):
    return [cell.text for cell in row.cells]


def test_sensitivity_and_its_price_by_subgroup():
    of_all, dark = point(0.3), point(0.15, low=0.8, n=14, reached=False)
    blocks = {
        "light": counted([0.9, 0.4, 0.2, 0.1, 0.4, 0.6], [0, 0, 0, 1, 1, 1], of_all),
        "dark": counted([0.9, 0.2, 0.1, 0.2], [0, 0, 1, 1], dark),
        "medium": counted([0.1, 0.2], [1, 1], of_all),
    }
    table = working_point_table([model("global", of_all), model("dark", dark)], blocks, LABELS)
    rows = {row.header: row for row in table.rows}
    third, two = f"33.3{PERCENT}", f"66.7{PERCENT}"
    assert texts(rows["light"])[1:] == [f"95.0{PERCENT}", two, third, third, two]
    assert rows["light"].cells[1].note == "80 malignant lesions, for everybody together"
    assert texts(rows["dark"])[1:] == [
        f"80.0{PERCENT}",
        f"100.0{PERCENT}",
        f"50.0{PERCENT}",
        f"50.0{PERCENT}",
        f"100.0{PERCENT}",
    ]
    assert rows["dark"].cells[1].note == f"14 malignant lesions; 95.0{PERCENT} needs 59"
    assert [cell.text for cell in rows["medium"].cells[2:4]] == ["–", f"100.0{PERCENT}"]
    assert rows["medium"].cells[2].note == "no such test pictures"
    assert texts(rows[ALL])[2:4] == [f"80.0{PERCENT}", f"{100 * 4 / 7:.1f}{PERCENT}"]
    assert rows[ALL].is_total
    assert rows[ALL].cells[2].note.endswith("of 5")


def test_a_model_without_one_says_so():
    of_all = point(0.3)
    blocks = {"light": counted([0.9, 0.1], [0, 1], of_all), "dark": counted([0.1, 0.2], [1, 1], None)}
    table = working_point_table([model("global", of_all), model("dark", None)], blocks, LABELS)
    assert texts(table.rows[1])[:2] == ["none", "none"]
    assert table.rows[1].cells[1].note == "no malignant calibration lesion"
    assert texts(table.rows[2])[2:4] == [f"100.0{PERCENT}", f"100.0{PERCENT}"], "light alone"
    assert working_point_table([model("global", None)], blocks, LABELS) is None


def test_every_tone_of_a_group_has_a_row_and_its_patients():
    groups = ToneSubgroups(scale="fitzpatrick", groups={"light": ("2",), "dark": ("V", "VI")})
    counted = {
        "calibration": {"fitzpatrick": {"2": 123, "5": 12}},
        "test": {"fitzpatrick": {"2": 200, "5": 14, "6": 11}},
    }
    table = tones_table(tones_of(groups, counted))
    assert [(row.header, *(cell.text for cell in row.cells)) for row in table.rows] == [
        ("2 (fitzpatrick)", "light", "123", "200"),
        ("5 (fitzpatrick)", "dark", "12", "14"),
        ("6 (fitzpatrick)", "dark", "too few", "11"),
    ]
    assert tones_table(()) is None


MALIGNANT = np.array([True, False])
KINDS = (
    Label(code="MEL", name="Melanoma", malignancy="malignant"),
    Label(code="NV", name="Naevus", malignancy="benign"),
)
TREE, HALF = Tree(KINDS), int(LOGIT_BINS.bin(np.array(0.5)))


@pytest.fixture
def served_model():
    """`model(name, in the set from, concluded from)`: thresholds as probabilities."""

    def make(name, in_set, concluded):
        in_set, concluded = LOGIT_BINS.bin(np.array([in_set, concluded])).tolist()
        of_each = {"threshold_bin": concluded, "n": 60, "wrong": 0, "risk_high": 0.09}
        nodes = tuple(NodeRule(level="diagnosis", code=one.code, **of_each) for one in KINDS)
        conformal = ConformalThreshold(in_set, 0.9, 50, 46)
        return CalibratedModel(
            name, Temperature(1.0, 1.0, 50), conformal, conclusions=Conclusions(nodes=nodes)
        )

    return make


@pytest.fixture
def blocks():
    """`blocks(models, subgroup=(melanomas found, missed, naevi found, missed))`, all answers at 0.8."""

    def make(models, **numbers):
        by_name = {served_model.subgroup: served_model for served_model in models}
        made = {}
        for name, of in numbers.items():
            served_model = by_name.get(name, by_name.get("global"))
            made[name] = counted_by(of, served_model)
        return made

    return make


def counted_by(numbers, served_model):
    """Histograms of merged bins, and what the thresholds do to the pictures."""
    labels = np.repeat([0, 0, 1, 1], numbers)
    answers = np.repeat([0, 1, 1, 0], numbers)
    probabilities = np.full((len(labels), 2), 0.2)
    probabilities[np.arange(len(labels)), answers] = 0.8
    return counts_of(probabilities, labels, served_model, 5)


def counts_of(probabilities, labels, served_model, smallest_cell):
    """Counts with what a model's thresholds do; what is not urgent is ruled out, where it has any."""
    if served_model is None:
        return count(probabilities, labels, malignant=MALIGNANT, smallest_cell=smallest_cell)
    nodes = tuple(served_model.conclusions.thresholds(TREE).tolist())
    thresholds = Thresholds(served_model.conformal.threshold_bin, None, HALF, HALF, nodes)
    return count(
        probabilities,
        labels,
        malignant=MALIGNANT,
        smallest_cell=smallest_cell,
        thresholds=thresholds,
        concluded=TREE.count(probabilities, labels, MALIGNANT, thresholds),
    )


def row_texts(row):
    return [cell.text for cell in row.cells]


def test_every_subgroup_by_the_thresholds_of_its_own_model(served_model, blocks):
    """Light (from 0.4): sets of the answer alone. Dark (from 0.15): both classes, nothing is concluded."""
    models = [
        served_model("global", 0.15, 0.15),
        served_model("light", 0.4, 0.8),
        served_model("dark", 0.15, 0.9),
    ]
    table = served_table(models, blocks(models, light=(8, 2, 30, 10), dark=(5, 5, 5, 5)))

    light, dark, everything = table.rows
    assert row_texts(light) == [
        "50",
        "light",
        f"76.0{PERCENT}",
        "1.00",
        f"100.0{PERCENT}",
        f"100.0{PERCENT}",
        f"24.0{PERCENT}",
    ]
    assert row_texts(dark) == [
        "20",
        "dark",
        f"100.0{PERCENT}",
        "2.00",
        f"100.0{PERCENT}",
        f"0.0{PERCENT}",
        "–",
    ]
    assert row_texts(everything) == [
        "70",
        "–",
        f"{100 * 58 / 70:.1f}{PERCENT}",  # 38 of light and all 20 of dark
        f"{90 / 70:.2f}",
        f"100.0{PERCENT}",  # urgent or ruled out
        f"{100 * 50 / 70:.1f}{PERCENT}",
        f"24.0{PERCENT}",  # of dark nothing is concluded
    ]
    assert everything.is_total


def test_who_has_no_model_is_answered_by_the_global_one(served_model, blocks):
    models = [served_model("global", 0.4, 0.2)]
    table = served_table(models, blocks(models, **{"dark": (5, 5, 5, 5), UNDECLARED: (2, 0, 2, 0)}))

    assert [row.cells[1].text for row in table.rows] == ["global", "global", "–"]
    assert [row.cells[2].text for row in table.rows] == [
        f"50.0{PERCENT}",
        f"100.0{PERCENT}",
        f"{100 * 14 / 24:.1f}{PERCENT}",
    ]


def test_a_merged_histogram_is_not_cut_where_the_threshold_is(served_model, blocks):
    """Ten pictures of which six reach the threshold: the histogram has them all at one bin."""
    own = served_model("light", 0.2, 0.7)
    first = np.repeat([0.72, 0.66], [6, 4])
    probabilities = np.stack([first, 1 - first], axis=1)
    made = counts_of(probabilities, np.zeros(10, dtype=int), own, 10)
    assert np.count_nonzero(made.point.confidence) == 1
    assert decided({"light": made, "dark": replace(made, decisions=None)}) == {}
    assert decided({"light": made})["reported"] == pytest.approx(0.6)
