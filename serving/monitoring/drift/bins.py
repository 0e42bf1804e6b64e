"""The bins of drift histograms: a few dozen, each made of whole bins of the bundle's own.

A score has 64 bins, each 0.5 wide in log-odds. A distance from the training pictures is given as a multiple
of the distance from which on a picture is called unfamiliar: 32 bins of 10 distance bins each (12 % wide),
from a tenth of it to three times as far, the outer ones open.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.score_bins import LOGIT_BINS
from registry.bundle.model import BINS_PER_DECADE, DISTANCE_BINS

_DISTANCES_IN_ONE: Final = 10
_NEAREST, _FARTHEST = -20, 10  # edges, in tens of distance bins from the threshold

_HALF: Final = 0.5
LOG_ODDS_EDGES: Final = tuple(np.arange(-15.5, 16, _HALF).tolist())
"""The upper edge of each bin of a score's log-odds but the last; each is an edge of score bins, too."""

_middles = np.log(LOGIT_BINS.middles / (1 - LOGIT_BINS.middles))
_IN_LOG_ODDS: Final = np.searchsorted(LOG_ODDS_EDGES, _middles)
"""The bin of drift that each of `LOGIT_BINS` is part of."""

DISTANCE_EDGES: Final = tuple(
    round(10 ** (k * _DISTANCES_IN_ONE / BINS_PER_DECADE), 6) for k in range(_NEAREST, _FARTHEST + 1)
)
"""The upper edge of each bin of a distance but the last, in multiples of the threshold; one of them is 1."""


def log_odds_values(scores: NDArray[Any]) -> list[float]:
    """The middle of the bin of each score, in log-odds: a score falls where thresholds compare it."""
    places = _IN_LOG_ODDS[LOGIT_BINS.bin(scores)]
    values: list[float] = (LOG_ODDS_EDGES[0] + (places - 0.5) * _HALF).tolist()
    return values


def distance_values(places: NDArray[np.int64], threshold_bin: int) -> list[float]:
    """The middle of each distance's bin, in multiples of the threshold; above 1 is unfamiliar."""
    values: list[float] = (10.0 ** ((places - threshold_bin - 0.5) / BINS_PER_DECADE)).tolist()
    return values


def coarse_scores(histogram: NDArray[Any]) -> NDArray[np.int64]:
    """Sums a histogram over score bins into the bins of drift."""
    return np.bincount(_IN_LOG_ODDS, weights=np.asarray(histogram), minlength=len(LOG_ODDS_EDGES) + 1).astype(
        np.int64
    )


def coarse_distances(histogram: NDArray[Any], threshold_bin: int) -> NDArray[np.int64]:
    """Sums a histogram over distance bins `(2400,)` into the bins of drift, `(32,)`."""
    apart = np.arange(DISTANCE_BINS) - threshold_bin
    # Bin 0 holds all that is nearer than the first edge; apart = 0 is the last familiar one.
    kept = np.clip(np.ceil(apart / _DISTANCES_IN_ONE).astype(np.int64) - _NEAREST, 0, len(DISTANCE_EDGES))
    return np.bincount(kept, weights=np.asarray(histogram), minlength=len(DISTANCE_EDGES) + 1).astype(
        np.int64
    )
