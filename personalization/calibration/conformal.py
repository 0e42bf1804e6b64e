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

from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from registry.bundle.counts.score_bins import SCORE_BINS, Pick, highest, lowest, merge, score_bin
from registry.bundle.manifest import OutOfDistribution
from registry.bundle.model import DISTANCE_BINS, Gaussians, distance_bin, upper_edge
from training.config import FrozenConfig
from training.errors import MessageError
from training.messages.message import Update

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


HISTOGRAM = "distances"


@dataclass(frozen=True)
class OodThreshold:
    """The lowest distance bin at which a picture is called unfamiliar.

    Attributes:
        threshold_bin: unfamiliar iff distance_bin(M(x)) > this; None calls nothing unfamiliar.
        rate: α, the share of known pictures that may be called unfamiliar.
        n: calibration pictures behind the threshold.
    """

    threshold_bin: int | None
    rate: float
    n: int

    @property
    def value(self) -> float | None:
        """The threshold as a distance."""
        return None if self.threshold_bin is None else upper_edge(self.threshold_bin)

    def flagged(self, histogram: NDArray[np.int64]) -> float | None:
        """The fraction of counted pictures called unfamiliar; None without a threshold or pictures."""
        if self.threshold_bin is None or not histogram.sum():
            return None
        return float(histogram[self.threshold_bin + 1 :].sum() / histogram.sum())


@dataclass(frozen=True)
class OodDetector:
    """The fitted Gaussians of one model, and the threshold on the distance from them.

    Attributes:
        gaussians: where its training pictures lie; None where no class has enough of them.
        classes: codes of the classes that have a Gaussian.
        trained_on: training pictures behind the Gaussians.
        threshold: from which distance on a picture is unfamiliar.
    """

    gaussians: Gaussians | None
    classes: tuple[str, ...]
    trained_on: int
    threshold: OodThreshold

    def entry(self) -> OutOfDistribution | None:
        """The entry `out_of_distribution` of a bundle's manifest."""
        if self.gaussians is None:
            return None
        return OutOfDistribution.of(
            self.gaussians,
            self.classes,
            trained_on=self.trained_on,
            rate=self.threshold.rate,
            n=self.threshold.n,
            threshold_bin=self.threshold.threshold_bin,
        )

    def facts(self, test: NDArray[np.int64]) -> dict[str, Any]:
        """The facts for the report, `test` being the histogram of the test pictures' distances."""
        return {
            "threshold": self.threshold.value,
            "rate": self.threshold.rate,
            "n": self.threshold.n,
            "trained_on": self.trained_on,
            "classes": list(self.classes),
            "flagged": self.threshold.flagged(test),
        }


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


def read_histogram(update: Update) -> NDArray[np.int64]:
    """Read the histogram of an update.

    Raises:
        MessageError: it is none.
    """
    tensor = update.tensors.get(HISTOGRAM)
    if tensor is None or tensor.shape != (DISTANCE_BINS,) or tensor.is_floating_point() or (tensor < 0).any():
        found = "nothing" if tensor is None else f"{tensor.dtype} of shape {tuple(tensor.shape)}"
        raise MessageError(
            f"{update.client} sent {found} as its histogram of distances; expected whole numbers from 0 on, "
            f"of shape ({DISTANCE_BINS},)"
        )
    counts: NDArray[np.int64] = tensor.numpy().astype(np.int64)
    return counts


def fit_ood(histogram: NDArray[np.int64], rate: float) -> OodThreshold:
    """The conformal threshold from the calibration pictures' distances.

    Args:
        histogram: of one picture per lesion, `(DISTANCE_BINS,)`.
        rate: α.
    """
    n = int(histogram.sum())
    # (n + 1)(1 − α) is a whole number often enough (n = 19, α = 0.05) that rounding must not lift it by one.
    rank = ceil((n + 1) * (1 - Fraction(str(rate))))
    if rank > n:
        return OodThreshold(None, rate, n)
    place = int(np.flatnonzero(histogram.cumsum() >= rank)[0])
    # Nothing lies above the last bin, which has no end.
    return OodThreshold(place if place < DISTANCE_BINS - 1 else None, rate, n)
