"""The bins of scores between 0 and 1: scores are counted, and compared with thresholds, by bin."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

SCORE_BINS = 500
"""Bins of a score: bin i holds [i/500, (i+1)/500), the last one is closed."""


def score_bin(scores: NDArray[Any]) -> NDArray[np.int64]:
    """The bin of each score, floor(500 p) within 0 to 499, in the shape of `scores`.

    Computed in float64 wherever a score is compared with a threshold, so that what was counted and
    what is decided agree to the last picture.
    """
    bins = np.floor(np.asarray(scores, dtype=np.float64) * SCORE_BINS).astype(np.int64)
    return np.clip(bins, 0, SCORE_BINS - 1)


def malignancy_probability(probabilities: NDArray[Any], malignant: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The summed probability of the malignant classes, `(..., classes)` to `(...)`."""
    summed: NDArray[np.float64] = np.asarray(probabilities, dtype=np.float64)[..., malignant].sum(axis=-1)
    return summed
