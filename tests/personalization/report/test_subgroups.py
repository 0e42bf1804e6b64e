"""Tables of test figures by hand: diseases, differences, intersections, unseen clients and parts of cases."""

import re
from dataclasses import replace

import pytest

from personalization.report.page import render_report
from personalization.report.subgroups import (
    class_table,
    class_tables_over_clients,
    differences_table,
    f1,
    harms,
    intersection_tables,
    left_out_tables,
    pattern_tables,
    probability,
    recall_table,
    unseen_tables,
)
from registry.bundle.metrics.summary import over_clients, summarise
from tests.personalization.report.conftest import LABELS, columns, lines, texts

OF_NO_KIND = [label.model_copy(update={"malignancy": "unknown"}) for label in LABELS]
PERCENT, POINTS = "\u202f%", "\u202fpts"


def classes(report, labels=LABELS, **blocks):
    return class_table(report(counts={"federate": blocks}, labels=labels))


def test_figures_of_every_disease_by_hand(report, block):
    # In two subgroups together: 32 of 40 melanomas found, 15 of 20 naevi; 5 naevi are called melanoma.
    blocks = {"light": block(20, 8, 5, 5), "dark": block(12, 0, 10, 0)}
    # Of two classes one of which is malignant, AUROC is that of malignancy, which other tables tell.
    assert "AUROC" not in classes(report, **blocks).header
    table = classes(report, OF_NO_KIND, **blocks)
    melanoma = columns(table)
    # Whatever the order at one score, the share of melanomas is the same in expectation.
    assert 0.8 < float(melanoma.pop("AUPRC")) < 0.9
    assert melanoma == {
        "pictures": "40",
        "recall": "0.800",
        "precision": f"{32 / 37:.3f}",
        "F1": f"{64 / 77:.3f}",
        # 32 of 40 melanomas and 5 of 20 naevi score 0.8, the others 0.2.
        "AUROC": f"{0.8 * 0.75 + (0.8 * 0.25 + 0.2 * 0.75) / 2:.3f}",
    }
    assert [row.head for row in table.rows] == ["Melanoma (MEL)", "Nevus (NV)"]
    naevi = columns(table, 1)
    assert (naevi["AUPRC"], naevi["recall"]) == ("–", "0.750")  # of 20 pictures


def test_a_class_without_pictures_is_absent(report, block):
    table = classes(report, light=block(0, 0, 5, 1))
    assert columns(table) == {"pictures": "0", **dict.fromkeys(("recall", "precision", "F1", "AUPRC"), "–")}


def test_recalls_are_counted_by_hand(report, block):
    table = recall_table(
        report(counts={"federate": {"light": block(23, 2, 9, 1), "dark": block(7, 3, 0, 0)}})
    )
    melanoma, nevus = table.rows
    assert table.header == ("disease", "light", "dark", "all pictures")
    assert melanoma.head == "Melanoma (MEL, malignant)"
    assert [cell.note for cell in melanoma.cells] == ["23 of 25", "7 of 10", "30 of 35"]
    assert texts(nevus) == [f"90.0{PERCENT}", "–", f"90.0{PERCENT}"]


def test_means_over_clients_say_of_how_many(report, block):
    blocks = {"north": block(3, 1, 2, 2), "south": block(1, 1, 0, 0)}
    (table,) = class_tables_over_clients(report(facts=over_clients(blocks, codes=["MEL", "NV"])))
    found = lines(table)
    assert found["Melanoma (MEL)"][:2] == ["2", f"{(0.75 + 0.5) / 2:.3f}"]
    assert found["Nevus (NV)"][0] == "1"


def difference(figure, value, interval, p, adjusted):
    between = {"between": ["light", "dark <V>"], "figure": figure, "value": value, "interval": interval}
    return {**between, "p": p, "p_adjusted": adjusted}


def of_test(report, **test):
    return report(summary={"job": "small", "stages": [{"name": "federate"}, {"name": "x", "test": test}]})


