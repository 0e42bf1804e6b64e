"""Figures of cases by what is given: the summary's, with its intervals, for all and for each subgroup.

What each part of a case is worth: a line for each, and whom a part harms.
"""

from dataclasses import replace

import pytest

from personalization.report.cases import harms, left_out_tables, pattern_tables
from personalization.report.page import render_report

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


def row_of(auroc, n=300, **more):
    intervals = {"malignancy_auroc": [auroc - 0.03, auroc + 0.03]}
    return {"n": n, "malignancy_auroc": auroc, "intervals": intervals, **more}


@pytest.fixture
def with_harm(report):
    """A report's data in which sex harms dark skin, and age helps everybody."""
    whole = row_of(0.85, by_subgroup={"dark": row_of(0.7), "light": row_of(0.9, n=20)})
    left_out = {
        "age": row_of(0.75, by_subgroup={"dark": row_of(0.6), "light": row_of(0.8)}),
        "sex": row_of(0.86, by_subgroup={"dark": row_of(0.8), "light": row_of(0.88)}),
    }
    data = report("calibrate", {"left_out": left_out})
    return replace(data, summary={**data.summary, "stages": [{"name": "calibrate", "test": whole}]})


def test_there_is_a_line_for_everything_and_one_for_each_part(with_harm):
    whole, dark, _ = left_out_tables(with_harm)
    assert [row.header for row in whole.rows] == ["all that is known", "without age", "without sex"]
    assert [row.cells[1].text for row in dark.rows] == ["0.700", "0.600", "0.800"]
    assert dark.rows[0].cells[1].note == "0.670 to 0.730"


def test_what_the_last_stage_found_is_shown(with_harm):
    [stage] = with_harm.facts
    earlier = replace(stage, facts={"left_out": {"site": stage.facts["left_out"]["age"]}})
    assert left_out_tables(replace(with_harm, facts=[earlier, stage])) == left_out_tables(with_harm)


def test_only_what_harms_with_intervals_apart_is_named(with_harm):
    assert tuple(harms(with_harm)) == (
        "sex harms dark: AUROC of malignancy is 0.800 without and 0.700 with it.",
    )
    page = render_report(with_harm)
    assert "sex harms dark" not in page  # there are no patterns: the section is that of cases


def test_the_page_names_it(with_harm):
    [stage] = with_harm.facts
    patterns = {"close-up": row_of(0.8, by_subgroup={})}
    of_both = replace(with_harm, facts=[replace(stage, facts={**stage.facts, "patterns": patterns})])
    page = render_report(of_both)
    assert "sex harms dark: AUROC of malignancy is 0.800 without and 0.700 with it." in page
    assert "No part harms" not in page
