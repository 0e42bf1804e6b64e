"""Counts at few thresholds: exact in a sum under masks, else from the merged histogram that was sent before.

A merged histogram (`registry.bundle.score_bins`) counts a picture up to a run away from its score, on
the safe side, and a guarantee that allows few misses is used up by that. So it proposes up to `STEPS`
thresholds, and hospitals count exactly at these. Only a sum under masks is exact: a hospital whose answer
leaves in the clear counts its merged histogram instead, which tells nothing new, so the server does not ask.

**Misses.** Of n lesions of a kind, x(t) score below t and R(t) is the probability that a new one does. With

    high(x) = B(level; x + 1, n − x),  B(q; a, b) the q-quantile of Beta(a, b)

the upper exact limit (Clopper & Pearson 1934), R(t) and high(x(t)) both rise in t, since n does not depend on
t. Let t* be the lowest threshold with R(t*) > β (score bins are finitely many). Then for every choice of t̂,

    {high(x(t̂)) ≤ β, R(t̂) > β} ⊆ {high(x(t*)) ≤ β},  of probability ≤ 1 − level,

because t̂ ≥ t* (Bates et al. 2021, risk-controlling prediction sets). So thresholds may be proposed by the
labels of the same lesions, in any number and order, and of those that pass the largest is taken
(`largest_shown`). Each kind's limit holds at the level by itself. Where x is counted too high, as in merged
histograms, it still holds. The same goes for false positives at or above t, with the order turned.

**Shares among answers** have a denominator that depends on t, and none of this applies: their thresholds are
proposed by coverage alone and tested in a fixed sequence (`personalization.calibration.conclusions`).

The working point: the highest threshold on malignancy that is shown to miss few malignant lesions.

A lesion is suspicious iff score_bin(p) ≥ threshold_bin, p the summed probability of the malignant classes. If
x of n malignant calibration lesions are at a threshold or above, its sensitivity has the lower exact limit

    low(x) = B(1 − level; x, n − x + 1),  B(q; a, b) the q-quantile of Beta(a, b)

(Clopper & Pearson 1934). The fewest x with low(x) ≥ target depend on n alone, and the highest threshold at
which so many are found is taken, of those that merged histograms propose: that their labels proposed them
costs nothing (`personalization.calibration.at_thresholds`). It takes ⌈log(1 − level) / log(target)⌉ malignant
lesions, 59 for 0.95, none of them missed. With fewer, the highest threshold that misses none is taken, and
`sensitivity_low` is low(n). Where there is none, it is bin 0, and every lesion is suspicious.

Hospitals count malignant neighbours in runs, each at or below its lowest score
(`personalization.calibration.triage`): a threshold has at least as many malignant lesions at or above it as
their histogram tells. So the limit holds without exact counts too, and merging costs specificity.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from registry.bundle.manifest import WorkingPoint
from registry.bundle.metrics.intervals import exact_high, exact_low
from registry.bundle.score_bins import SCORE_BINS
from training.errors import MessageError
from training.messages import Update

STEPS: Final = 5
"""How many thresholds are counted at, at most."""

LEVEL: Final = 0.95
"""Share of calibrations in which a guarantee is kept, at least."""

EXTRA: Final = 4
"""How many misses over the allowed ones a merged histogram may have at the last threshold that it proposes;
chosen on half of the lesions of docs/results/honesty.md."""

BETWEEN: Final = "between"
UNUSED: Final = SCORE_BINS
"""A threshold above every bin, where fewer than `STEPS` are asked for."""


@dataclass(frozen=True)
class CountsAt:
    """Counts at thresholds; those of hospitals add up.

    Attributes:
        thresholds: score bins, rising.
        between: each row of a histogram by the number of thresholds at or below the score,
            `(rows, thresholds + 1)`.
    """

    thresholds: tuple[int, ...]
    between: NDArray[np.int64]

    @classmethod
    def of(cls, histogram: NDArray[np.int64], thresholds: Sequence[int]) -> "CountsAt":
        """Those of a histogram `(rows, bins)`."""
        below = np.pad(histogram.cumsum(axis=1), ((0, 0), (1, 0)))
        return cls(tuple(thresholds), np.diff(below[:, [0, *thresholds, histogram.shape[1]]]))

    @classmethod
    def up_to(cls, thresholds: Sequence[int], between: NDArray[np.int64]) -> "CountsAt":
        """Those at the thresholds of a request, of counts `(rows, its thresholds + 1)`."""
        last = len(thresholds)
        return cls(
            tuple(thresholds), np.hstack([between[:, :last], between[:, last:].sum(axis=1, keepdims=True)])
        )

    def rows(self, of: NDArray[np.int64] | Sequence[int] | slice) -> "CountsAt":
        """Those of some rows."""
        return CountsAt(self.thresholds, self.between[of])

    def at(self, thresholds: Sequence[int]) -> "CountsAt":
        """Those at some of the thresholds."""
        below = np.pad(self.below, ((0, 0), (1, 1)))
        below[:, -1] = self.n
        places = [self.thresholds.index(each) + 1 for each in thresholds]
        return CountsAt(tuple(thresholds), np.diff(below[:, [0, *places, below.shape[1] - 1]]))

    @property
    def together(self) -> "CountsAt":
        """All rows added up, `(1, thresholds + 1)`."""
        return CountsAt(self.thresholds, self.between.sum(axis=0, keepdims=True))

    @property
    def n(self) -> NDArray[np.int64]:
        """All of each row, `(rows,)`."""
        total: NDArray[np.int64] = self.between.sum(axis=1)
        return total

    @property
    def below(self) -> NDArray[np.int64]:
        """Of each row below each threshold, `(rows, thresholds)`."""
        below: NDArray[np.int64] = self.between.cumsum(axis=1)[:, :-1]
        return below

    @property
    def from_here(self) -> NDArray[np.int64]:
        """Of each row at or above each threshold, `(rows, thresholds)`."""
        from_here: NDArray[np.int64] = self.n[:, None] - self.below
        return from_here


def upper_limit(x: NDArray[np.int64], n: NDArray[np.int64], level: float = LEVEL) -> NDArray[np.float64]:
    """The one-sided exact upper limit of x of n, `(...)`; 1 of none."""
    x, n = np.broadcast_arrays(x, n)
    high = exact_high(x.astype(np.float64), np.maximum(n, 1).astype(np.float64), 2 * level - 1)
    return np.where(n > 0, high, 1.0)


def lower_limit(x: int, n: int, level: float = LEVEL) -> float:
    """The one-sided exact lower limit of x of n; 0 of none."""
    found = exact_low(np.array(float(x)), np.array(float(n)), 2 * level - 1)  # leaves 1 − level on each side
    return float(found) if n else 0.0


def most_allowed(n: int, beta: float) -> int:
    """The most misses of n that show a share of at most β; −1 where even none does not."""
    shown = bisect_left(range(n), True, key=lambda x: bool(upper_limit(np.array(x), np.array(n)) > beta))
    return shown - 1  # limits rise


def fewest_needed(beta: float, level: float = LEVEL) -> int:
    """⌈log(1 − level) / log(1 − β)⌉: the fewest lesions that show a share of at most β, none missed."""
    return ceil(log(1 - level) / log(1 - beta))


def propose(missed: NDArray[np.int64], allowed: Sequence[int]) -> tuple[int, ...]:
    """Thresholds from the largest with no more misses than are allowed to that with `EXTRA` more.

    The first passes as it is. At the others hospitals may have counted too many misses; exact counts say.

    Args:
        missed: lesions of each kind by malignancy, counted at or below their score, `(kinds, bins)`.
        allowed: the most misses of each kind.

    Returns:
        Up to `STEPS` score bins, rising, evenly spaced; none where a kind allows none.
    """
    if min(allowed) < 0:
        return ()
    most = np.asarray(allowed)[:, None]
    below = missed.cumsum(axis=1) - missed
    first, last = (int(np.flatnonzero((below <= most + extra).all(axis=0))[-1]) for extra in (0, EXTRA))
    return tuple(sorted(set(np.linspace(first, last, STEPS).round().astype(int).tolist())))


def largest_shown(counts: CountsAt, allowed: Sequence[int]) -> int | None:
    """The largest threshold below which no kind is missed more often than allowed; None without any.

    Args:
        counts: lesions of each kind, a row each.
        allowed: the most misses of each kind, as `most_allowed` gives.
    """
    shown = (counts.below <= np.asarray(allowed)[:, None]).all(axis=0)
    places = np.flatnonzero(shown)
    return counts.thresholds[int(places[-1])] if len(places) else None


def read_counts(update: Update, name: str, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """The counts of this name and shape in an update.

    Raises:
        MessageError: they are none.
    """
    tensor = update.tensors.get(name)
    if tensor is None or tensor.shape != shape or tensor.is_floating_point() or (tensor < 0).any():
        found = "nothing" if tensor is None else f"{tensor.dtype} of shape {tuple(tensor.shape)}"
        raise MessageError(
            f"{update.client} sent {found} as `{name}`; expected whole numbers from 0 on, of shape {shape}"
        )
    counts: NDArray[np.int64] = tensor.numpy().astype(np.int64)
    return counts


def to_tensor(thresholds: Sequence[Sequence[int]], most: int) -> torch.Tensor:
    """Thresholds of each view as a request has them, `(views, most)`, filled up with `UNUSED`."""
    return torch.tensor([[*of, *[UNUSED] * (most - len(of))] for of in thresholds], dtype=torch.int32)


def read_thresholds(tensor: torch.Tensor | None, views: int, most: int) -> NDArray[np.int64]:
    """The thresholds of a request, `(views, most)`.

    Raises:
        MessageError: they are none.
    """
    shape = (views, most)
    if tensor is None or tensor.shape != shape or tensor.dtype != torch.int32:
        found = "nothing" if tensor is None else f"{tensor.dtype} of shape {tuple(tensor.shape)}"
        raise MessageError(f"the coordinator asks at {found}; expected int32 score bins of shape {shape}")
    read: NDArray[np.int64] = tensor.numpy().astype(np.int64)
    if (np.diff(read, axis=1) < 0).any() or (read < 0).any() or (read > UNUSED).any():
        raise MessageError(
            f"the coordinator asks at thresholds {read.tolist()}; they have to rise and lie in 0..{UNUSED}"
        )
    return read


def propose_working_points(malignancy: NDArray[np.int64], target: float) -> tuple[int, ...]:
    """Thresholds to count at: score bins, rising; none without malignant lesions.

    Args:
        malignancy: malignant calibration lesions by their malignancy, one picture of each, `(bins,)`.
        target: the sensitivity that is asked for.
    """
    n = int(malignancy.sum())
    return propose(malignancy[np.newaxis], [allowed_misses(n, target)]) if n else ()


def fit_working_point(counts: CountsAt, target: float) -> WorkingPoint | None:
    """The highest threshold that is shown to reach the target, or else the highest that misses nothing.

    Args:
        counts: of malignant lesions, one picture of each, a single row.
        target: the sensitivity that is asked for.

    Returns:
        The working point; None without malignant lesions.
    """
    n = int(counts.n[0])
    if not n:
        return None
    missed = allowed_misses(n, target)
    threshold_bin = largest_shown(counts, [missed]) or 0
    return WorkingPoint(
        target=target,
        level=LEVEL,
        threshold_bin=threshold_bin,
        sensitivity_low=lower_limit(n - missed, n),
        n=n,
        reached=most_allowed(n, 1 - target) >= 0,
    )


def allowed_misses(n: int, target: float) -> int:
    """The most misses of n malignant lesions that show the target; 0 where not even none does."""
    return max(most_allowed(n, 1 - target), 0)
