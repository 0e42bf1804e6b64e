"""Two classes: the sorted scores of all pictures, out of merged histograms of the same pictures.

Two classes have one order of pictures, and a merged histogram tells how many of each true class are in each
run of it, and the mean score of the run. Runs of another release (another temperature, another round) end
at other ranks: subtracted, the two count the pictures between their ends, however few these are. Every mean
is an equation in the sorted scores, which are solved for.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from registry.bundle.score_bins import LOGIT_BINS
from tests.attacks.records import Records, log_odds

SMOOTH = 1.0  # weight of evenly spread scores beside the equations, whose values are rounded to a bin

Release = tuple[NDArray[np.int64], float]
"""The histogram of the second class `(2, bins)`, and the temperature that divided the log-odds."""


@dataclass(frozen=True)
class Sorted:
    """What was found, from the highest score down.

    Attributes:
        scores: log-odds of the second class, `(pictures,)`.
        labels: true classes, `(pictures,)`.
    """

    scores: NDArray[np.float64]
    labels: NDArray[np.int64]

    @property
    def records(self) -> Records:
        second = 1 / (1 + np.exp(-self.scores))
        return Records(self.labels, (second > 0.5).astype(np.int64), np.stack([1 - second, second], axis=1))


def solve(releases: Sequence[Release], confusion: NDArray[np.int64] | None = None) -> Sorted:
    """The sorted scores that fit some releases about the same pictures in the same order.

    Where `confusion` is given, pictures above one half are those that it has in its second column.
    """
    n = int(releases[0][0].sum())
    ones = {0: 0, n: int(releases[0][0][1].sum())}  # pictures of the second class above each rank
    if confusion is not None:
        ones[int(confusion[:, 1].sum())] = int(confusion[1, 1])
    equations, values = [], []
    for histogram, temperature in releases:
        rank = of_class = 0
        for place in np.flatnonzero(histogram.sum(axis=0))[::-1]:
            no, yes = histogram[:, place].tolist()
            row = np.zeros(n)
            row[rank : rank + no + yes] = 1 / (no + yes)
            equations.append(row)
            values.append(float(log_odds(LOGIT_BINS.middles[place])) * temperature)
            rank, of_class = rank + no + yes, of_class + yes
            ones[rank] = of_class
    ends = sorted(ones)
    groups, found = np.diff(ends), np.diff([ones[end] for end in ends])
    labels = np.concatenate(
        [np.arange(size) < some for size, some in zip(groups, found, strict=True)]
    ).astype(np.int64)
    return Sorted(_scores(np.stack(equations), np.array(values)), labels)


def _scores(equations: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Least squares, evenly spread where the equations leave it open, then the nearest falling scores."""
    n = equations.shape[1]
    bend = SMOOTH * np.diff(np.eye(n), n=2, axis=0)
    normal = equations.T @ equations + bend.T @ bend + 1e-9 * np.eye(n)
    fitted = np.linalg.solve(normal, equations.T @ values)
    return isotonic_regression(fitted, increasing=False).x