def test_one_row_per_comparison(report):
    differences = [
        difference("balanced_accuracy_standardised", 0.125, [-0.02, 0.25], 0.04, 0.12),
        difference("malignant_sensitivity", -0.3, None, None, None),
        difference("auroc", 0.05, [0.01, 0.1], 0.0002, 0.0006),
    ]
    table = differences_table(of_test(report, differences=differences))
    assert {row.head for row in table.rows} == {"light − dark <V>"}
    assert [texts(row) for row in table.rows] == [
        ["Balanced accuracy", f"12.5{POINTS}", "0.040", "0.120"],
        ["Malignant sensitivity", f"−30.0{POINTS}", "–", "–"],
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


def test_one_table_per_column_and_one_row_per_value_and_subgroup(report):
    told = {
        "body_site": {"trunk": {"light": ENOUGH, "dark": None}, "head & <b>neck</b>": {"light": ENOUGH}},
        "sex": {"female": {"dark": {**ENOUGH, "n": 12}}},
    }
    data = of_test(report, intersections=told)
    site, _ = intersection_tables(data)

    assert site.caption == "Subgroups by body site, with 95 % intervals"
    titles = ("pictures", "accuracy", "balanced accuracy", "malignant sensitivity")
    assert site.header == ("body site, subgroup", *titles)
    assert [row.head for row in site.rows] == ["trunk, light", "trunk, dark", "head & <b>neck</b>, light"]
    enough, too_few, _ = site.rows
    assert texts(enough) == ["40", f"75.0{PERCENT}", f"70.0{PERCENT}", "–"]
    assert [cell.note for cell in enough.cells] == ["", "60.0 to 85.0", "", ""]
    assert too_few.cells[0].text == "too few to tell"
    assert not any(re.search(r"\d", cell.text + cell.note) for cell in too_few.cells)
    assert "too few to tell" in render_report(data)


TWO = tuple(label.model_copy(update={"code": label.malignancy}) for label in LABELS)


def unseen(report, labels, block):
    (table,) = unseen_tables(report(facts={"unseen": {"isic-2020": summarise({"all": block}, labels, ())}}))
    return table


def test_an_unseen_client_has_both_classes_by_hand(report, block):
    # 6 of 10 malignant found, 80 of 100 benign; 20 benign are called malignant.
    table = unseen(report, TWO, block(6, 4, 80, 20))
    assert table.caption == "On clients never seen in training, after stage “federate”"
    found = columns(table)
    assert found.pop("ECE") != "–"
    assert found == {
        "malignant pictures": "10",
        "malignant recall": "0.600",
        "malignant precision": f"{6 / 26:.3f}",
        "malignant F1": f"{12 / 36:.3f}",  # 2 right / (pictures + answers)
        "benign pictures": "100",
        "benign recall": "0.800",
        "benign precision": f"{80 / 84:.3f}",
        "benign F1": f"{160 / 184:.3f}",
        "AUROC": f"{0.6 * 0.8 + (0.6 * 0.2 + 0.4 * 0.8) / 2:.3f}",
    }
    assert " to " in table.rows[0].cells[-2].note
    # However the classes are ordered: now 30 of 40 benign, 8 of 20 malignant.
    turned = unseen(report, TWO[::-1], block(30, 10, 8, 12))
    assert turned.header[1:3] == ("malignant pictures", "malignant recall")
    assert [texts(turned.rows[0])[at : at + 2] for at in (0, 4)] == [["20", "0.400"], ["40", "0.750"]]
    absent = texts(unseen(report, TWO, block(0, 0, 9, 1)).rows[0])
    assert (absent[:4], absent[-2]) == (["0", "–", "–", "–"], "–")
    assert unseen_tables(report(facts={"unseen": {}})) == []


@pytest.mark.parametrize(
    ("recall", "precision", "expected"),
    [(0.5, 1.0, 2 / 3), (0.0, 0.0, 0.0), (None, 0.5, None), (0.5, None, None)],
)
def test_f1_is_the_harmonic_mean(recall, precision, expected):
    assert f1(recall, precision) == (None if expected is None else pytest.approx(expected))


def figures(n, auroc, **more):
    intervals = {"malignancy_auroc": [auroc - 0.03, auroc + 0.03], "reported": [0.2, 0.45]}
    return {"n": n, "malignancy_auroc": auroc, "intervals": intervals, **more}


DECIDED = {"malignant_sensitivity": 0.9, "coverage": 0.95, "set_size": 2.5, "reported": 0.3}
PATTERNS = {
    "close-up": figures(
        500, 0.8, by_subgroup={"dark": figures(20, 0.7), "light": figures(480, 0.85)}, **DECIDED
    ),
    "close-up+dermoscopic+some context": figures(400, 0.9, by_subgroup={"light": figures(400, 0.9)}),
}


def test_every_pattern_has_a_line_for_all_and_for_each_subgroup(report):
    whole, dark, light = pattern_tables(report("calibrate", {"patterns": PATTERNS}))
    assert [row.head for row in whole.rows] == ["close-up", "close-up, dermoscopic; some facts"]
    assert [row.head for row in dark.rows] == ["close-up"]
    assert len(light.rows) == 2
    assert "dark" in dark.caption
    cells = whole.rows[0].cells
    shown = ["500", "0.800", "0.900", "–", f"95.0{PERCENT}", "2.50", f"30.0{PERCENT}"]
    assert texts(whole.rows[0]) == shown
    assert (cells[1].note, cells[-1].note) == ("0.770 to 0.830", "20.0 to 45.0")


@pytest.fixture
def with_harm(report):
    """A report's data in which sex harms dark skin, and age helps everybody."""
    whole = figures(300, 0.85, by_subgroup={"dark": figures(300, 0.7), "light": figures(20, 0.9)})
    left_out = {
        "age": figures(300, 0.75, by_subgroup={"dark": figures(300, 0.6), "light": figures(300, 0.8)}),
        "sex": figures(300, 0.86, by_subgroup={"dark": figures(300, 0.8), "light": figures(300, 0.88)}),
    }
    data = report("calibrate", {"left_out": left_out})
    return replace(data, summary={**data.summary, "stages": [{"name": "calibrate", "test": whole}]})


def test_there_is_a_line_for_everything_and_one_for_each_part(with_harm):
    whole, dark, _ = left_out_tables(with_harm)
    assert [row.head for row in whole.rows] == ["all that is known", "without age", "without sex"]
    assert [texts(row)[1] for row in dark.rows] == ["0.700", "0.600", "0.800"]
    assert dark.rows[0].cells[1].note == "0.670 to 0.730"
    [stage] = with_harm.facts
    earlier = replace(stage, facts={"left_out": {"site": stage.facts["left_out"]["age"]}})
    assert left_out_tables(replace(with_harm, facts=[earlier, stage])) == left_out_tables(with_harm)


def test_only_what_harms_with_intervals_apart_is_named(with_harm):
    said = "sex harms dark: AUROC of malignancy is 0.800 without and 0.700 with it."
    assert tuple(harms(with_harm)) == (said,)
    assert said not in render_report(with_harm)  # there are no patterns: the section is that of cases
    [stage] = with_harm.facts
    facts = {**stage.facts, "patterns": PATTERNS}
    page = render_report(replace(with_harm, facts=[replace(stage, facts=facts)]))
    assert said in page
    assert "No part harms" not in page
