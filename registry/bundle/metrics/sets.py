"""Coverage and size of prediction sets, from score histograms: exact, since sets are made from score bins.

Class k is in a picture's set if and only if `score_bin(p_k) >= threshold_bin`.
"""

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.count import Counts
from registry.bundle.metrics.ratio import Figure, ratio


def label_histogram(counts: Counts) -> NDArray[np.int64]:
    """Histogram of p_y, the probability of the true class, `(..., bins)`."""
    return np.asarray(counts.scores[..., 1, :].sum(axis=-2))


def coverage_at(counts: Counts, threshold_bin: int) -> Figure:
    """The share of pictures whose set holds the true class."""
    return ratio(label_histogram(counts)[..., threshold_bin:].sum(axis=-1), counts.n)


def mean_set_size_at(counts: Counts, threshold_bin: int) -> Figure:
    """The mean number of classes in a picture's set."""
    return ratio(counts.scores[..., threshold_bin:].sum(axis=(-3, -2, -1)), counts.n)
