"""Figures of cases by what is given: the summary's, with its intervals, for all and for each subgroup."""

import pytest

from personalization.report.cases import pattern_tables

NARROW = "\u202f"  # before a per cent sign


def figures(n, auroc, **more):
    return {
        "n": n,
        "malignancy_auroc": auroc,
        "malignant_sensitivity": 0.9,
        "malignant_specificity": None,
        "coverage": 0.95,
        "set_size": 2.5,
        "reported": 0.3,
        "intervals": {"malignancy_auroc": [auroc - 0.1, auroc + 0.1], "reported": [0.2, 0.45]},
        **more,
    }


@pytest.fixture
def of_cases(report):
    """A report's data with figures under two patterns."""
    patterns = {
        "close-up": figures(500, 0.8, by_subgroup={"dark": figures(20, 0.7), "light": figures(480, 0.85)}),
        "close-up+dermoscopic+some context": figures(400, 0.9, by_subgroup={"light": figures(400, 0.9)}),
    }
    return report("calibrate", {"patterns": patterns})


def test_every_pattern_has_a_line_for_all_and_for_each_subgroup(of_cases):
    whole, dark, light = pattern_tables(of_cases)
    assert [row.header for row in whole.rows] == ["close-up", "close-up, dermoscopic; some facts"]
    assert [row.header for row in dark.rows] == ["close-up"]
    assert len(light.rows) == 2
    assert "dark" in dark.caption


def test_a_line_has_the_figures_with_their_intervals(of_cases):
    cells = pattern_tables(of_cases)[0].rows[0].cells
    percent = f"{NARROW}%"
    texts = ["500", "0.800", "0.900", "–", f"95.0{percent}", "2.50", f"30.0{percent}"]
    assert [cell.text for cell in cells] == texts
    assert cells[1].note == "0.700 to 0.900"
    assert cells[-1].note == "20.0 to 45.0"
