import numpy as np
import pytest

from registry.bundle.counts.counting import count
from registry.bundle.labels import Label
from registry.bundle.metrics.patient import (
    ALL,
    FIGURES,
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


def test_the_working_point_is_told_where_there_is_one():
    row = {"n": 9, "sensitivity_at_threshold": 0.95, "intervals": {"sensitivity_at_threshold": [0.8, 0.99]}}
    figures = patient_figures({"by_subgroup": {"dark": row}})["dark"].figures
    assert str(figures["sensitivity_at_threshold"]) == "0.950 (0.800 to 0.990)"
    assert "specificity_at_threshold" not in figures
