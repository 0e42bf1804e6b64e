"""Coverage, set sizes and referrals by hand: a picture answered at 0.8 holds probabilities 0.8 and 0.2."""

import numpy as np
import pytest

from personalization.calibration.abstention import AbstentionThreshold
from personalization.calibration.conformal import ConformalThreshold
from personalization.calibration.temperature import Temperature
from personalization.report import CalibratedModel
from personalization.report.served import referred
from personalization.report.tables.served import served_table
from registry.bundle.counts.counting import count
from registry.bundle.counts.counts import Thresholds
from registry.bundle.counts.score_bins import LOGIT_BINS
from registry.bundle.labels import UNDECLARED

PERCENT = "\u202f%"
MALIGNANT = np.array([True, False])


@pytest.fixture
def model():
    """`model(name, in the set from, answered from)`: thresholds as probabilities."""

    def make(name, in_set, answered):
        in_set, answered = LOGIT_BINS.bin(np.array([in_set, answered])).tolist()
        return CalibratedModel(
            name,
            Temperature(1.0, 1.0, 50),
            ConformalThreshold(in_set, 0.9, 50, 46),
            AbstentionThreshold(answered, 0.1, 0.08, 0.9, 50),
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
    thresholds = model and Thresholds(model.conformal.threshold_bin, model.reports_from)
    return count(probabilities, labels, malignant=MALIGNANT, smallest_cell=5, thresholds=thresholds)


def texts(row):
    return [cell.text for cell in row.cells]


def test_every_subgroup_by_the_thresholds_of_its_own_model(model, blocks):
    """Light (from 0.4): sets of the answer alone. Dark (from 0.15): sets of both classes, all referred."""
    models = [model("global", 0.15, 0.15), model("light", 0.4, 0.8), model("dark", 0.15, 0.9)]
    table = served_table(models, blocks(models, light=(8, 2, 30, 10), dark=(5, 5, 5, 5)))

    light, dark, everything = table.rows
    assert texts(light) == [
        "50",
        "light",
        f"76.0{PERCENT}",
        "1.00",
        f"0.0{PERCENT}",
        f"24.0{PERCENT}",
    ]
    assert texts(dark) == ["20", "dark", f"100.0{PERCENT}", "2.00", f"100.0{PERCENT}", "–"]
    assert texts(everything) == [
        "70",
        "–",
        f"{100 * 58 / 70:.1f}{PERCENT}",  # 38 of light and all 20 of dark
        f"{90 / 70:.2f}",
        f"{100 * 20 / 70:.1f}{PERCENT}",
        f"24.0{PERCENT}",  # dark gives no answer
    ]
    assert everything.is_total


def test_pictures_whose_set_is_empty_count_as_referred(model, blocks):
    """As the service does, also of runs whose threshold of confidence lies below that of the set."""
    models = [model("light", 0.9, 0.2)]
    (row, _) = served_table(models, blocks(models, light=(8, 2, 30, 10))).rows
    assert texts(row)[2:] == [f"0.0{PERCENT}", "0.00", f"100.0{PERCENT}", "–"]


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
    thresholds = Thresholds(own.conformal.threshold_bin, own.reports_from)
    made = count(
        probabilities, np.zeros(10, dtype=int), malignant=MALIGNANT, smallest_cell=10, thresholds=thresholds
    )
    assert np.count_nonzero(made.point.confidence) == 1
    assert referred({"light": made}).value == pytest.approx(0.4)
