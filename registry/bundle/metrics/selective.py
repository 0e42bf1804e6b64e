"""Selective prediction: risk and coverage by confidence threshold (Geifman & El-Yaniv 2017).

At a threshold, coverage is the share of pictures that are answered and risk the share of wrong
answers among them.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.count import Counts
from registry.bundle.metrics.ratio import Figure, harmonic_between, ratio


@dataclass(frozen=True)
class RiskCoverage:
    """A risk-coverage curve, one entry per score bin as the threshold.

    Attributes:
        threshold_bin: a picture is answered if its confidence bin is at least this, `(bins,)`.
        coverage: the share of pictures answered, `(..., bins)`.
        risk: the share of wrong answers among them, `(..., bins)`; nan where none is answered.
    """

    threshold_bin: NDArray[np.int64]
    coverage: Figure
    risk: Figure


def risk_coverage(counts: Counts) -> RiskCoverage:
    """Coverage and risk at every threshold."""
    answered = counts.confidence[..., ::-1].cumsum(axis=-1)[..., ::-1]
    covered = answered.sum(axis=-2)
    return RiskCoverage(
        threshold_bin=np.arange(len(counts.bins)),
        coverage=ratio(covered, covered[..., :1]),
        risk=ratio(answered[..., 0, :], covered),
    )


def aurc(counts: Counts) -> Figure:
    """Area under the risk-coverage curve: the mean over i = 1..n of the risk among the i most confident.

    Pictures of one score bin are equally confident, and enter in expectation over their order. With
    N pictures of which W wrong above the bin, and m of which w wrong in it, they add
    sum_{j=1..m} (W + w j/m) / (N + j) = W h + w/m (m - N h), where h = sum_{j=1..m} 1/(N + j).
    """
    wrong, total = counts.confidence[..., 0, ::-1], counts.confidence.sum(axis=-2)[..., ::-1]
    wrong_above = np.cumsum(wrong, axis=-1) - wrong
    above = np.cumsum(total, axis=-1) - total
    n = total.sum(axis=-1)
    h = harmonic_between(above, above + total)
    share_wrong = wrong / np.maximum(total, 1)
    return ratio((wrong_above * h + share_wrong * (total - above * h)).sum(axis=-1), n)
