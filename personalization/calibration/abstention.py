"""Selective prediction: the confidence threshold below which a picture is referred to a clinician.

Selective classification with the highest probability as confidence (Geifman & El-Yaniv 2017, equations 1
and 2): coverage is the share of pictures answered, selective risk the share of wrong ones among them. A
picture is reported iff score_bin(max p) ≥ threshold_bin.

The risk that is promised holds on new patients: at most `failures` of all calibrations choose a threshold
whose true risk is over the target. Up to five thresholds are tested, the most confident first (Learn then
Test, Angelopoulos et al. 2021): each reports another fifth of the calibration pictures, and is allowed if the
upper exact limit (Clopper & Pearson 1934) of its risk, at its share of `failures`, is at most the target. Its
share is an equal part, with that of the one before where that was allowed (the fallback procedure, Wiens
2003). Of those allowed the one of largest coverage is taken. For a target of 0.1 it takes 22 pictures, all
answered rightly.

Departures: the paper's bound over all thresholds is wider at these numbers of pictures. The threshold is no
lower than that of the prediction set: where no class is in the set, none is credible.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from registry.bundle.counts.score_bins import SCORE_BINS
from registry.bundle.metrics.exact import exact_high
from training.config import FrozenConfig

STEPS: Final = 5  # thresholds that are tested


class AbstentionConfig(FrozenConfig):
    """The error that is accepted among answered pictures."""

    target_risk: float = Field(0.1, ge=0, lt=1)  # share of wrong answers among those given
    failures: float = Field(0.1, gt=0, lt=0.5)  # share of calibrations whose threshold may miss the target


@dataclass(frozen=True)
class AbstentionThreshold:
    """The lowest confidence bin at which an answer is given.

    Attributes:
        threshold_bin: report iff score_bin(max p) ≥ this; SCORE_BINS, above every bin, refers always.
        target_risk: the risk that was asked for.
        risk: share of wrong answers among the reported calibration pictures; None when all are referred.
        coverage: share of calibration pictures that are reported.
        n: calibration pictures, reported or not.
        risk_high: the upper limit of the risk, at most the target; None when all are referred.
        level: how sure that is, over all calibrations. Both are None of a version that did not tell.
    """

    threshold_bin: int
    target_risk: float
    risk: float | None
    coverage: float
    n: int
    risk_high: float | None = None
    level: float | None = None

    @property
    def refers_always(self) -> bool:
        """Whether no threshold meets the target, so that every picture goes to a clinician."""
        return self.threshold_bin == SCORE_BINS


def fit_abstention(
    confidence: NDArray[np.int64], config: AbstentionConfig, lowest: int = 0
) -> AbstentionThreshold:
    """The threshold of largest coverage whose risk is shown to be at most the target.

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
    level = 1 - config.failures
    chosen, high = None, None
    share = 0.0
    tested = bins_to_test(reported, lowest, config)
    for threshold in tested:
        share += config.failures / len(tested)
        limit = upper_limit(int(errors[threshold]), int(reported[threshold]), share)
        if limit <= config.target_risk:
            chosen, high = threshold, limit
        else:
            share = 0.0
    if chosen is None:
        return AbstentionThreshold(SCORE_BINS, config.target_risk, None, 0.0, n, None, level)
    return AbstentionThreshold(
        chosen,
        config.target_risk,
        float(errors[chosen] / reported[chosen]),
        float(reported[chosen] / n),
        n,
        high,
        level,
    )


def bins_to_test(reported: NDArray[np.int64], lowest: int, config: AbstentionConfig) -> list[int]:
    """The thresholds that are tested, most confident first; which, only confidence says.

    For each fifth of all pictures the lowest bin with a picture that reports no more of them. Those that
    could not be allowed with every answer right are left out.

    Args:
        reported: pictures at or above each bin, `(bins,)`.
        lowest: no threshold is below it.
        config: the target.
    """
    n = int(reported[0])
    occupied = np.append(reported[:-1] > reported[1:], reported[-1] > 0)
    occupied[:lowest] = False
    enough = np.log(config.failures) / np.log1p(-config.target_risk) if config.target_risk else np.inf
    bins: list[int] = []
    for step in range(1, STEPS + 1):
        within = np.flatnonzero(occupied & (reported <= np.ceil(n * step / STEPS)) & (reported >= enough))
        if len(within) and within[0] not in bins:
            bins.append(int(within[0]))
    return bins


def upper_limit(errors: int, n: int, share: float) -> float:
    """The exact upper limit of `errors` of n, which the truth is above in at most this share of draws."""
    return float(exact_high(np.array(float(errors)), np.array(float(n)), 1 - 2 * share))
