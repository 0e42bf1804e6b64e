import pytest

from personalization.report.subgroups import f1, unseen_tables
from registry.bundle.labels import Label
from registry.bundle.metrics.summary import summarise

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
