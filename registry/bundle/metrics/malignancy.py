"""Sensitivity and specificity for malignancy, from the confusion matrix.

A picture is malignant if its class is labelled `malignant`, and called malignant if its answer is such a
class, whichever. Both figures are undefined where the classes are not of both kinds.
"""

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.confusion import HasConfusion
from registry.bundle.metrics.ratio import Figure, Tally, mean_defined, ratio


def malignant_answers(counts: HasConfusion, *, malignant: NDArray[np.bool_]) -> Tally:
    """Malignant pictures called malignant, and all malignant pictures."""
    return _side(counts, malignant, malignant)


def other_answers(counts: HasConfusion, *, malignant: NDArray[np.bool_]) -> Tally:
    """Pictures that are not malignant and not called so, and all that are not malignant."""
    return _side(counts, ~malignant, malignant)


def malignant_sensitivity(counts: HasConfusion, *, malignant: NDArray[np.bool_]) -> Figure:
    """The share of malignant pictures that are called malignant."""
    return mean_defined(ratio(*malignant_answers(counts, malignant=malignant)))


def malignant_specificity(counts: HasConfusion, *, malignant: NDArray[np.bool_]) -> Figure:
    """The share of pictures that are not malignant and not called malignant."""
    return mean_defined(ratio(*other_answers(counts, malignant=malignant)))


def _side(counts: HasConfusion, side: NDArray[np.bool_], malignant: NDArray[np.bool_]) -> Tally:
    rows = counts.confusion[..., side, :]
    if malignant.all() or not malignant.any():
        rows = rows * 0
    of_side = rows.sum(axis=(-2, -1))[..., np.newaxis]
    return rows[..., side].sum(axis=(-2, -1))[..., np.newaxis], of_side
