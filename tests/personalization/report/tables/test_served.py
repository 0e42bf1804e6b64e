"""Coverage, set sizes and answers by hand: a picture answered at 0.8 holds probabilities 0.8 and 0.2."""

import numpy as np
import pytest

from personalization.calibration.conformal import ConformalThreshold
from personalization.calibration.temperature import Temperature
from personalization.report.data import CalibratedModel
from personalization.report.served import reported, served_table
from registry.bundle.conclusions import Conclusions, NodeRule, Tree
from registry.bundle.counts.counting import count
from registry.bundle.counts.counts import Thresholds
from registry.bundle.counts.score_bins import LOGIT_BINS
from registry.bundle.labels import UNDECLARED, Label

PERCENT = "\u202f%"
MALIGNANT = np.array([True, False])
LABELS = (
    Label(code="MEL", name="Melanoma", malignancy="malignant"),
    Label(code="NV", name="Naevus", malignancy="benign"),
)
TREE, HALF = Tree(LABELS), int(LOGIT_BINS.bin(np.array(0.5)))


@pytest.fixture
def model():
    """`model(name, in the set from, concluded from)`: thresholds as probabilities."""

    def make(name, in_set, concluded):
        in_set, concluded = LOGIT_BINS.bin(np.array([in_set, concluded])).tolist()
        of_each = {"threshold_bin": concluded, "n": 60, "wrong": 0, "risk_high": 0.09}
        nodes = tuple(NodeRule(level="diagnosis", code=one.code, **of_each) for one in LABELS)
        conformal = ConformalThreshold(in_set, 0.9, 50, 46)
        return CalibratedModel(
            name, Temperature(1.0, 1.0, 50), conformal, conclusions=Conclusions(nodes=nodes)
        )

    return make


@pytest.fixture
def blocks():
    """`blocks(models, subgroup=(melanomas found, missed, naevi found, missed))`, all answers at 0.8."""

    def make(models, **numbers):
        by_name = {model.subgroup: model for model in models}
        made = {}
        for name, of in numbers.items():
            model = by_name.get(name, by_name.get("global"))
            made[name] = counted(of, model)
        return made

    return make


def counted(numbers, model):
    """Histograms of merged bins, and what the thresholds do to the pictures."""
    labels = np.repeat([0, 0, 1, 1], numbers)
    answers = np.repeat([0, 1, 1, 0], numbers)
    probabilities = np.full((len(labels), 2), 0.2)
    probabilities[np.arange(len(labels)), answers] = 0.8
    return counts_of(probabilities, labels, model, 5)


def counts_of(probabilities, labels, model, smallest_cell):
    """Counts with what a model's thresholds do; what is not urgent is ruled out, where it has any."""
    if model is None:
        return count(probabilities, labels, malignant=MALIGNANT, smallest_cell=smallest_cell)
    nodes = tuple(model.conclusions.thresholds(TREE).tolist())
    thresholds = Thresholds(model.conformal.threshold_bin, None, HALF, HALF, nodes)
    return count(
        probabilities,
        labels,
        malignant=MALIGNANT,
        smallest_cell=smallest_cell,
        thresholds=thresholds,
        concluded=TREE.count(probabilities, labels, MALIGNANT, thresholds),
    )


def texts(row):
    return [cell.text for cell in row.cells]


def test_every_subgroup_by_the_thresholds_of_its_own_model(model, blocks):
    """Light (from 0.4): sets of the answer alone. Dark (from 0.15): both classes, nothing is concluded."""
    models = [model("global", 0.15, 0.15), model("light", 0.4, 0.8), model("dark", 0.15, 0.9)]
    table = served_table(models, blocks(models, light=(8, 2, 30, 10), dark=(5, 5, 5, 5)))

    light, dark, everything = table.rows
    assert texts(light) == [
        "50",
        "light",
        f"76.0{PERCENT}",
        "1.00",
        f"100.0{PERCENT}",
        f"100.0{PERCENT}",
        f"24.0{PERCENT}",
    ]
    assert texts(dark) == ["20", "dark", f"100.0{PERCENT}", "2.00", f"100.0{PERCENT}", f"0.0{PERCENT}", "–"]
    assert texts(everything) == [
        "70",
        "–",
        f"{100 * 58 / 70:.1f}{PERCENT}",  # 38 of light and all 20 of dark
        f"{90 / 70:.2f}",
        f"100.0{PERCENT}",  # urgent or ruled out
        f"{100 * 50 / 70:.1f}{PERCENT}",
        f"24.0{PERCENT}",  # of dark nothing is concluded
    ]
    assert everything.is_total


def test_who_has_no_model_is_answered_by_the_global_one(model, blocks):
    models = [model("global", 0.4, 0.2)]
    table = served_table(models, blocks(models, **{"dark": (5, 5, 5, 5), UNDECLARED: (2, 0, 2, 0)}))

    assert [row.cells[1].text for row in table.rows] == ["global", "global", "–"]
    assert [row.cells[2].text for row in table.rows] == [
        f"50.0{PERCENT}",
        f"100.0{PERCENT}",
        f"{100 * 14 / 24:.1f}{PERCENT}",
    ]


def test_a_merged_histogram_is_not_cut_where_the_threshold_is(model, blocks):
    """Ten pictures of which six reach the threshold: the histogram has them all at one bin."""
    own = model("light", 0.2, 0.7)
    first = np.repeat([0.72, 0.66], [6, 4])
    probabilities = np.stack([first, 1 - first], axis=1)
    made = counts_of(probabilities, np.zeros(10, dtype=int), own, 10)
    assert np.count_nonzero(made.point.confidence) == 1
    assert reported({"light": made}).value == pytest.approx(0.6)
