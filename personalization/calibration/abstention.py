"""Selective prediction: the confidence threshold below which a picture is referred to a clinician.

Selective classification with the highest probability as confidence (Geifman & El-Yaniv 2017, equations 1
and 2): coverage is the share of pictures answered, selective risk the share of wrong ones among them. A
picture is reported iff score_bin(max p) ≥ threshold_bin.

The risk that is promised holds on new patients: at most δ = `failures` of all calibrations choose a threshold
whose true risk is over the target. How many are answered depends on the threshold, so a limit holds for one
that was fixed, not for the best of many (`personalization.calibration.at_thresholds`). So up to five
thresholds are proposed by confidence alone, whatever is right or wrong: each reports another fifth of the
calibration pictures. They share δ (Learn then Test, Angelopoulos et al. 2021): the most confident first, each
is allowed if the upper exact limit (Clopper & Pearson 1934) of its risk, at its share of δ, is at most the
target. Its share is an equal part, with that of the one before where that was allowed (the fallback
procedure, Wiens 2003). Of those allowed the one of largest coverage is taken. Those that could not be allowed
at an equal part with every answer right are not tested, and no part is spent on them. For a target of 0.1
and δ of 0.05 it takes 29 pictures, all answered rightly. Of four ways to share δ this one answers most
(`benchmarks/told_risk.py`).

Departures: the paper's bound over all thresholds is wider at these numbers of pictures. A threshold is the
lowest of the confidences that it reports, so that one picture in each test is not drawn freely, and a working
point that refers some was fitted to the same pictures; that neither breaks the promise is measured
(docs/metrics.md), not proven. No threshold that is lower than that of the prediction set is taken: where no
class is in the set, none is credible.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from personalization.calibration.at_thresholds import STEPS, CountsAt, upper_limit
from registry.bundle.counts.score_bins import SCORE_BINS
from training.config import FrozenConfig


class AbstentionConfig(FrozenConfig):
    """The error that is accepted among answered pictures."""

    target_risk: float = Field(0.1, ge=0, lt=1)  # share of wrong answers among those given
    failures: float = Field(0.05, gt=0, lt=0.5)  # share of calibrations whose threshold may miss the target


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


def fit_abstention(counts: CountsAt, config: AbstentionConfig, lowest: int = 0) -> AbstentionThreshold:
    """The threshold of largest coverage whose risk is shown to be at most the target.

    Labels decide `lowest`. So thresholds below it are tested as the others are, and are not taken.

    Args:
        counts: of all answers (0) and wrong ones (1), at thresholds that `propose_thresholds` gave.
        config: the target.
        lowest: the score bin from which on a class is in the prediction set; no lower threshold is taken.
    """
    n, level = int(counts.n[0]), 1 - config.failures
    chosen = AbstentionThreshold(SCORE_BINS, config.target_risk, None, 0.0, n, None, level)
    share = 0.0
    reported, wrong = counts.from_here
    for threshold, of, errors in reversed(list(zip(counts.thresholds, reported, wrong, strict=True))):
        share += config.failures / len(counts.thresholds)
        limit = float(upper_limit(np.minimum(errors, of), of, 1 - share))
        if limit > config.target_risk:
            share = 0.0
        elif threshold >= lowest:
            risk, coverage = float(errors / of), float(of / n)
            chosen = AbstentionThreshold(threshold, config.target_risk, risk, coverage, n, limit, level)
    return chosen


def propose_thresholds(confidence: NDArray[np.int64], config: AbstentionConfig) -> tuple[int, ...]:
    """The thresholds that are tested, score bins, rising; which, confidence alone decides.

    For each fifth of all pictures the lowest bin with a picture that reports no more of them: a picture less
    confident than every calibration picture that was reported is referred.

    Args:
        confidence: calibration pictures by confidence, `(bins,)`; what is referred anyway in bin 0.
        config: the target.
    """
    n = int(confidence.sum())
    reported = confidence[::-1].cumsum()[::-1]  # pictures at or above each bin
    occupied = confidence > 0
    occupied[0] = False
    steps = np.ceil(n * np.arange(1, STEPS + 1) / STEPS)
    fifths = (np.flatnonzero(occupied & (reported <= most)) for most in steps)
    bins = sorted({int(each[0]) for each in fifths if len(each)})
    for m in range(len(bins), 0, -1):
        none_wrong = upper_limit(np.array(0), reported[bins], 1 - config.failures / m)
        able = [each for each, high in zip(bins, none_wrong, strict=True) if high <= config.target_risk]
        if len(able) >= m:
            return tuple(able[:m])
    return ()
