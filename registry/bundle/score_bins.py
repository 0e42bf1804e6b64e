"""Bins of scores between 0 and 1, histograms with merged bins, and the working point.

Scores are counted, and compared with thresholds, by bin. `LOGIT_BINS` are wide by log(p / (1 − p)), narrow
about one half and wider where a network is sure: its scores are spread over them, while most of them would
share the first and the last of equal bins.

A histogram of fine bins over a few pictures is the list of their scores. So `merge` joins neighbours before a
histogram leaves: it goes through the pictures from one end, and as many neighbours become one run as it takes
to reach the smallest number of patients; what is left at the other end joins the last run. All pictures of a
run are counted at one bin. So no occupied bin is of fewer patients, the order between runs stays, and
histograms of hospitals still add up. (Univariate microaggregation, Domingo-Ferrer & Mateo-Sanz 2002.)

The working point says from which probability of malignancy on a lesion is suspicious. Deciding, counting and
calibrating use the same functions here, so that what is counted is what is served.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, exp
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
        middles: the score that represents each bin, `(bins,)`.
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


def _bins(ends: NDArray[np.float64], middles: NDArray[np.float64]) -> ScoreBins:
    """The bins between log-odds `ends`, which `middles` stand for."""
    edges = np.array([0.0, *map(_logistic, ends), 1.0])
    return ScoreBins(f"logit-{len(middles)}", edges, np.array([*map(_logistic, middles)]))


def _symmetric(positive: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.concatenate([-positive[:0:-1], positive])


_LOG_ODDS = _symmetric(
    np.concatenate([np.arange(0, _INNER, _FINE), np.arange(_INNER, _REACH + _COARSE, _COARSE)])
)
LOGIT_BINS = _bins(_LOG_ODDS[1:-1], (_LOG_ODDS[1:] + _LOG_ODDS[:-1]) / 2)

_COARSE_ENDS = _symmetric(np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.5, 7.0]))  # edges of `LOGIT_BINS` too
_COARSE_MIDDLES = [_COARSE_ENDS[0] - 2, *(_COARSE_ENDS[1:] + _COARSE_ENDS[:-1]) / 2, _COARSE_ENDS[-1] + 2]
COARSE_BINS = _bins(_COARSE_ENDS, np.array(_COARSE_MIDDLES))
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


def probability_text(probability: float) -> str:
    """To three places; nearer to 0 or 1 to as many as tell how near it is, to a fiftieth.

    Thresholds of `LOGIT_BINS` next to each other differ by more than two fiftieths: none reads like another.
    """
    near = min(probability, 1 - probability)
    places = next((d for d in range(3, 12) if abs(round(probability, d) - probability) <= near / 50), 12)
    return f"{probability:.{places}f}"


Pick = Callable[[NDArray[np.int64], int | None, int | None], int]
"""The bin at which a run is counted, from the bins of its pictures `(pictures,)`, the highest bin of the run
below and the lowest of the run above; None where there is none."""

COARSE = 4  # bins: how exactly the ends of the outermost runs are told


def smallest_cell(min_count: int) -> int:
    """The fewest patients of an occupied bin of a histogram that leaves: half of `min_count`, rounded up."""
    return max(ceil(min_count / 2), 1)


def lowest(bins: NDArray[np.int64], below: int | None, above: int | None) -> int:
    """Halfway down to the run below: exactly the pictures of the runs from here on are at or above it."""
    end = int(bins.min())
    return end - end % COARSE if below is None else (end + below + 1) // 2


def highest(bins: NDArray[np.int64], below: int | None, above: int | None) -> int:
    """Halfway up to the run above: exactly the pictures of the runs up to here are at or below it."""
    end = int(bins.max())
    return end + -(end + 1) % COARSE if above is None else (end + above) // 2


def middle(bins: NDArray[np.int64], below: int | None, above: int | None) -> int:
    """The mean of a run's bins."""
    return int(np.floor(bins.mean() + 0.5))


def nearest_to_mean(middles: NDArray[np.float64]) -> Pick:
    """The bin of a run whose middle is nearest to the mean of its pictures' scores, so that sums stay."""

    def pick(bins: NDArray[np.int64], below: int | None, above: int | None) -> int:
        return int(np.abs(middles - middles[bins].mean()).argmin())

    return pick


def merge(
    bins: NDArray[np.int64],
    patients: NDArray[np.int64],
    smallest: int,
    pick: Pick,
    *,
    scores: NDArray[np.float64] | None = None,
    from_below: bool = False,
) -> NDArray[np.int64]:
    """The bin at which each picture is counted.

    Args:
        bins: the bin of each picture's score, `(pictures,)`.
        patients: the patient of each picture, `(pictures,)`.
        smallest: the fewest patients of an occupied bin; where all together are fewer, there is one run.
        pick: where a run is counted.
        scores: where given `(pictures,)`, runs end anywhere in their order, in a bin too. Scores in the same
            order then have the same runs, whatever the scores are; ended by bins, runs of two releases would
            differ by the few pictures between their ends.
        from_below: begin at the lowest, where runs are then as short as can be; else at the highest.
    """
    if smallest <= 1 or not len(bins):
        return bins
    runs = runs_of(bins if scores is None else scores, patients, smallest, from_below=from_below)
    members = [bins[runs == run] for run in range(int(runs.max()) + 1)]
    lows = [int(of.min()) for of in members]
    highs = [int(of.max()) for of in members]
    up = 1 if from_below else -1
    counted = []
    for run, of in enumerate(members):
        below, above = (run + step if 0 <= run + step < len(members) else None for step in (-up, up))
        counted.append(
            pick(of, None if below is None else highs[below], None if above is None else lows[above])
        )
    return np.array(counted, dtype=np.int64)[runs]


def runs_of(
    scores: NDArray[np.float64] | NDArray[np.int64],
    patients: NDArray[np.int64],
    smallest: int,
    *,
    from_below: bool,
) -> NDArray[np.int64]:
    """The run of each picture `(pictures,)`, from 0; equal scores are in one, if they are whole numbers."""
    order = np.argsort(scores, kind="stable")
    order = order if from_below else order[::-1]
    together = np.issubdtype(scores.dtype, np.integer)
    runs = np.empty(len(scores), dtype=np.int64)
    run, seen = 0, set[int]()
    for place, picture in enumerate(order.tolist()):
        runs[picture] = run
        seen.add(int(patients[picture]))
        after = order[place + 1] if place + 1 < len(order) else None
        goes_on = together and after is not None and scores[after] == scores[picture]
        if len(seen) >= smallest and not goes_on:
            run, seen = run + 1, set()
    # What is left over joins the last run that is complete.
    return np.minimum(runs, max(run - 1, 0)) if seen else runs


def is_suspicious(
    malignancy: NDArray[np.int64], malignant_from: int | NDArray[np.int64] | None
) -> NDArray[np.bool_]:
    """Which pictures are at the working point or above, `(pictures,)`; none without one.

    Args:
        malignancy: score bin of the probability of malignancy, `(pictures,)`.
        malignant_from: the working point as a score bin, or that of each picture.
    """
    if malignant_from is None:
        return np.zeros(len(malignancy), dtype=np.bool_)
    suspicious: NDArray[np.bool_] = malignancy >= malignant_from
    return suspicious
