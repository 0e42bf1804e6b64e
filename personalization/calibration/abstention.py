"""Selective prediction: the confidence threshold below which a picture is referred to a clinician.

Selective classification with the highest probability as confidence (Geifman & El-Yaniv 2017, equations 1
and 2): coverage is the share of pictures answered, selective risk the share of wrong ones among them. The
threshold is the one of largest coverage whose risk on the calibration split is at most the target.
A picture is reported iff score_bin(max p) ≥ threshold_bin.

Departures: the paper's bound that holds with high probability is replaced by the observed risk,
`min_reported` keeps a handful of lucky pictures from opening the gate, and the threshold is no lower than
that of the prediction set: where no class is in the set, none is credible, and nothing is reported.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from registry.bundle.counts.score_bins import SCORE_BINS
from training.config import FrozenConfig


class AbstentionConfig(FrozenConfig):
    """The error that is accepted among answered pictures."""

    target_risk: float = Field(0.1, ge=0, lt=1)  # share of wrong answers among those given
    min_reported: int = Field(10, ge=1)  # answered calibration pictures that a threshold must rest on


@dataclass(frozen=True)
class AbstentionThreshold:
    """The lowest confidence bin at which an answer is given.

    Attributes:
        threshold_bin: report iff score_bin(max p) ≥ this; SCORE_BINS, above every bin, refers always.
        target_risk: the risk that was asked for.
        risk: share of wrong answers among the reported calibration pictures; None when all are referred.
        coverage: share of calibration pictures that are reported.
        n: calibration pictures, reported or not.
    """

    threshold_bin: int
    target_risk: float
    risk: float | None
    coverage: float
    n: int

    @property
    def refers_always(self) -> bool:
        """Whether no threshold meets the target, so that every picture goes to a clinician."""
        return self.threshold_bin == SCORE_BINS


def fit_abstention(
    confidence: NDArray[np.int64], config: AbstentionConfig, lowest: int = 0
) -> AbstentionThreshold:
    """The threshold of largest coverage whose selective risk is at most the target.

    Of the bins that give the same coverage the highest is taken: a picture less confident than every
    calibration picture that was reported is referred.

    Args:
        confidence: wrong (0) and right (1) answers to calibration pictures by confidence, `(2, bins)`.
        config: the target.
        lowest: the score bin from which on a class is in the prediction set; below it nothing is reported.
    """
    wrong, right = confidence
    n = int(confidence.sum())
    reported = (wrong + right)[::-1].cumsum()[::-1]  # pictures at or above each bin
    errors = wrong[::-1].cumsum()[::-1]
    risks = errors / np.maximum(reported, 1)
    allowed = (reported >= config.min_reported) & (risks <= config.target_risk)
    allowed[:lowest] = False
    if not allowed.any():
        return AbstentionThreshold(SCORE_BINS, config.target_risk, None, 0.0, n)
    largest = reported[allowed].max()
    threshold_bin = int(np.flatnonzero(allowed & (reported == largest))[-1])
    return AbstentionThreshold(
        threshold_bin, config.target_risk, float(risks[threshold_bin]), float(largest / n), n
    )
