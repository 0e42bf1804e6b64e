"""The reliability diagram: how often answers of a confidence were right, drawn as SVG.

A model whose confidence can be trusted lies on the diagonal. Drawn are bins with enough test pictures; each
mark carries the 95 % interval of its share (Wilson), so that a few pictures do not look like a fault.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from registry.bundle.counts.counts import ScoreHistograms
from registry.bundle.counts.score_bins import LOGIT_BINS
from registry.bundle.metrics.intervals import mean_interval

BINS = 10
LEAST = 10
"""Test pictures that a bin must have to be drawn."""


@dataclass(frozen=True)
class Mark:
    """One bin.

    Attributes:
        confidence: the mean confidence in it.
        right: the share that was right, with its interval.
        n: test pictures in it.
    """

    confidence: float
    right: float
    interval: tuple[float, float]
    n: int


def reliability(histograms: ScoreHistograms) -> list[Mark]:
    """The bins with enough pictures, by confidence; none where the bundle does not tell what was right."""
    if histograms.right is None:
        return []
    all_, right = np.array(histograms.confidence), np.array(histograms.right)
    middles = LOGIT_BINS.middles
    tenths = (middles * BINS).astype(int)
    marks = []
    for place in (tenths == tenth for tenth in range(BINS)):
        n, k = int(all_[place].sum()), int(right[place].sum())
        if n >= LEAST:
            low, high = mean_interval(np.array([k]), np.array([n]))
            mean = float((all_[place] * middles[place]).sum() / n)
            marks.append(Mark(mean, k / n, (low, high), n))
    return marks


def points(marks: Sequence[Mark], side: float) -> list[dict[str, float | int]]:
    """The marks in a square of `side` units, whose origin is above on the left."""
    return [
        {
            "x": round(side * mark.confidence, 1),
            "y": round(side * (1 - mark.right), 1),
            "low": round(side * (1 - mark.interval[0]), 1),
            "high": round(side * (1 - mark.interval[1]), 1),
            "n": mark.n,
        }
        for mark in marks
    ]
