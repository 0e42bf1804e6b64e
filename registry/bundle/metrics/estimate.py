"""Figures beside their 95 % intervals, ready for JSON; which rule the interval of each figure follows.

| figure | limits |
| --- | --- |
| one proportion | exact, of effective numbers (`shares`) |
| a mean of proportions | MOVER over exact limits (`shares`, `limits`) |
| an area under a ROC or precision-recall curve, and their means | score limits, MOVER (`areas`) |
| a calibration error | of a distance (`calibration_limits`, `distances`) |
| the area under the risk-coverage curve | of a weighted sum (`risk_limits`) |
| a fairness figure | of a distance (`fairness_limits`) |
| a mean over clients | MOVER; of calibration errors that of a distance |
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.confusion import HasConfusion
from registry.bundle.counts.histograms import Counts
from registry.bundle.metrics import areas, shares
from registry.bundle.metrics.calibration_limits import expected_error, largest_error
from registry.bundle.metrics.distances import Distance, mean_distance
from registry.bundle.metrics.limits import Limits, mean_limits
from registry.bundle.metrics.ratio import Figure
from registry.bundle.metrics.risk_limits import aurc_limits
from registry.bundle.metrics.sample import Sample


def _accuracy(sample: Sample[HasConfusion]) -> Limits:
    return shares.single(shares.all_answers(sample.counts.confusion.shape[-1]), sample)


ANSWERS: Mapping[str, Callable[[Sample[HasConfusion]], Limits]] = {
    "accuracy": _accuracy,
    "balanced_accuracy": partial(shares.mean_share, shares.recalls),
    "macro_precision": partial(shares.mean_share, shares.precisions),
    "macro_f1": shares.mean_f1,
    "weighted_precision": partial(shares.mean_share, shares.precisions, weighted=True),
    "weighted_recall": _accuracy,
    "weighted_f1": partial(shares.mean_f1, weighted=True),
    "specificity": partial(shares.mean_share, shares.specificities),
}
"""Figures of right and wrong answers: a confusion matrix is enough."""

MALIGNANCY: Mapping[str, Callable[[NDArray[np.bool_]], shares.Cells]] = {
    "malignant_sensitivity": shares.malignant_answers,
    "malignant_specificity": shares.other_answers,
}
"""Proportions that need to know which classes are malignant."""

SCORES: Mapping[str, Callable[[Sample[Counts]], Limits]] = {
    "auroc": areas.mean_auroc_limits,
    "auprc": areas.mean_auprc_limits,
    "malignancy_auroc": areas.malignancy_auroc_limits,
    "aurc": aurc_limits,
}

DISTANCES: Mapping[str, Callable[[Sample[Counts]], Distance]] = {
    "ece": expected_error,
    "mce": largest_error,
}

BY_CLASS: Mapping[str, Callable[[Sample[Counts]], Limits]] = {
    "recall": partial(shares.per_class, shares.recalls),
    "precision": partial(shares.per_class, shares.precisions),
    "f1": shares.f1_limits,
    "specificity": partial(shares.per_class, shares.specificities),
    "auroc": areas.auroc_limits,
    "auprc": areas.auprc_limits,
}
"""Of each class, `(..., classes)`."""


def limits_of(name: str, sample: Sample[Any], malignant: NDArray[np.bool_] | None = None) -> Limits:
    """The limits of a figure by its name in `summary.json`.

    Args:
        name: of `ANSWERS`, `SCORES`, `DISTANCES` or `MALIGNANCY`.
        sample: of counts, or of a confusion matrix where that is enough.
        malignant: which classes are malignant, `(classes,)`, where the figure is of `MALIGNANCY`.
    """
    if name in MALIGNANCY:
        assert malignant is not None, f"{name} is of malignant classes"
        return shares.single(MALIGNANCY[name](malignant), sample)
    if name in DISTANCES:
        return DISTANCES[name](sample).limits()
    return (ANSWERS | SCORES)[name](sample)


def mean_of_limits(name: str, samples: Sequence[Sample[Counts]]) -> Limits:
    """The limits of the mean of a figure over independent samples, such as clients, that define it."""
    if name in DISTANCES:
        held = [sample for sample in samples if sample.counts.n > 0]
        return mean_distance([DISTANCES[name](sample) for sample in held]).limits()
    return mean_limits(Limits.stack([limits_of(name, sample) for sample in samples]))


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
