"""The report's intervals are those of the summary."""

import numpy as np
import pytest

from personalization.report.measures import BY_KEY, MEASURES, Estimate, estimate, estimate_over
from registry.bundle.manifest.labels import Label
from registry.bundle.metrics import fairness
from registry.bundle.metrics.calibration import ece
from registry.bundle.metrics.classification import accuracy
from registry.bundle.metrics.summary import FAIRNESS, summarise

TWO = (
    Label(code="MEL", name="Melanoma", malignancy="malignant"),
    Label(code="NV", name="Nevus", malignancy="benign"),
)


def ends_of(found):
    return None if found.low is None else [found.low, found.high]


def test_figures_of_all_pictures_are_those_of_the_summary(block):
    counts = block(8, 2, 30, 10)
    summary = summarise({"light": counts}, TWO, ["light"])

    for measure in MEASURES:
        found = estimate(measure.figure, counts)
        assert found.value == summary[measure.key]
        assert ends_of(found) == summary["intervals"][measure.key]


def test_figures_between_subgroups_are_those_of_the_summary(block):
    counts = {"light": block(8, 2, 30, 10), "dark": block(5, 5, 9, 5)}
    told = summarise(counts, TWO, list(counts))["fairness"]

    for name, figure in FAIRNESS.items():
        if name != "worst":
            found = estimate_over(figure, counts)
            assert (found.value, ends_of(found)) == (told[name], told["intervals"][name])


def test_noise_is_taken_off_a_distance_and_off_nothing_else(block):
    """Percentiles of the replicates, by NumPy, are the ends of an accuracy and not those of an error."""
    counts = block(9, 1, 30, 10)

    def percentiles(figure):
        return list(np.quantile(figure(counts.replicates), [0.025, 0.975]))

    assert ends_of(estimate(accuracy, counts)) == pytest.approx(percentiles(accuracy))
    assert estimate(ece, counts).low < percentiles(ece)[0]
    assert estimate(ece, counts).high == pytest.approx(percentiles(ece)[1])


def test_without_replicates_only_accuracies_have_an_interval(block):
    """Of 10 of 10 the exact interval of 95 % starts at 0.025 ** (1 / 10)."""
    counts = block(5, 0, 5, 0)

    assert estimate(accuracy, counts).low == pytest.approx(0.025**0.1)
    assert estimate(BY_KEY["auroc"].figure, counts).low is None
    assert estimate_over(fairness.spread, {"a": counts, "b": block(5, 5, 5, 5)}) == Estimate(0.5)
