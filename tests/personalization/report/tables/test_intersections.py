import re

from personalization.report.page import render_report
from personalization.report.subgroups import intersection_tables

ENOUGH = {
    "n": 40,
    "accuracy": 0.75,
    "balanced_accuracy": 0.7,
    "malignant_sensitivity": None,
    "intervals": {"accuracy": [0.6, 0.85], "balanced_accuracy": None},
}


def with_intersections(report, told):
    return report(summary={"job": "small", "stages": [{"name": "federate", "test": {"intersections": told}}]})


def test_one_table_per_column_and_one_row_per_value_and_subgroup(report):
    told = {
        "body_site": {"trunk": {"light": ENOUGH, "dark": None}, "head & <b>neck</b>": {"light": ENOUGH}},
        "sex": {"female": {"dark": {**ENOUGH, "n": 12}}},
    }
    site, _ = intersection_tables(with_intersections(report, told))

    assert site.caption == "Subgroups by body site, with 95 % intervals"
    assert site.columns == (
        "body site, subgroup",
        "pictures",
        "accuracy",
        "balanced accuracy",
        "malignant sensitivity",
    )
    assert [row.header for row in site.rows] == ["trunk, light", "trunk, dark", "head & <b>neck</b>, light"]
    first = site.rows[0].cells
    assert [cell.text for cell in first] == ["40", "75.0\u202f%", "70.0\u202f%", "–"]
    assert [cell.note for cell in first] == ["", "60.0 to 85.0", "", ""]


def test_a_group_with_too_few_pictures_shows_no_number(report):
    data = with_intersections(report, {"site": {"trunk": {"dark": None}}})
    (table,) = intersection_tables(data)

    assert table.rows[0].cells[0].text == "too few to tell"
    assert not any(re.search(r"\d", cell.text + cell.note) for cell in table.rows[0].cells)
    assert "too few to tell" in render_report(data)
