"""What each part of a case is worth: a line for each, and whom a part harms."""

from dataclasses import replace

import pytest

from personalization.report.cases import harms, left_out_tables
from personalization.report.page import render_report


def figures(auroc, n=300, **more):
    intervals = {"malignancy_auroc": [auroc - 0.03, auroc + 0.03]}
    return {"n": n, "malignancy_auroc": auroc, "intervals": intervals, **more}


@pytest.fixture
def of_cases(report):
    """A report's data in which sex harms dark skin, and age helps everybody."""
    whole = figures(0.85, by_subgroup={"dark": figures(0.7), "light": figures(0.9, n=20)})
    left_out = {
        "age": figures(0.75, by_subgroup={"dark": figures(0.6), "light": figures(0.8)}),
        "sex": figures(0.86, by_subgroup={"dark": figures(0.8), "light": figures(0.88)}),
    }
    data = report("calibrate", {"left_out": left_out})
    return replace(data, summary={**data.summary, "stages": [{"name": "calibrate", "test": whole}]})


def test_there_is_a_line_for_everything_and_one_for_each_part(of_cases):
    whole, dark, _ = left_out_tables(of_cases)
    assert [row.header for row in whole.rows] == ["all that is known", "without age", "without sex"]
    assert [row.cells[1].text for row in dark.rows] == ["0.700", "0.600", "0.800"]
    assert dark.rows[0].cells[1].note == "0.670 to 0.730"


def test_only_what_harms_with_intervals_apart_is_named(of_cases):
    assert tuple(harms(of_cases)) == (
        "sex harms dark: AUROC of malignancy is 0.800 without and 0.700 with it.",
    )
    page = render_report(of_cases)
    assert "sex harms dark" not in page  # there are no patterns: the section is that of cases


def test_the_page_names_it(of_cases):
    [stage] = of_cases.facts
    patterns = {"close-up": figures(0.8, by_subgroup={})}
    of_both = replace(of_cases, facts=[replace(stage, facts={**stage.facts, "patterns": patterns})])
    page = render_report(of_both)
    assert "sex harms dark: AUROC of malignancy is 0.800 without and 0.700 with it." in page
    assert "No part harms" not in page
