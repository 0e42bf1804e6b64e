"""Limits of the calibration errors, which are distances from calibration (`distances`).

Their parts are acc(B_v) − conf(B_v) in the bins of the reliability diagram, with the exact limits of
acc(B_v).

- ECE = Σ_v |B_v|/n |acc(B_v) − conf(B_v)| is at least |acc − conf| of all pictures, which has exact limits.
  Its upper limit is that of this one or of the form that ECE has near what was seen, whichever is higher: acc
  − conf of the bins that are too little confident, and conf − acc of the others, two proportions (MOVER).
- MCE is the largest part: its upper limit is the farthest limit of any.
"""

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.histograms import Counts
from registry.bundle.metrics.calibration import reliability
from registry.bundle.metrics.distances import Distance
from registry.bundle.metrics.exact import exact_limits
from registry.bundle.metrics.limits import Limits
from registry.bundle.metrics.ratio import Figure, ratio
from registry.bundle.metrics.sample import Sample


class _Diagram:
    """A reliability diagram of independent pictures, every array `(..., bins)` and without nan.

    Attributes:
        n: pictures of each bin, as many as independent ones.
        right: those of them that are answered rightly.
        share: of all pictures.
        confidence: the mean confidence.
    """

    def __init__(self, sample: Sample[Counts]) -> None:
        found = reliability(sample.counts)
        held = found.n > 0
        support = sample.counts.confusion.sum(axis=-1).astype(np.float64)
        self.n = found.n / sample.effect.of_pictures(support)[..., np.newaxis]
        self.right = np.where(held, found.accuracy, 0.0) * self.n
        self.confidence = np.where(held, found.confidence, 0.0)
        self.share = ratio(found.n, found.n.sum(axis=-1, keepdims=True))
        accuracy = exact_limits(self.right, self.n)
        self.gaps = Limits(
            *(
                np.where(held, each - self.confidence, 0.0)
                for each in (accuracy.value, accuracy.low, accuracy.high)
            )
        )

    def pooled(self, bins: NDArray[np.bool_]) -> tuple[Figure, Limits]:
        """The share of pictures in some bins, and the exact limits of how many are right in them, `(...)`."""
        right, n = (np.where(bins, each, 0.0).sum(axis=-1) for each in (self.right, self.n))
        return np.where(bins, self.share, 0.0).sum(axis=-1), exact_limits(right, n)


def expected_error(sample: Sample[Counts]) -> Distance:
    """ECE, `(...)`."""
    diagram = _Diagram(sample)

    def size(gaps: Figure) -> Figure:
        return np.asarray((diagram.share * np.abs(gaps)).sum(axis=-1))

    modest = diagram.gaps.value >= 0
    under, at_right = diagram.pooled(modest)
    over, at_wrong = diagram.pooled(~modest)
    up = np.hypot(under * (at_right.high - at_right.value), over * (at_wrong.value - at_wrong.low))
    _, accuracy = diagram.pooled(np.ones_like(modest))
    confidence = (diagram.share * diagram.confidence).sum(axis=-1)
    too_low, too_high = accuracy.low - confidence, accuracy.high - confidence
    high = np.maximum(size(diagram.gaps.value) + up, np.maximum(-too_low, too_high))
    return Distance(size, diagram.gaps, high, np.maximum(np.maximum(too_low, -too_high), 0.0))


def largest_error(sample: Sample[Counts]) -> Distance:
    """MCE, `(...)`."""
    diagram = _Diagram(sample)
    known = diagram.share[..., 0] * 0  # nan where there is no picture

    def size(gaps: Figure) -> Figure:
        return np.asarray(np.abs(gaps).max(axis=-1) + known)

    high = np.maximum(size(diagram.gaps.low), size(diagram.gaps.high))
    return Distance(size, diagram.gaps, high)
