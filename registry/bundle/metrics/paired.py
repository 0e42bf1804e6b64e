"""How much a second model gains over a first on the same pictures, with one-sided limits.

Of n pictures g are right with the second model alone and l with the first alone; the difference of the two
proportions of right ones is d = (g − l) / n. Its lower limit is where the score test of Tango (1998,
equation 8) of "the difference is Δ" rejects smaller ones:

    (g − l − n Δ) / √(n (2 q + Δ (1 − Δ))) = z,   q = (√(B² − 4 A C) − B) / (2 A),
    A = 2 n,   B = −g − l + (2 n − g + l) Δ,   C = −l Δ (1 − Δ),

which has width also where nothing changed: then it is −z² / (n + z²). The limit of the mean of K differences
of different pictures follows by MOVER (Zou & Donner 2008): d̄ − √(Σ_k (d_k − low_k)²) / K. Pictures of a
lesion are not independent: n of them are worth n / deff, deff = Σ_g n_g² / n, as if they were all alike.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.paired import PairedCounts

_HALVINGS = 50
Real = NDArray[np.float64]


@dataclass(frozen=True)
class Gain:
    """A difference between two models on the same pictures.

    Attributes:
        value: the second's figure less the first's.
        low: its lower limit, one-sided.
        n: the pictures that it rests on.
        gained, lost: of them, right with the second alone, and with the first alone.
    """

    value: float
    low: float
    n: int
    gained: int
    lost: int


def sensitivity_gain(counts: PairedCounts, level: float) -> Gain | None:
    """That of malignant sensitivity at the most probable class; None without malignant pictures."""
    row = counts.malignant
    return _mean_gain(counts, np.arange(row, row + 1), level)


def balanced_accuracy_gain(counts: PairedCounts, level: float) -> Gain | None:
    """That of the mean recall of the classes that have pictures; None without any."""
    return _mean_gain(counts, np.flatnonzero(counts.n[counts.classes] > 0), level)


GAINS: Mapping[str, Callable[[PairedCounts, float], Gain | None]] = {
    "malignant_sensitivity": sensitivity_gain,
    "balanced_accuracy": balanced_accuracy_gain,
}


def _mean_gain(counts: PairedCounts, rows: NDArray[np.intp], level: float) -> Gain | None:
    n, gained, lost, nn = (each[rows].astype(np.float64) for each in counts.to_array().T)
    if not len(rows) or not n.all():
        return None
    value = (gained - lost) / n
    effect = nn / n
    low = tango_low(gained / effect, lost / effect, n / effect, level)
    below = np.sqrt(((value - low) ** 2).sum()) / len(rows)
    return Gain(
        float(value.mean()),
        float(max(value.mean() - below, -1.0)),
        int(n.sum()),
        int(gained.sum()),
        int(lost.sum()),
    )


def tango_low(gained: Real, lost: Real, n: Real, level: float) -> Real:
    """The one-sided lower limit of (gained − lost) / n, `(...)`, by bisection."""
    z = NormalDist().inv_cdf(level)
    low, high = np.full(np.shape(n), -1.0), (gained - lost) / n
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        rejected = _score(gained, lost, n, middle) > z
        low, high = np.where(rejected, middle, low), np.where(rejected, high, middle)
    return (low + high) / 2


def _score(gained: Real, lost: Real, n: Real, difference: Real) -> Real:
    a = 2 * n
    b = -gained - lost + (2 * n - gained + lost) * difference
    c = -lost * difference * (1 - difference)
    q = (np.sqrt(np.maximum(b**2 - 4 * a * c, 0.0)) - b) / (2 * a)
    variance = np.maximum(n * (2 * q + difference * (1 - difference)), 1e-12)
    return np.asarray((gained - lost - n * difference) / np.sqrt(variance))
