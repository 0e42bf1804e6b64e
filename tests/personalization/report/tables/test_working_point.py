"""The table of working points, whose every cell follows from twelve numbers."""

import numpy as np

from personalization.calibration.at_thresholds import WorkingPoint
from personalization.calibration.conformal import ConformalThreshold
from personalization.calibration.temperature import Temperature
from personalization.report.calibration import working_point_table
from personalization.report.data import CalibratedModel
from personalization.report.measures import ALL
from registry.bundle.counts.counting import count
from registry.bundle.counts.counts import Thresholds
from registry.bundle.counts.score_bins import score_bin
from registry.bundle.labels import Label

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
