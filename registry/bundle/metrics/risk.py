"""The variance of the area under the risk-coverage curve, as of a weighted sum of wrong answers.

With the order of confidence given, AURC = Σ_b w_b x_b of x_b wrong answers of confidence b, and w_b what one
adds there: those of high confidence add most. Its variance is Σ_b d w_b² x_b with d the design effect, as of
Poisson counts. It is smoothed by half a wrong answer of the largest weight that there is (as the upper limit
of Fay & Feuer 1997 by a whole one), so that no wrong answer is not certain. The limits follow (`moments`).
"""

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.histograms import Counts
from registry.bundle.metrics.moments import Moments
from registry.bundle.metrics.ratio import harmonic_between
from registry.bundle.metrics.sample import Sample
from registry.bundle.metrics.selective import aurc as area_of

_HALF, _MOST = 0.5, 0.999


def aurc(sample: Sample[Counts]) -> Moments:
    """AURC, `(...)`."""
    counts = sample.counts
    wrong, total = counts.confidence[..., 0, ::-1], counts.confidence.sum(axis=-2)[..., ::-1]
    weight = _weights(total)
    effect = sample.effect.of_pictures(counts.confusion.sum(axis=-1).astype(np.float64))
    largest = np.where(total > 0, weight, 0.0).max(axis=-1) * effect
    value = area_of(counts)
    variance = (weight**2 * wrong).sum(axis=-1) * effect + _HALF * largest**2
    return Moments(value, np.minimum(np.nan_to_num(value) + _HALF * largest, _MOST), variance, value, value)


def _weights(total: NDArray[np.int64]) -> NDArray[np.float64]:
    """What a wrong answer adds to the area, `(..., bins)`, of so many pictures from high to low confidence.

    In `selective.aurc`, W h + w/m (m − N h), it is in W of every bin below its own, and in w of its own.
    """
    above = np.cumsum(total, axis=-1) - total
    n = np.maximum(total.sum(axis=-1, keepdims=True), 1)
    own = 1 - above * harmonic_between(above, above + total) / np.maximum(total, 1)
    below = harmonic_between(above + total, np.broadcast_to(n, total.shape))
    return np.asarray((own + below) / n)
