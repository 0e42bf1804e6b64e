"""Limits of the calibration errors, which are distances from calibration (`distances`).

Their parts are acc(B_v) − conf(B_v) in the bins of the reliability diagram, with Wilson's limits of acc(B_v)
around it: under 0 and over 0 by its own confidence where that is the less certain.
"""

import numpy as np

from registry.bundle.counts.histograms import Counts
from registry.bundle.metrics.calibration import reliability
from registry.bundle.metrics.distances import Distance
from registry.bundle.metrics.limits import Limits, wilson
from registry.bundle.metrics.ratio import Figure, ratio
from registry.bundle.metrics.sample import Sample


def expected_error(sample: Sample[Counts]) -> Distance:
    """ECE: Σ_v |B_v| / n |acc(B_v) − conf(B_v)|."""
    parts, share = _gaps(sample)
    return Distance(lambda gaps: (share * np.abs(gaps)).sum(axis=-1), parts)


def largest_error(sample: Sample[Counts]) -> Distance:
    """MCE: max_v |acc(B_v) − conf(B_v)|."""
    parts, share = _gaps(sample)
    return Distance(lambda gaps: np.where(np.isnan(share), np.nan, np.abs(gaps)).max(axis=-1), parts)


def _gaps(sample: Sample[Counts]) -> tuple[Limits, Figure]:
    """The gaps with their limits, and the share of pictures of each bin; 0 in empty bins."""
    diagram = reliability(sample.counts)
    support = sample.counts.confusion.sum(axis=-1).astype(np.float64)
    n = diagram.n / sample.effect.of_pictures(support)[..., np.newaxis]
    held = diagram.n > 0
    accuracy = wilson(np.where(held, diagram.accuracy, 0.0) * n, n)
    gap = np.where(held, diagram.accuracy - diagram.confidence, 0.0)
    below, above = accuracy.value - accuracy.low, accuracy.high - accuracy.value
    parts = Limits(gap, np.where(held, gap - below, 0.0), np.where(held, gap + above, 0.0))
    return parts, ratio(diagram.n, diagram.n.sum(axis=-1, keepdims=True))
