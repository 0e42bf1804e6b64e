"""Limits of the area under the risk-coverage curve: a weighted sum of wrong answers (Fay & Feuer 1997).

With the order of confidence given, AURC = Σ_b w_b x_b of x_b wrong answers of confidence b, and w_b what one
adds there: those of high confidence add most. As of any weighted sum y of Poisson counts, with v = Σ w² x and
W the largest weight, its limits are quantiles of gamma distributions,

    low = v/(2y) χ²_0.025(2y²/v),  high = v'/(2y') χ²_0.975(2y'²/v'),  y' = y + W, v' = v + W²,

so that no wrong answer has its upper limit too. χ² is that of Wilson & Hilferty (1931).
"""

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.histograms import Counts
from registry.bundle.metrics.limits import Z, Limits
from registry.bundle.metrics.ratio import Figure, harmonic_between, ratio
from registry.bundle.metrics.sample import Sample
from registry.bundle.metrics.selective import aurc


def aurc_limits(sample: Sample[Counts]) -> Limits:
    """AURC with its limits, `(...)`."""
    counts = sample.counts
    wrong, total = counts.confidence[..., 0, ::-1], counts.confidence.sum(axis=-2)[..., ::-1]
    weight = _weights(total)
    effect = sample.effect.of_pictures(counts.confusion.sum(axis=-1).astype(np.float64))
    area = aurc(counts)
    spread = (weight**2 * wrong).sum(axis=-1) * effect
    largest = np.where(total > 0, weight, 0.0).max(axis=-1) * effect
    low = _quantile(area, spread, -Z)
    high = _quantile(area + largest, spread + largest**2, Z)
    return Limits(area, low, np.minimum(high, 1.0))


def _weights(total: NDArray[np.int64]) -> NDArray[np.float64]:
    """What a wrong answer adds to the area, `(..., bins)`, of so many pictures from high to low confidence.

    In `selective.aurc`, W h + w/m (m − N h), it is in W of every bin below its own, and in w of its own.
    """
    above = np.cumsum(total, axis=-1) - total
    n = np.maximum(total.sum(axis=-1, keepdims=True), 1)
    own = 1 - above * harmonic_between(above, above + total) / np.maximum(total, 1)
    below = harmonic_between(above + total, np.broadcast_to(n, total.shape))
    return (own + below) / n


def _quantile(mean: Figure, variance: Figure, z: float) -> Figure:
    """Of the gamma distribution of this mean and variance, at the normal quantile z."""
    half = ratio(variance, 9 * mean**2)  # 2 / (9 ν), with ν = 2 mean² / variance
    root = np.maximum(1 - half + z * np.sqrt(half), 0.0)
    return np.where(np.isnan(mean), np.nan, np.where(mean > 0, mean * root**3, 0.0))
