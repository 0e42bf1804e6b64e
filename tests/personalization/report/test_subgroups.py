""""""

import re

import pytest

from personalization.report.page import render_report
from personalization.report.subgroups import (
    class_table,
    class_tables_over_clients,
    differences_table,
    f1,
    intersection_tables,
    probability,
    unseen_tables,
)
from registry.bundle.labels import Label
from registry.bundle.metrics.summary import over_clients, summarise

OF_NO_KIND = {"malignancy": "unknown"}


def cells(table, row):
    return dict(zip(table.columns[1:], [cell.text for cell in table.rows[row].cells], strict=True))


def test_figures_of_every_disease_by_hand(report, block):
    data = report()
    # In two subgroups together: 32 of 40 melanomas found, 15 of 20 naevi; 5 naevi are called melanoma.
    blocks = {"light": block(20, 8, 5, 5), "dark": block(12, 0, 10, 0)}
    # Of two classes one of which is malignant, AUROC is that of malignancy, which other tables tell.
    assert "AUROC" not in class_table("federate", blocks, data.labels).columns
    table = class_table("federate", blocks, [label.model_copy(update=OF_NO_KIND) for label in data.labels])
    melanoma = cells(table, 0)
    assert [row.header for row in table.rows] == ["Melanoma (MEL)", "Nevus (NV)"]
    assert melanoma["pictures"] == "40"
    assert melanoma["recall"] == "0.800"
    assert melanoma["precision"] == f"{32 / 37:.3f}"
    assert melanoma["F1"] == f"{64 / 77:.3f}"
    # 32 of 40 melanomas and 5 of 20 naevi score 0.8, the others 0.2.
    assert melanoma["AUROC"] == f"{0.8 * 0.75 + (0.8 * 0.25 + 0.2 * 0.75) / 2:.3f}"
    # Whatever the order at one score, the share of melanomas is the same in expectation.
    assert 0.8 < float(melanoma["AUPRC"]) < 0.9
    assert cells(table, 1)["AUPRC"] == "–"  # of 20 pictures
    assert cells(table, 1)["recall"] == "0.750"


def test_a_class_without_pictures_is_absent(report, block):
    table = class_table("federate", {"light": block(0, 0, 5, 1)}, report().labels)
    assert cells(table, 0) == {
        "pictures": "0",
        "recall": "–",
        "precision": "–",
        "F1": "–",
        "AUPRC": "–",
    }


def test_means_over_clients_say_of_how_many(report, block):
    blocks = {"north": block(3, 1, 2, 2), "south": block(1, 1, 0, 0)}
    (table,) = class_tables_over_clients(report(facts=over_clients(blocks, codes=["MEL", "NV"])))
    assert cells(table, 0)["clients"] == "2"
    assert cells(table, 0)["recall"] == f"{(0.75 + 0.5) / 2:.3f}"
    assert cells(table, 1)["clients"] == "1"
    assert table.rows[0].header == "Melanoma (MEL)"


TOLD = [
    {
        "between": ["light", "dark <V>"],
        "figure": "balanced_accuracy_standardised",
        "value": 0.125,
        "interval": [-0.02, 0.25],
        "p": 0.04,
        "p_adjusted": 0.12,
    },
    {
        "between": ["light", "dark <V>"],
        "figure": "malignant_sensitivity",
        "value": -0.3,
        "interval": None,
        "p": None,
        "p_adjusted": None,
    },
    {
        "between": ["light", "dark <V>"],
        "figure": "auroc",
        "value": 0.05,
        "interval": [0.01, 0.1],
        "p": 0.0002,
        "p_adjusted": 0.0006,
    },
]


def summary(*tests):
    return {"job": "small", "stages": [{"name": f"stage {at}", **test} for at, test in enumerate(tests)]}


def test_one_row_per_comparison(report):
    table = differences_table(report(summary=summary({"test": {"differences": TOLD}})))

    assert table.caption == "Differences between subgroups at one mix of diseases"
    assert {row.header for row in table.rows} == {"light − dark <V>"}
    assert [[cell.text for cell in row.cells] for row in table.rows] == [
        ["Balanced accuracy", "12.5\u202fpts", "0.040", "0.120"],
        ["Malignant sensitivity", "−30.0\u202fpts", "–", "–"],
        ["AUROC", "0.050", "<\u202f0.001", "<\u202f0.001"],
    ]
    assert [row.cells[1].note for row in table.rows] == ["−2.0 to 25.0", "", "0.010 to 0.100"]


@pytest.mark.parametrize(
    ("value", "written"),
    [(None, "–"), (1.0, "1.000"), (0.001, "0.001"), (0.00099, "<\u202f0.001"), (0, "<\u202f0.001")],
)
def test_small_probabilities_are_only_said_to_be_small(value, written):
    assert probability(value) == written


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


TWO = (
    Label(code="malignant", name="Malignant", malignancy="malignant"),
    Label(code="benign", name="Benign", malignancy="benign"),
)


def test_both_classes_by_hand(report, block):
    # 6 of 10 malignant found, 80 of 100 benign; 20 benign are called malignant.
    figures = summarise({"all": block(6, 4, 80, 20)}, TWO, ())
    (table,) = unseen_tables(report(facts={"unseen": {"isic-2020": figures}}))
    cells = dict(zip(table.columns[1:], table.rows[0].cells, strict=True))
    assert table.caption == "On clients never seen in training, after stage “federate”"
    assert cells["malignant pictures"].text == "10"
    assert cells["malignant recall"].text == "0.600"
    assert cells["malignant precision"].text == f"{6 / 26:.3f}"
    assert cells["malignant F1"].text == f"{12 / 36:.3f}"  # 2 right / (pictures + answers)
    assert cells["benign recall"].text == "0.800"
    assert cells["benign F1"].text == f"{160 / 184:.3f}"
    assert cells["AUROC"].text == f"{0.6 * 0.8 + (0.6 * 0.2 + 0.4 * 0.8) / 2:.3f}"
    assert " to " in cells["AUROC"].note
    assert cells["ECE"].text != "–"


def test_malignant_comes_first_however_the_classes_are_ordered(report, block):
    figures = summarise(
        {"all": block(30, 10, 8, 12)}, TWO[::-1], ()
    )  # now 30 of 40 benign, 8 of 20 malignant
    (table,) = unseen_tables(report(facts={"unseen": {"isic-2020": figures}}))
    assert table.columns[1:3] == ("malignant pictures", "malignant recall")
    assert [cell.text for cell in table.rows[0].cells[:2]] == ["20", "0.400"]
    assert [cell.text for cell in table.rows[0].cells[4:6]] == ["40", "0.750"]


def test_an_absent_class_has_no_figures(report, block):
    figures = summarise({"all": block(0, 0, 9, 1)}, TWO, ())
    (table,) = unseen_tables(report(facts={"unseen": {"isic-2020": figures}}))
    assert [cell.text for cell in table.rows[0].cells[:4]] == ["0", "–", "–", "–"]
    assert table.rows[0].cells[-2].text == "–"  # AUROC


def test_no_unseen_client_no_table(report):
    assert unseen_tables(report(facts={"unseen": {}})) == ()


@pytest.mark.parametrize(
    ("recall", "precision", "expected"),
    [(0.5, 1.0, 2 / 3), (0.0, 0.0, 0.0), (None, 0.5, None), (0.5, None, None)],
)
def test_f1_is_the_harmonic_mean(recall, precision, expected):
    assert f1(recall, precision) == (None if expected is None else pytest.approx(expected))
