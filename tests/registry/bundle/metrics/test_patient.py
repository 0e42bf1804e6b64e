import numpy as np
import pytest

from registry.bundle.counts.count import count
from registry.bundle.manifest.labels import Label
from registry.bundle.metrics.patient import (
    ALL,
    FIGURES,
    NO_MALIGNANT,
    NO_OTHER,
    UNKNOWN,
    patient_figures,
    sides,
)
from registry.bundle.metrics.summary import summarise

LABELS = [Label(code="MEL", name="Melanoma", malignancy="malignant"),
          Label(code="NV", name="Naevus", malignancy="benign")]  # fmt: skip


def block(found, missed, cleared, suspected, malignant=(True, False)):
    labels = np.repeat([0, 0, 1, 1], [found, missed, cleared, suspected])
    answers = np.repeat([0, 1, 1, 0], [found, missed, cleared, suspected])
    probabilities = np.full((len(labels), 2), 0.2)
    probabilities[np.arange(len(labels)), answers] = 0.8
    return count(probabilities, labels, malignant=np.array(malignant))


def told(**blocks):
    return patient_figures(summarise(blocks, LABELS, list(blocks)))


def test_how_many_of_either_side_is_told():
    summary = summarise({"dark": block(18, 3, 60, 19), "light": block(40, 10, 80, 20)}, LABELS, ["dark"])
    assert sides(summary["by_subgroup"]["dark"]) == "21 malignant, 79 other"
    assert sides(summary) == "71 malignant, 179 other"
    assert sides({"n": 40}) == sides({"n_malignant": -1, "n_other": 3}) == ""


def test_each_subgroup_has_what_counts_with_its_numbers_and_intervals():
    found = told(dark=block(18, 3, 60, 19), light=block(40, 10, 80, 20))
    dark = found["dark"].figures
    assert list(dark) == list(FIGURES)
    assert dark["malignant_sensitivity"].value == pytest.approx(18 / 21)
    assert dark["malignant_sensitivity"].interval == pytest.approx((0.637, 0.970), abs=0.001)
    assert dark["malignant_specificity"].value == pytest.approx(60 / 79)
    assert dark["balanced_accuracy"].value == pytest.approx((18 / 21 + 60 / 79) / 2)
    assert (found["dark"].n, found["dark"].n_malignant, found["dark"].n_other) == (100, 21, 79)
    assert found[ALL].figures["malignant_sensitivity"].value == pytest.approx(58 / 71)


def test_a_figure_on_one_picture_is_told_with_its_interval():
    found = told(dark=block(1, 0, 1, 0))["dark"].figures["malignant_sensitivity"]
    assert str(found) == "1.000 (0.025 to 1.000)"


def test_why_there_is_no_figure_is_said_in_words():
    found = told(dark=block(0, 0, 9, 1), light=block(8, 2, 0, 0), medium=block(5, 5, 5, 5))
    dark, light = found["dark"].figures, found["light"].figures
    assert str(dark["malignant_sensitivity"]) == str(dark["malignancy_auroc"]) == NO_MALIGNANT
    assert str(dark["malignant_specificity"]).startswith("0.900 (")
    assert str(light["malignant_specificity"]) == str(light["malignancy_auroc"]) == NO_OTHER
    assert str(light["malignant_sensitivity"]).startswith("0.800 (")


def test_labels_of_one_kind_are_not_said_to_lack_malignant_pictures():
    benign = [label.model_copy(update={"malignancy": "benign"}) for label in LABELS]
    summary = summarise({"dark": block(8, 2, 9, 1, malignant=(False, False))}, benign, ["dark"])
    figures = patient_figures(summary)["dark"].figures
    assert str(figures["malignant_sensitivity"]) == str(figures["malignancy_auroc"]) == UNKNOWN
    assert figures["balanced_accuracy"].value == pytest.approx(0.85)


def test_the_working_point_is_told_where_there_is_one():
    row = {"n": 9, "sensitivity_at_threshold": 0.95, "intervals": {"sensitivity_at_threshold": [0.8, 0.99]}}
    figures = patient_figures({"by_subgroup": {"dark": row}})["dark"].figures
    assert str(figures["sensitivity_at_threshold"]) == "0.950 (0.800 to 0.990)"
    assert "specificity_at_threshold" not in figures


@pytest.mark.parametrize("row", [
    {"n": 40, "malignant_sensitivity": 0.5},
    {"n": "many", "malignant_sensitivity": 0.5, "intervals": [0, 1]},
    {"n": 40, "n_malignant": -1, "malignant_sensitivity": 0.5,
     "intervals": {"malignant_sensitivity": [1, 0]}},
])  # fmt: skip
def test_figures_of_another_version_are_told_as_far_as_they_go(row):
    found = patient_figures({"by_subgroup": {"dark": row, "light": None}})
    assert set(found) == {ALL, "dark"}
    assert found["dark"].n_malignant is None
    assert str(found["dark"].figures["malignant_sensitivity"]) == "0.500"
    assert str(found["dark"].figures["malignant_specificity"]) == UNKNOWN
