"""Sensitivity and specificity in the field of several hospitals, from sums that each makes of its own counts.

How many are followed up differs from hospital to hospital, and so does how ill they are. One correction over
counts that were added up takes hospitals with many outcomes for all (Simpson's paradox): with N answers, n
outcomes and m malignant ones in stratum s of hospital h,

    Σ_h N_hs · Σ_h m_hs / Σ_h n_hs   is not   Σ_h N_hs m_hs / n_hs.

The right side is the correction of Begg and Greenes (Biometrics 39:207, 1983) with hospitals for strata. Each
summand is a hospital's own affair, so each computes it at home, on either side of the working point, and sums
of these are all that is needed:

    sensitivity = E_flagged / (E_flagged + E_others),  E = Σ_h Σ_s N_hs m_hs / n_hs,
    specificity = (N − E)_others / ((N − E)_others + (N − E)_flagged).

For the interval each hospital adds the first three cumulants of what its exact lower and upper ends are
distributed as, N Beta(m, n − m + 1) and N Beta(m + 1, n − m) (Clopper and Pearson 1934). Hospitals and strata
are independent, so cumulants add up; the sum is drawn from the beta distribution that has them, between 0 and
N or, where that is too little or too skew, within narrower bounds. Of one hospital with one stratum on each
side that is its own interval. Two cumulants are not enough: where one hospital has few outcomes the sum is
skew.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.field_counts import FieldStratum
from registry.bundle.metrics.exact import exact_limits
from registry.bundle.metrics.limits import LEVEL, Limits

Real = NDArray[np.float64]
Whole = NDArray[np.int64]

OTHERS, FLAGGED = 0, 1
"""The sides of the working point, as places in the sums."""

COUNTED = ("answered", "confirmed", "malignant", "in_set", "without_outcome")
"""What is counted on each side; the last are answers of strata of which no outcome is known."""

ESTIMATED = ("malignant", "low_1", "low_2", "low_3", "high_1", "high_2", "high_3")
"""What is estimated on each side, over all answers: the malignant ones, and cumulants of either end."""

_DRAWS = 4000
_SEED = 0  # the same sums have the same interval
_NEVER = 1e-12  # in place of 0, to divide by
_HALVINGS = 40


@dataclass(frozen=True)
class FieldSums:
    """Sums of one version and one subgroup, of one hospital or of several.

    Attributes:
        counted: `(2, COUNTED)`.
        estimated: `(2, ESTIMATED)`.
    """

    counted: Whole
    estimated: Real

    def __add__(self, other: "FieldSums") -> "FieldSums":
        return FieldSums(self.counted + other.counted, self.estimated + other.estimated)

    @classmethod
    def none(cls) -> "FieldSums":
        """Of nobody."""
        return cls(np.zeros((2, len(COUNTED)), np.int64), np.zeros((2, len(ESTIMATED))))

    @classmethod
    def of(cls, strata: Sequence[FieldStratum]) -> "FieldSums":
        """The sums of one hospital."""
        sums = cls.none()
        for stratum in strata:
            side = FLAGGED if stratum.flagged else OTHERS
            asked, n, m = stratum.answered, stratum.confirmed, stratum.malignant
            unknown = 0 if n else asked
            sums.counted[side] += (asked, n, m, stratum.in_set, unknown)
            sums.estimated[side] += (
                asked * m / n if n else 0.0,
                *_cumulants(asked, m, n - m + 1),
                *_cumulants(asked, m + 1, n - m),
            )
        return sums

    def total(self, name: str) -> int:
        """How many, on both sides together."""
        return int(self.counted[:, COUNTED.index(name)].sum())


@dataclass(frozen=True)
class PooledFigures:
    """Figures of the field of several hospitals.

    Attributes:
        answered: everybody who was answered.
        confirmed: those whose outcome is known.
        malignant: the malignant ones of these.
        without_outcome: answers of strata of a hospital of which no outcome is known.
        seen_sensitivity, seen_specificity: among the followed up.
        sensitivity, specificity: corrected for who is, at each hospital; nan where there are answers of which
            no outcome says anything, and the interval then allows for all that they could be.
        coverage: how often the prediction set held what it was, among the followed up.
    """

    answered: int
    confirmed: int
    malignant: int
    without_outcome: int
    seen_sensitivity: Limits
    seen_specificity: Limits
    sensitivity: Limits
    specificity: Limits
    coverage: Limits

    def to_json(self) -> dict[str, Any]:
        """As a summary has them."""
        figures = {
            "sensitivity": {"seen": _told(self.seen_sensitivity), "corrected": _told(self.sensitivity)},
            "specificity": {"seen": _told(self.seen_specificity), "corrected": _told(self.specificity)},
            "coverage": {"seen": _told(self.coverage)},
        }
        return {
            "answered": self.answered,
            "outcomes": self.confirmed,
            "malignant": self.malignant,
            "without_outcome": self.without_outcome,
            "figures": figures,
        }


def pooled_figures(sums: FieldSums) -> PooledFigures:
    """The figures of sums, each with its 95 % interval."""
    confirmed, malignant = (sums.counted[:, COUNTED.index(name)] for name in ("confirmed", "malignant"))
    benign = confirmed - malignant
    return PooledFigures(
        sums.total("answered"),
        int(confirmed.sum()),
        int(malignant.sum()),
        sums.total("without_outcome"),
        _share(malignant[FLAGGED], malignant.sum()),
        _share(benign[OTHERS], benign.sum()),
        _corrected(sums, malignant=True),
        _corrected(sums, malignant=False),
        _share(sums.total("in_set"), confirmed.sum()),
    )


def _corrected(sums: FieldSums, *, malignant: bool) -> Limits:
    """Of the malignant the share that is flagged, or of the others the share that is not."""
    if not sums.total("confirmed"):
        return Limits(np.array(np.nan), np.array(0.0), np.array(1.0))
    answered = sums.counted[:, COUNTED.index("answered")].astype(np.float64)
    expected, low, high = sums.estimated[:, 0], sums.estimated[:, 1:4], sums.estimated[:, 4:]
    hit = np.array([False, True])
    if not malignant:  # of N Beta(a, b) malignant ones the others are N Beta(b, a)
        expected, low, high = answered - expected, _others(answered, high), _others(answered, low)
        hit = ~hit
    random = np.random.default_rng(_SEED)
    lower, upper = _drawn(random, answered, low), _drawn(random, answered, high)
    ends = (1 - LEVEL) / 2, (1 + LEVEL) / 2
    least = np.quantile(_part(np.where(hit, lower, upper), hit, 0.0), ends[0])
    most = np.quantile(_part(np.where(hit, upper, lower), hit, 1.0), ends[1])
    known = not sums.total("without_outcome") and expected.sum() > _NEVER
    value = expected[hit].sum() / expected.sum() if known else np.nan
    return Limits(np.array(value), np.array(least), np.array(most))


def _cumulants(answered: int, a: int, b: int) -> tuple[float, float, float]:
    """Mean, variance and third central moment of N Beta(a, b); Beta(0, b) is all at 0, Beta(a, 0) at 1."""
    total = a + b
    return (
        answered * a / total,
        answered**2 * a * b / (total**2 * (total + 1)),
        answered**3 * 2 * a * b * (b - a) / (total**3 * (total + 1) * (total + 2)),
    )


def _others(answered: Real, cumulants: Real) -> Real:
    """Cumulants of N − X, from those of X."""
    return np.stack([answered - cumulants[:, 0], cumulants[:, 1], -cumulants[:, 2]], axis=1)


def _drawn(random: np.random.Generator, answered: Real, cumulants: Real) -> Real:
    """Draws with these cumulants, within 0 and N on each side, `(draws, 2)`."""
    fitted = [_fitted(float(n), *map(float, of)) for n, of in zip(answered, cumulants, strict=True)]
    a, b, low, high = np.array(fitted).T
    found: Real = low + (high - low) * random.beta(a, b, (_DRAWS, 2))
    return found


def _fitted(answered: float, mean: float, variance: float, third: float) -> tuple[float, float, float, float]:
    """Parameters a and b and bounds of the beta distribution with these cumulants."""
    if variance <= _NEVER * max(answered, 1.0) ** 2 or not 0 < mean < answered:
        return 1.0, 1.0, mean, mean
    wanted = third / variance**1.5
    skewer = _skewness(*_beta(mean, variance, 0.0, answered)) < wanted
    # To be skewer a higher lower bound is needed, up to the one at which there are two points left.
    start, stop = (0.0, mean - variance / (answered - mean)) if skewer else (answered, mean + variance / mean)
    reached = start
    for _ in range(_HALVINGS):
        middle = (start + stop) / 2
        bounds = (middle, answered) if skewer else (0.0, middle)
        beyond = _skewness(*_beta(mean, variance, *bounds)) < wanted
        if beyond == skewer:
            start = reached = middle
        else:
            stop = middle
    bounds = (reached, answered) if skewer else (0.0, reached)
    return *_beta(mean, variance, *bounds), *bounds


def _beta(mean: float, variance: float, low: float, high: float) -> tuple[float, float]:
    """The parameters of a beta distribution within bounds, from its mean and variance."""
    share, width = (mean - low) / (high - low), high - low
    worth = max(share * (1 - share) * width**2 / variance - 1, _NEVER)
    return share * worth, (1 - share) * worth


def _skewness(a: float, b: float) -> float:
    return 2 * (b - a) * math.sqrt(a + b + 1) / ((a + b + 2) * math.sqrt(a * b))


def _part(drawn: Real, hit: NDArray[np.bool_], of_none: float) -> Real:
    """The part of each draw on the sides that count, `(draws, 2)` to `(draws,)`."""
    whole = drawn.sum(axis=1)
    return np.where(whole > _NEVER, drawn[:, hit].sum(axis=1) / np.maximum(whole, _NEVER), of_none)


def _share(x: Any, n: Any) -> Limits:
    found = exact_limits(np.array(x), np.array(n))
    return found if n else Limits(np.array(np.nan), found.low, found.high)


def _told(limits: Limits) -> dict[str, Any]:
    value = None if np.isnan(limits.value) else float(limits.value)
    return {"value": value, "interval": [float(limits.low), float(limits.high)]}
