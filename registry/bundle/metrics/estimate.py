"""Figures beside their 95 % intervals, ready for JSON; how the interval of each is made.

| figure | limits |
| --- | --- |
| of right and wrong answers | exact, of effective numbers (`moments`), by its variance (`shares`) |
| an area under a ROC, precision-recall or risk-coverage curve | likewise (`areas`, `risk`) |
| a calibration error | of a distance (`calibration_limits`, `distances`) |
| a fairness figure | of a distance (`fairness_limits`) |
| a mean over clients | as of the figure; clients are independent |
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.confusion import HasConfusion
from registry.bundle.counts.histograms import Counts
from registry.bundle.metrics import areas, risk
from registry.bundle.metrics.calibration_limits import expected_error, largest_error
from registry.bundle.metrics.distances import Distance, mean_distance
from registry.bundle.metrics.limits import Limits
from registry.bundle.metrics.moments import Moments
from registry.bundle.metrics.ratio import Figure
from registry.bundle.metrics.sample import Sample
from registry.bundle.metrics.shares import (
    ACCURACY,
    F1,
    PRECISIONS,
    RECALLS,
    SPECIFICITIES,
    Shares,
    by_pictures,
    each_share,
    malignant_answers,
    mean_share,
    other_answers,
)

ANSWERS: Mapping[str, Callable[[Sample[HasConfusion]], Moments]] = {
    "accuracy": lambda sample: mean_share(ACCURACY, sample),
    "balanced_accuracy": lambda sample: mean_share(RECALLS, sample),
    "macro_precision": lambda sample: mean_share(PRECISIONS, sample),
    "macro_f1": lambda sample: mean_share(F1, sample),
    "weighted_precision": lambda sample: by_pictures(PRECISIONS, sample),
    "weighted_recall": lambda sample: mean_share(ACCURACY, sample),
    "weighted_f1": lambda sample: by_pictures(F1, sample),
    "specificity": lambda sample: mean_share(SPECIFICITIES, sample),
}
"""Figures of right and wrong answers: a confusion matrix is enough."""

MALIGNANCY: Mapping[str, Callable[[NDArray[np.bool_]], Shares]] = {
    "malignant_sensitivity": malignant_answers,
    "malignant_specificity": other_answers,
}
"""Shares that need to know which classes are malignant."""

AREAS: Mapping[str, Callable[[Sample[Counts]], Moments]] = {
    "auroc": areas.auroc,
    "auprc": areas.auprc,
    "malignancy_auroc": areas.malignancy_auroc,
    "aurc": risk.aurc,
}

DISTANCES: Mapping[str, Callable[[Sample[Counts]], Distance]] = {
    "ece": expected_error,
    "mce": largest_error,
}

BY_CLASS: Mapping[str, Callable[[Sample[Counts]], Moments]] = {
    "recall": lambda sample: each_share(RECALLS, sample),
    "precision": lambda sample: each_share(PRECISIONS, sample),
    "f1": lambda sample: each_share(F1, sample),
    "specificity": lambda sample: each_share(SPECIFICITIES, sample),
    "auroc": areas.aurocs,
    "auprc": areas.auprcs,
}
"""Of each class, `(..., classes)`."""


def limits_of(name: str, sample: Sample[Any], malignant: NDArray[np.bool_] | None = None) -> Limits:
    """The limits of a figure by its name in `summary.json`.

    Args:
        name: of `ANSWERS`, `AREAS`, `DISTANCES` or `MALIGNANCY`.
        sample: of counts, or of a confusion matrix where that is enough.
        malignant: which classes are malignant, `(classes,)`, where the figure is of `MALIGNANCY`.
    """
    if name in MALIGNANCY:
        assert malignant is not None, f"{name} is of malignant classes"
        return mean_share(MALIGNANCY[name](malignant), sample).limits()
    if name in DISTANCES:
        return DISTANCES[name](sample).limits()
    return _moments(name, sample).limits()


def mean_of_limits(name: str, samples: Sequence[Sample[Counts]]) -> Limits:
    """The limits of the mean of a figure over independent samples, such as clients, that define it."""
    if name in DISTANCES:
        held = [sample for sample in samples if sample.counts.n > 0]
        return mean_distance([DISTANCES[name](sample) for sample in held]).limits()
    return Moments.stack([_moments(name, sample) for sample in samples]).mean().limits()


def _moments(name: str, sample: Sample[Counts]) -> Moments:
    return ANSWERS[name](sample) if name in ANSWERS else AREAS[name](sample)


def number(value: Figure) -> float | None:
    """A figure; None where it is undefined."""
    return None if np.isnan(value) else float(value)


def figures_and_intervals(
    sample: Sample[Any],
    figures: Mapping[str, Callable[[Any], Figure]],
    malignant: NDArray[np.bool_],
) -> dict[str, Any]:
    """`n`, figures of some counts, and their `intervals`.

    Args:
        sample: of the counts of a block or of a cell.
        figures: what to compute, by name.
        malignant: which classes are malignant, `(classes,)`.
    """
    values = {name: figure(sample.counts) for name, figure in figures.items()}
    return {
        "n": int(sample.counts.n),
        **{name: number(value) for name, value in values.items()},
        "intervals": {
            name: None if np.isnan(value) else limits_of(name, sample, malignant).ends()
            for name, value in values.items()
        },
    }
