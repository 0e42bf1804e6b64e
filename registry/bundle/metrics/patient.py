"""What counts for a patient: malignant lesions found and what that costs, and the gain of a second model.

What counts for a patient: how many malignant lesions are found, and what that costs, for each subgroup.

Read from the figures of `summary`, as JSON, of any version: `summary.json` or a bundle's `metrics`. A figure
on few pictures is told like any other, with its interval; where a figure is undefined, words say why.

How much a second model gains over a first on the same pictures, with one-sided limits.

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
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.lesions import PairedCounts

ALL: Final = "all"
"""All test pictures together."""

COUNTS: Final = ("n", "n_malignant", "n_other")
"""Numbers of test pictures: of all, of malignant ones and of others."""

FIGURES: Final[Mapping[str, str]] = {
    "malignant_sensitivity": "sensitivity",
    "malignant_specificity": "specificity",
    "malignancy_auroc": "AUROC",
    "balanced_accuracy": "balanced accuracy",
}
"""What counts, in the order in which it is read, and what it is called."""

AT_WORKING_POINT: Final[Mapping[str, str]] = {
    "sensitivity_at_threshold": "sensitivity at the working point",
    "specificity_at_threshold": "specificity at the working point",
}
"""What comes beside them where a model has a working point."""

_SIDES: Final = ("malignant_sensitivity", "malignant_specificity")
_OF_MALIGNANCY: Final = (*_SIDES, "malignancy_auroc", *AT_WORKING_POINT)

NO_MALIGNANT: Final = "no malignant pictures"
NO_OTHER: Final = "no other pictures"
UNKNOWN: Final = "unknown"


@dataclass(frozen=True)
class Told:
    """A figure: a value and its 95 % interval, or words on why there is none."""

    value: float | None
    interval: tuple[float, float] | None = None
    words: str = ""

    def __str__(self) -> str:
        if self.value is None:
            return self.words
        ends = "" if self.interval is None else f" ({self.interval[0]:.3f} to {self.interval[1]:.3f})"
        return f"{self.value:.3f}{ends}"


@dataclass(frozen=True)
class PatientFigures:
    """What counts of one subgroup.

    Attributes:
        n: test pictures; None where it is not told, as the next two.
        n_malignant: malignant ones.
        n_other: those that are not.
        figures: of `FIGURES`, and of `AT_WORKING_POINT` where they are told, by name.
    """

    n: int | None
    n_malignant: int | None
    n_other: int | None
    figures: Mapping[str, Told]


def patient_figures(metrics: Mapping[str, Any]) -> dict[str, PatientFigures]:
    """What counts, of all pictures under `ALL` and of each subgroup that was tested.

    Args:
        metrics: as `summarise` makes them.
    """
    rows = {ALL: metrics, **metrics.get("by_subgroup", {})}
    return {name: _of(row) for name, row in rows.items()}


def sides(row: Mapping[str, Any]) -> str:
    """`21 malignant, 79 other`; empty where a row of figures does not tell it."""
    n_malignant, n_other = row.get("n_malignant"), row.get("n_other")
    return "" if n_malignant is None or n_other is None else f"{n_malignant} malignant, {n_other} other"


def told(row: Mapping[str, Any], name: str) -> Told:
    """One figure of a row, or why there is none."""
    if (value := row.get(name)) is not None:
        ends = row.get("intervals", {}).get(name)
        return Told(value, None if ends is None else (ends[0], ends[1]))
    of_both_kinds = any(row.get(one) is not None for one in _SIDES)
    if name not in _OF_MALIGNANCY or not of_both_kinds:
        return Told(None, words=UNKNOWN)
    if row.get("n_malignant") == 0 and "specificity" not in name:
        return Told(None, words=NO_MALIGNANT)
    if row.get("n_other") == 0 and "sensitivity" not in name:
        return Told(None, words=NO_OTHER)
    return Told(None, words=UNKNOWN)


def _of(row: Mapping[str, Any]) -> PatientFigures:
    names = (*FIGURES, *(name for name in AT_WORKING_POINT if name in row))
    n, n_malignant, n_other = (row.get(name) for name in COUNTS)
    return PatientFigures(n, n_malignant, n_other, {name: told(row, name) for name in names})


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
