"""Mondrian conformal prediction sets, with a stated coverage in every subgroup (Vovk 2012).

Split conformal with the score s = 1 − p_y on the calibration split: the threshold is the score of rank
⌈(n + 1)(1 − α)⌉, rounded to the conservative edge of its bin, or of its run of merged bins. Class k is in the
set iff score_bin(p_k) ≥ threshold_bin, which the service decides with the same bins, so nothing is lost
between fitting and serving.

Given one picture per lesion in the calibration split, the expected coverage is at least
⌈(n + 1)(1 − α)⌉ / (n + 1); over draws of the calibration split the coverage is Beta(rank, n + 1 − rank).
With n < ⌈1/α⌉ − 1 no threshold can promise 1 − α: the set is then every class, and the threshold says so.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from registry.bundle.counts.score_bins import SCORE_BINS, lowest, merge, score_bin
from training.config import FrozenConfig

TRUTH = "truth"  # the request for such a histogram, and its name in the answer


class ConformalConfig(FrozenConfig):
    """The coverage that prediction sets promise."""

    coverage: float = Field(0.9, gt=0, lt=1)  # 1 − α: the probability that the set holds the true class


@dataclass(frozen=True)
class ConformalThreshold:
    """The lowest score bin at which a class is in the prediction set.

    Attributes:
        threshold_bin: class k is in the set iff score_bin(p_k) ≥ this; 0 puts every class in.
        coverage: the coverage that was asked for, 1 − α.
        n: calibration pictures behind the threshold.
        rank: ⌈(n + 1)(1 − α)⌉, the rank of the threshold among the scores.
    """

    threshold_bin: int
    coverage: float
    n: int
    rank: int

    @property
    def guaranteed(self) -> bool:
        """Whether n suffices to promise the coverage; if not, the set is every class."""
        return self.rank <= self.n

    @property
    def expected_coverage(self) -> float:
        """The least expected coverage on new pictures, rank / (n + 1); 1 for the full set."""
        return self.rank / (self.n + 1) if self.guaranteed else 1.0


def count_truths(
    probabilities: NDArray[np.float32],
    labels: NDArray[np.int64],
    patients: NDArray[np.int64],
    smallest_cell: int,
) -> NDArray[np.int64]:
    """The histogram `(bins,)` of pictures by the probability of their true class; those of hospitals add up.

    Each run of neighbours is counted at its lowest bin: a threshold there covers no fewer than are counted.

    Args:
        probabilities: `(pictures, classes)`.
        labels: class indices `(pictures,)`.
        patients: of each picture, `(pictures,)`.
        smallest_cell: the fewest patients of a run.
    """
    scores = score_bin(probabilities[np.arange(len(labels)), labels])
    merged = merge(scores, patients, smallest_cell, lowest, from_below=True)
    return np.bincount(merged, minlength=SCORE_BINS).astype(np.int64)


def examples_needed(coverage: float) -> int:
    """⌈1/α⌉ − 1: the fewest calibration pictures that can promise this coverage."""
    return ceil(1 / (1 - Fraction(str(coverage)))) - 1


def fit_threshold(of_truth: NDArray[np.int64], config: ConformalConfig) -> ConformalThreshold:
    """The Mondrian threshold of one subgroup from its calibration pictures.

    Args:
        of_truth: calibration pictures by the probability of their true class, one of each lesion, `(bins,)`.
        config: the coverage to promise.
    """
    n = int(of_truth.sum())
    # (n + 1)(1 − α) is a whole number often enough (n = 9, α = 0.1) that rounding must not lift it by one.
    rank = ceil((n + 1) * Fraction(str(config.coverage)))
    if rank > n:
        return ConformalThreshold(0, config.coverage, n, rank)
    # The score of rank r is the r-th largest p_y: the highest bin with r pictures at or above it.
    at_or_above = of_truth[::-1].cumsum()[::-1]
    threshold_bin = int(np.flatnonzero(at_or_above >= rank)[-1])
    return ConformalThreshold(threshold_bin, config.coverage, n, rank)
