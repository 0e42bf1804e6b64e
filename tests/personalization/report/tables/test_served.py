"""Coverage, set sizes and referrals by hand: a picture answered at 0.8 holds probabilities 0.8 and 0.2."""

import pytest

from personalization.calibration.abstention import AbstentionThreshold
from personalization.calibration.conformal import ConformalThreshold
from personalization.calibration.temperature import Temperature
from personalization.report import CalibratedModel
from personalization.report.tables.served import served_table
from registry.bundle.manifest.schema import UNDECLARED

PERCENT = "\u202f%"


@pytest.fixture
def model():
    """`model(name, in the set from, answered from)`: thresholds as bins of 1/500."""

    def make(name, in_set, answered):
        return CalibratedModel(
            name,
            Temperature(1.0, 1.0, 50),
            ConformalThreshold(in_set, 0.9, 50, 46),
            AbstentionThreshold(answered, 0.1, 0.08, 0.9, 50),
        )

    return make


def texts(row):
    return [cell.text for cell in row.cells]


def test_every_subgroup_by_the_thresholds_of_its_own_model(model, block):
    """Light (from 0.4): sets of the answer alone. Dark (from 0.2): sets of both classes, all referred."""
    models = [model("global", 100, 100), model("light", 200, 400), model("dark", 100, 450)]
    table = served_table(models, {"light": block(8, 2, 30, 10), "dark": block(5, 5, 5, 5)})

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
    assert (dark.cells[0].faint, light.cells[0].faint, everything.is_total) == (True, False, True)


def test_pictures_whose_set_is_empty_count_as_referred(model, block):
    """As the service does, also of runs whose threshold of confidence lies below that of the set."""
    (row, _) = served_table([model("light", 450, 100)], {"light": block(8, 2, 30, 10)}).rows
    assert texts(row)[2:] == [f"0.0{PERCENT}", "0.00", f"100.0{PERCENT}", "–"]


def test_who_has_no_model_is_answered_by_the_global_one(model, block):
    table = served_table(
        [model("global", 200, 100)], {"dark": block(5, 5, 5, 5), UNDECLARED: block(2, 0, 2, 0)}
    )

    assert [row.cells[1].text for row in table.rows] == ["global", "global", "–"]
    assert [row.cells[2].text for row in table.rows] == [
        f"50.0{PERCENT}",
        f"100.0{PERCENT}",
        f"{100 * 14 / 24:.1f}{PERCENT}",
    ]


def test_without_a_global_model_only_those_with_a_model_are_shown(model, block):
    table = served_table([model("dark", 200, 100)], {"light": block(9, 1, 9, 1), "dark": block(5, 5, 5, 5)})

    assert [row.header for row in table.rows] == ["dark", "all pictures"]
    assert texts(table.rows[0])[2:] == texts(table.rows[1])[2:]


def test_intervals_come_with_replicates(model, block):
    counts = {"light": block(8, 2, 30, 10), "dark": block(5, 5, 5, 5)}

    for row in served_table([model("global", 200, 100)], counts).rows:
        assert " to " in row.cells[2].note
        assert row.cells[3].note == ""  # no replicate has another set size, so they tell nothing
        assert " to " in row.cells[5].note
