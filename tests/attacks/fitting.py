"""Many classes: histograms without replicates, linked by what every picture's probabilities obey.

They sum to 1, that of the answer is the highest and stands in the histogram of confidences, and those of the
malignant classes sum to a score in the histogram of malignancy. Beginning with a guess, each histogram's
scores are dealt out anew to where they fit best (an assignment problem), one after the other, until nothing
changes.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from tests.attacks.guessing import from_totals, listed
from tests.attacks.old_way import bins_of_either
from tests.attacks.records import Records

Arrays = Mapping[str, NDArray[np.int64]]
SWEEPS = 30  # it rarely takes ten


def fit(arrays: Arrays, malignant: NDArray[np.bool_], rng: np.random.Generator, starts: int = 4) -> Records:
    """The best-fitting records of several starts."""
    tries = [Fit(arrays, malignant, rng) for _ in range(starts)]
    for each in tries:
        each.settle()
    best = min(tries, key=Fit.misfit)
    return Records(best.labels, best.answers, best.values)


class Fit:
    """Records on their way to fitting the arrays."""

    def __init__(self, arrays: Arrays, malignant: NDArray[np.bool_], rng: np.random.Generator) -> None:
        begun = from_totals(arrays, rng)
        self.labels, self.answers, self.values = begun.labels, begun.answers, begun.probabilities.copy()
        self.malignant, self.rng = malignant, rng
        self.right, self.side = self.answers == self.labels, malignant[self.labels]
        self.confidence = self._drawn(arrays["confidence"], self.right)
        self.malignancy = self._drawn(arrays["malignancy"], self.side)

    def _drawn(self, histogram: NDArray[np.int64], so: NDArray[np.bool_]) -> NDArray[np.float64]:
        scores, middles = np.empty(len(so)), bins_of_either(histogram.shape[-1]).middles
        for side in (0, 1):
            scores[so == side] = middles[self.rng.permutation(listed(histogram[side]))]
        return scores

    @property
    def of_answers(self) -> NDArray[np.float64]:
        return self.values[np.arange(len(self.values)), self.answers]

    def misfit(self) -> float:
        """The squared violation of everything that predictions obey."""
        parts = (
            self.values.sum(axis=1) - 1,
            np.maximum(self.values.max(axis=1) - self.of_answers, 0),
            self.of_answers - self.confidence,
            self.values[:, self.malignant].sum(axis=1) - self.malignancy,
        )
        return float(sum((part**2).sum() for part in parts))

    def settle(self) -> None:
        before = np.inf
        for _ in range(SWEEPS):
            for k in self.rng.permutation(self.values.shape[1]):
                for side in (0, 1):
                    self._deal_class(k, np.flatnonzero((self.labels == k) == side))
            for so, scores, wanted in (
                (self.right, self.confidence, self.of_answers),
                (self.side, self.malignancy, self.values[:, self.malignant].sum(axis=1)),
            ):
                for side in (0, 1):
                    rows = np.flatnonzero(so == side)
                    scores[rows] = _dealt(scores[rows], (scores[rows] - wanted[rows, None]) ** 2)
            after = self.misfit()
            if after >= before - 1e-9:
                return
            before = after

    def _deal_class(self, k: int, rows: NDArray[np.int64]) -> None:
        """The scores of one class are dealt out anew among some pictures."""
        held = self.values[rows]
        pool = held[:, k].copy()
        cost = (pool + (held.sum(axis=1) - held[:, k] - 1)[:, None]) ** 2
        highest_other = np.where(np.arange(held.shape[1]) == k, 0.0, held).max(axis=1)[:, None]
        too_low = np.maximum(highest_other - pool, 0) ** 2 + (pool - self.confidence[rows, None]) ** 2
        too_high = np.maximum(pool - self.of_answers[rows, None], 0) ** 2
        cost += np.where(self.answers[rows, None] == k, too_low, too_high)
        if self.malignant[k]:
            rest = held[:, self.malignant].sum(axis=1) - held[:, k]
            cost += (pool + (rest - self.malignancy[rows])[:, None]) ** 2
        self.values[rows, k] = _dealt(pool, cost)


def _dealt(pool: NDArray[np.float64], cost: NDArray[np.float64]) -> NDArray[np.float64]:
    """The scores in the order of least cost `(pictures, scores)`."""
    return pool[linear_sum_assignment(cost)[1]]
