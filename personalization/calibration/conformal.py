"""Mondrian conformal prediction sets, with a stated coverage in every subgroup (Vovk 2012).

Split conformal with the score s = 1 − p_y on the calibration split: the threshold is the score of rank
⌈(n + 1)(1 − α)⌉, rounded to the conservative edge of its bin, or of its run of merged bins. Class k is in the
set iff score_bin(p_k) ≥ threshold_bin, which the service decides with the same bins, so nothing is lost
between fitting and serving.

Given one picture per lesion in the calibration split, the expected coverage is at least
⌈(n + 1)(1 − α)⌉ / (n + 1); over draws of the calibration split the coverage is Beta(rank, n + 1 − rank).
With n < ⌈1/α⌉ − 1 no threshold can promise 1 − α: the set is then every class, and the threshold says so.

Out-of-distribution detection: from which Mahalanobis distance on a picture is called unfamiliar.

Split conformal with the distance M(x) of `registry.bundle.model` as the score: the threshold is the
distance of rank ⌈(n + 1)(1 − α)⌉ among the calibration pictures, one per lesion, rounded to the upper edge
of its histogram bin (1.2 % wide), or of its run of merged bins. A picture is called unfamiliar iff
distance_bin(M(x)) > threshold_bin.

So a new picture of the kind that was calibrated on is called unfamiliar with a probability of at most
1 − ⌈(n + 1)(1 − α)⌉ / (n + 1) ≤ α; of m such pictures, the number called so follows at most the beta-binomial
law of (m, n + 1 − rank, rank). With n < ⌈1/α⌉ − 1 there is no threshold, and nothing is called unfamiliar.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from registry.bundle.manifest import OutOfDistribution
from registry.bundle.model import DISTANCE_BINS, Gaussians, distance_bin
from registry.bundle.score_bins import SCORE_BINS, Pick, highest, lowest, merge, score_bin

TRUTH = "truth"  # the request for such a histogram, and its name in the answer


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


def rank_of(n: int, share: Fraction) -> int:
    """⌈(n + 1) share⌉, exactly: rounding would lift whole numbers by one (n = 9, share .9)."""
    return ceil((n + 1) * share)


def examples_needed(coverage: float) -> int:
    """⌈1/α⌉ − 1: the fewest calibration pictures that can promise this coverage."""
    return ceil(1 / (1 - Fraction(str(coverage)))) - 1


def fit_threshold(of_truth: NDArray[np.int64], coverage: float) -> ConformalThreshold:
    """The Mondrian threshold of one subgroup from its calibration pictures.

    Args:
        of_truth: calibration pictures by the probability of their true class, one of each lesion, `(bins,)`.
        coverage: 1 − α, the probability that the set holds the true class.
    """
    n = int(of_truth.sum())
    rank = rank_of(n, Fraction(str(coverage)))
    if rank > n:
        return ConformalThreshold(0, coverage, n, rank)
    # The score of rank r is the r-th largest p_y: the highest bin with r pictures at or above it.
    at_or_above = of_truth[::-1].cumsum()[::-1]
    threshold_bin = int(np.flatnonzero(at_or_above >= rank)[-1])
    return ConformalThreshold(threshold_bin, coverage, n, rank)


def ood_detector(
    gaussians: Gaussians, classes: Sequence[str], trained_on: int, histogram: NDArray[np.int64], rate: float
) -> OutOfDistribution:
    """The detector of one model, as its manifest has it.

    Args:
        gaussians: where its training pictures lie.
        classes: codes of the classes that have a Gaussian.
        trained_on: training pictures behind the Gaussians.
        histogram: the calibration pictures' distances from them.
        rate: α, the share of known pictures that may be called unfamiliar.
    """
    n, place = int(histogram.sum()), ood_threshold(histogram, rate)
    return OutOfDistribution.of(
        gaussians, classes, trained_on=trained_on, rate=rate, n=n, threshold_bin=place
    )


def ood_facts(found: OutOfDistribution | None, rate: float, test: NDArray[np.int64]) -> dict[str, Any]:
    """What is reported of a detector, `test` being the histogram of the test pictures' distances.

    Without one, no class has enough training pictures.
    """
    if found is None:
        return {"threshold": None, "rate": rate, "n": 0, "trained_on": 0, "classes": [], "flagged": None}
    return {
        "threshold": found.threshold,
        "rate": rate,
        "n": found.n,
        "trained_on": found.trained_on,
        "classes": list(found.classes),
        "flagged": flagged(test, found.threshold_bin),
    }


def flagged(histogram: NDArray[np.int64], threshold_bin: int | None) -> float | None:
    """The fraction of counted pictures called unfamiliar; None without a threshold or pictures."""
    if threshold_bin is None or not histogram.sum():
        return None
    return float(histogram[threshold_bin + 1 :].sum() / histogram.sum())


def no_distances() -> NDArray[np.int64]:
    """The empty histogram."""
    return np.zeros(DISTANCE_BINS, dtype=np.int64)


def count_distances(
    distances: NDArray[np.float64],
    patients: NDArray[np.int64] | None = None,
    smallest_cell: int = 1,
    pick: Pick = highest,
) -> NDArray[np.int64]:
    """The histogram `(DISTANCE_BINS,)` of some pictures' distances; histograms of clients add up.

    Args:
        distances: of each picture, `(pictures,)`.
        patients: of each picture, `(pictures,)`; each its own where not given.
        smallest_cell: the fewest patients of an occupied bin.
        pick: where merged bins are counted. With `highest`, a threshold at an occupied bin has exactly the
            pictures counted there and below at or below it.
    """
    patients = np.arange(len(distances)) if patients is None else patients
    merged = merge(distance_bin(distances), patients, smallest_cell, pick)
    return np.bincount(merged, minlength=DISTANCE_BINS).astype(np.int64)


def ood_threshold(histogram: NDArray[np.int64], rate: float) -> int | None:
    """The distance bin above which a picture is called unfamiliar; None where nothing is.

    Args:
        histogram: of one picture per lesion, `(DISTANCE_BINS,)`.
        rate: α.
    """
    n = int(histogram.sum())
    rank = rank_of(n, 1 - Fraction(str(rate)))
    if rank > n:
        return None
    place = int(np.flatnonzero(histogram.cumsum() >= rank)[0])
    # Nothing lies above the last bin, which has no end.
    return place if place < DISTANCE_BINS - 1 else None
