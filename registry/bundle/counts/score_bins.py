"""The bins of scores between 0 and 1: scores are counted, and compared with thresholds, by bin.

`LOGIT_BINS` are wide by log(p / (1 − p)), narrow about one half and wider where a network is sure: its scores
are spread over them, while most of them would share the first and the last of equal bins.
"""

from dataclasses import dataclass
from math import exp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from registry.bundle.errors import CountsError


@dataclass(frozen=True)
class ScoreBins:
    """Bins of a score: bin i holds [edges[i], edges[i + 1]), the last one is closed.

    Attributes:
        name: as in a manifest.
        edges: rising, from 0 to 1, `(bins + 1,)` float64.
        middles: the score that stands for each bin, `(bins,)`.
    """

    name: str
    edges: NDArray[np.float64]
    middles: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.middles)

    def bin(self, scores: NDArray[Any]) -> NDArray[np.int64]:
        """The bin of each score, in the shape of `scores`; scores beyond 0 and 1 lie in the end bins.

        Computed in float64 wherever a score is compared with a threshold, so that what was counted and
        what is decided agree to the last picture.
        """
        values = np.asarray(scores, dtype=np.float64)
        places: NDArray[np.int64] = np.searchsorted(self.edges[1:-1], values, side="right").astype(np.int64)
        return places

    def lower(self, threshold_bin: int) -> float:
        """The smallest score in a bin, and 1 beyond the last: the threshold that a bin is, as a score."""
        return float(self.edges[threshold_bin])

    def mirrored(self, bins: NDArray[np.int64]) -> NDArray[np.int64]:
        """The bin of 1 − p for each bin of p; the edges must be symmetric about one half."""
        return len(self) - 1 - bins


_INNER, _FINE = 8.0, 1 / 16  # up to these log-odds (1 − p is 3.4e-4), bins are so wide
_REACH, _COARSE = 16.0, 1 / 4  # up to these (1 − p is 1.1e-7, two steps of single precision), so wide
_DIGITS = 12  # of an edge, so that every machine has the same


def _logistic(log_odds: float) -> float:
    return round(1 / (1 + exp(-log_odds)), _DIGITS)


def _logit_bins() -> ScoreBins:
    positive = np.concatenate([np.arange(0, _INNER, _FINE), np.arange(_INNER, _REACH + _COARSE, _COARSE)])
    log_odds = np.concatenate([-positive[:0:-1], positive])
    ends, middles = log_odds[1:-1], (log_odds[1:] + log_odds[:-1]) / 2  # ends between the bins
    edges = np.array([0.0, *map(_logistic, ends), 1.0])
    return ScoreBins(f"logit-{len(middles)}", edges, np.array([*map(_logistic, middles)]))


def _coarse_bins() -> ScoreBins:
    positive = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.5, 7.0)  # log-odds, each an edge of `LOGIT_BINS` too
    ends = np.array([*(-each for each in positive[:0:-1]), *positive])
    middles = np.array([ends[0] - 2, *(ends[1:] + ends[:-1]) / 2, ends[-1] + 2])
    edges = np.array([0.0, *map(_logistic, ends), 1.0])
    return ScoreBins(f"logit-{len(middles)}", edges, np.array([*map(_logistic, middles)]))


LOGIT_BINS = _logit_bins()
COARSE_BINS = _coarse_bins()
"""The bins of histograms that are told with noise: noise is in every bin, so that few are better."""

_KNOWN = {len(bins): bins for bins in (LOGIT_BINS, COARSE_BINS)}
COARSE_OF = COARSE_BINS.bin(LOGIT_BINS.middles)
"""In which of `COARSE_BINS` each of `LOGIT_BINS` lies."""

SCORE_BINS = len(LOGIT_BINS)
"""How many bins scores are counted in."""


def bins_of(count: int) -> ScoreBins:
    """The bins of which there are so many.

    Raises:
        CountsError: there are no such bins.
    """
    if count not in _KNOWN:
        known = " or ".join(f"{number} ({bins.name})" for number, bins in sorted(_KNOWN.items()))
        raise CountsError(f"a histogram of scores has {count} bins; {known} are expected")
    return _KNOWN[count]


def score_bin(scores: NDArray[Any]) -> NDArray[np.int64]:
    """The bin of each score in `LOGIT_BINS`."""
    return LOGIT_BINS.bin(scores)


def malignancy_probability(probabilities: NDArray[Any], malignant: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The summed probability of the malignant classes, `(..., classes)` to `(...)`."""
    summed: NDArray[np.float64] = np.asarray(probabilities, dtype=np.float64)[..., malignant].sum(axis=-1)
    return summed
