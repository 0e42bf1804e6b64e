"""Histograms of which every occupied bin is of several patients: neighbouring bins merged before they leave.

A histogram of fine bins over a few pictures is the list of their scores. Here the occupied bins are gone
through from one end, and as many neighbours become one run as it takes to reach the smallest number of
patients; what is left at the other end joins the last run. All pictures of a run are counted at one of its
bins. So no occupied bin is of fewer patients, the order between runs stays, and histograms of hospitals
still add up. (Univariate microaggregation, Domingo-Ferrer & Mateo-Sanz 2002, of bins in place of records.)
"""

from collections.abc import Callable
from math import ceil

import numpy as np
from numpy.typing import NDArray

Pick = Callable[[NDArray[np.int64]], int]
"""The bin at which a run is counted, from the bins of its pictures `(pictures,)`."""


def smallest_cell(min_count: int) -> int:
    """The fewest patients of an occupied bin of a histogram that leaves: half of `min_count`, rounded up."""
    return max(ceil(min_count / 2), 1)


def lowest(bins: NDArray[np.int64]) -> int:
    """A run's lowest bin: exactly the pictures of the runs from here on are at or above it."""
    return int(bins.min())


def highest(bins: NDArray[np.int64]) -> int:
    """A run's highest bin: exactly the pictures of the runs up to here are at or below it."""
    return int(bins.max())


def middle(bins: NDArray[np.int64]) -> int:
    """The mean of a run's bins."""
    return int(np.floor(bins.mean() + 0.5))


def nearest_to_mean(middles: NDArray[np.float64]) -> Pick:
    """The bin of a run whose middle is nearest to the mean of its pictures' scores, so that sums stay."""

    def pick(bins: NDArray[np.int64]) -> int:
        return int(np.abs(middles - middles[bins].mean()).argmin())

    return pick


def merge(
    bins: NDArray[np.int64],
    patients: NDArray[np.int64],
    smallest: int,
    pick: Pick,
    *,
    from_below: bool = False,
) -> NDArray[np.int64]:
    """The bin at which each picture is counted.

    Args:
        bins: the bin of each picture's score, `(pictures,)`.
        patients: the patient of each picture, `(pictures,)`.
        smallest: the fewest patients of an occupied bin; where all together are fewer, there is one run.
        pick: where a run is counted.
        from_below: begin at the lowest bin, where runs are then as short as can be; else at the highest.
    """
    if smallest <= 1 or not len(bins):
        return bins
    occupied = np.unique(bins) if from_below else np.unique(bins)[::-1]
    runs: list[list[int]] = [[]]
    seen: set[int] = set()
    for each in occupied.tolist():
        runs[-1].append(each)
        seen.update(patients[bins == each].tolist())
        if len(seen) >= smallest:
            runs.append([])
            seen = set()
    left = runs.pop()
    if runs:
        runs[-1] += left
    else:
        runs = [left]
    merged = np.empty_like(bins)
    for run in runs:
        members = (bins >= min(run)) & (bins <= max(run))
        merged[members] = pick(bins[members])
    return merged
