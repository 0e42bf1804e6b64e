"""Histograms of which every occupied bin is of several patients: neighbours merged before they leave.

A histogram of fine bins over a few pictures is the list of their scores. Here pictures are gone through from
one end, and as many neighbours become one run as it takes to reach the smallest number of patients; what is
left at the other end joins the last run. All pictures of a run are counted at one bin. So no occupied bin is
of fewer patients, the order between runs stays, and histograms of hospitals still add up. (Univariate
microaggregation, Domingo-Ferrer & Mateo-Sanz 2002.)
"""

from collections.abc import Callable
from math import ceil

import numpy as np
from numpy.typing import NDArray

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
