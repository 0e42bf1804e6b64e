"""The report's intervals are those of the summary."""

import numpy as np

from personalization.report.measures import MEASURES, Estimate, estimate, estimate_over
from registry.bundle.labels import Label
from registry.bundle.metrics.summary import FAIRNESS, summarise

TWO = (
    Label(code="MEL", name="Melanoma", malignancy="malignant"),
    Label(code="NV", name="Nevus", malignancy="benign"),
)


def ends_of(found):
    return None if found.low is None else [found.low, found.high]


def test_figures_of_all_pictures_are_those_of_the_summary(block):
    counts = block(28, 4, 30, 10)
    summary = summarise({"light": counts}, TWO, ["light"])

    for measure in MEASURES:
        found = estimate(measure.key, counts, np.array([True, False]))
        assert found.value == summary[measure.key]
        assert ends_of(found) == summary["intervals"][measure.key]
        assert found.low < found.value < found.high


def test_figures_between_subgroups_are_those_of_the_summary(block):
    counts = {"light": block(8, 2, 30, 10), "dark": block(5, 5, 9, 5)}
    told = summarise(counts, TWO, list(counts))["fairness"]

    for name in FAIRNESS:
        found = estimate_over(name, counts)
        assert (found.value, ends_of(found)) == (told[name], told["intervals"][name])


def test_what_is_undefined_is_neither_a_figure_nor_an_interval(block):
    assert estimate("auroc", block(5, 5, 0, 0)) == Estimate(None)
    assert estimate_over("spread", {"a": block(5, 5, 5, 5)}) == Estimate(None)
