"""Calibration figures: whether the confidence matches how often the answer is right (paper 002, Eqs. 13, 14).

Confidence is the highest probability, seen as the middle of its bin.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.count import Counts
from registry.bundle.metrics.ratio import Figure, ratio

Binning = Literal["mass", "width"]
"""`mass`: adaptive bins that hold equally many pictures; `width`: bins of equal width."""

RELIABILITY_BINS = 15


@dataclass(frozen=True)
class Reliability:
    """A reliability diagram: one entry per bin B_v, every array `(..., bins)`.

    Attributes:
        lower: the lowest confidence of the bin; nan for an empty bin, as in the next three.
        upper: the highest confidence of the bin.
        confidence: conf(B_v), the mean confidence.
        accuracy: acc(B_v), the share of right answers.
        n: |B_v|, the number of pictures.
    """

    lower: Figure
    upper: Figure
    confidence: Figure
    accuracy: Figure
    n: NDArray[np.int64]


def reliability(counts: Counts, bins: int = RELIABILITY_BINS, binning: Binning = "mass") -> Reliability:
    """Mean confidence against accuracy in `bins` bins of confidence.

    Bins of equal mass cannot divide the pictures of one score bin, so they are as equal as whole score
    bins allow: a score bin belongs to the v-th part of the pictures in which its middle picture lies.
    """
    scale = counts.bins
    total = counts.confidence.sum(axis=-2)
    n = total.sum(axis=-1, keepdims=True)
    if binning == "mass":
        middle_twice = 2 * np.cumsum(total, axis=-1) - total
        part = np.minimum(middle_twice * bins // np.maximum(2 * n, 1), bins - 1)
    else:
        part = np.broadcast_to((scale.middles * bins).astype(np.int64), total.shape)
    member = (part[..., np.newaxis, :] == np.arange(bins)[:, np.newaxis]) & (total > 0)[..., np.newaxis, :]

    size = (member * total[..., np.newaxis, :]).sum(axis=-1)
    right = (member * counts.confidence[..., np.newaxis, 1, :]).sum(axis=-1)
    confidence = (member * (total * scale.middles)[..., np.newaxis, :]).sum(axis=-1)
    first, last = member.argmax(axis=-1), len(scale) - member[..., ::-1].argmax(axis=-1)
    return Reliability(
        lower=np.where(size > 0, scale.edges[first], np.nan),
        upper=np.where(size > 0, scale.edges[last], np.nan),
        confidence=ratio(confidence, size),
        accuracy=ratio(right, size),
        n=size,
    )


def ece(counts: Counts, bins: int = RELIABILITY_BINS, binning: Binning = "mass") -> Figure:
    """Expected calibration error, sum_v |B_v| / s |acc(B_v) - conf(B_v)| with s all pictures (Eq. 13)."""
    diagram = reliability(counts, bins, binning)
    gaps = np.abs(diagram.accuracy - diagram.confidence)
    return ratio(np.where(diagram.n > 0, diagram.n * gaps, 0.0).sum(axis=-1), diagram.n.sum(axis=-1))


def mce(counts: Counts, bins: int = RELIABILITY_BINS, binning: Binning = "mass") -> Figure:
    """Maximum calibration error, max_v |acc(B_v) - conf(B_v)| (Eq. 14)."""
    diagram = reliability(counts, bins, binning)
    gaps = np.where(diagram.n > 0, np.abs(diagram.accuracy - diagram.confidence), -1.0).max(axis=-1)
    return np.where(diagram.n.sum(axis=-1) > 0, gaps, np.nan)
