"""Sensitivity and specificity in the field, as seen among the followed up and corrected for who they are.

Among the followed up sensitivity is too high: most missed lesions are among those that were not called
suspicious, and few of these are followed up. With N answers, n outcomes and m malignant ones in stratum s,
Begg and Greenes (Biometrics 39:207, 1983) estimate what it is among all who were asked:

    sensitivity = Σ_{s flagged} N_s m_s/n_s / Σ_s N_s m_s/n_s,
    specificity = Σ_{s not flagged} N_s (1 − m_s/n_s) / Σ_s N_s (1 − m_s/n_s).

It holds where, within a stratum, being followed up does not depend on the outcome; where clinicians see more
than the model did, the corrected figure may be too low.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from registry.bundle.metrics.exact import exact_limits
from registry.bundle.metrics.limits import LEVEL, Limits
from registry.field.strata import Strata

Real = NDArray[np.float64]

_DRAWS = 4000
_SEED = 0  # the same counts have the same interval
_NEVER = 1e-9  # in place of 0, for which there is no distribution


@dataclass(frozen=True)
class FieldFigures:
    """Sensitivity and specificity at the working point, in the field.

    Attributes:
        answered: everybody who was answered.
        confirmed: those whose outcome is known.
        malignant: the malignant ones of these.
        seen_sensitivity, seen_specificity: among the followed up.
        sensitivity, specificity: corrected for who is followed up; nan where a stratum in which somebody was
            answered has no outcome at all.
    """

    answered: int
    confirmed: int
    malignant: int
    seen_sensitivity: Limits
    seen_specificity: Limits
    sensitivity: Limits
    specificity: Limits


UNKNOWN = Limits(np.array(np.nan), np.array(0.0), np.array(1.0))
"""A figure of which nothing is known."""


def no_figures(strata: Strata) -> FieldFigures:
    """The figures of a version that has no working point and no malignant class."""
    answered, confirmed, malignant = (
        int(each.sum()) for each in (strata.answered, strata.confirmed, strata.malignant)
    )
    return FieldFigures(answered, confirmed, malignant, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)


def field_figures(strata: Strata) -> FieldFigures:
    """Both figures, seen and corrected, each with its 95 % interval."""
    flagged, benign = strata.flagged, strata.confirmed - strata.malignant
    return FieldFigures(
        int(strata.answered.sum()),
        int(strata.confirmed.sum()),
        int(strata.malignant.sum()),
        _seen(int(strata.malignant[flagged].sum()), int(strata.malignant.sum())),
        _seen(int(benign[~flagged].sum()), int(benign.sum())),
        _corrected(strata, malignant=True),
        _corrected(strata, malignant=False),
    )


def _seen(x: int, n: int) -> Limits:
    found = exact_limits(np.array(x), np.array(n))
    return found if n else Limits(np.array(np.nan), found.low, found.high)


def _corrected(strata: Strata, *, malignant: bool) -> Limits:
    """Of the malignant the share that is flagged, or of the others the share that is not.

    N_s are as they are. What is uncertain is the share x/n of each stratum: its lower end is as Beta(x, n −
    x + 1) has it and its upper one as Beta(x + 1, n − x), whose quantiles are the exact limits (Clopper and
    Pearson 1934). The interval's low end takes the lower of the strata that count for the figure and the
    upper of the others, and its high end the other way round: it is rather too wide than too narrow where
    outcomes are few.
    """
    asked = strata.answered > 0
    n, x = strata.confirmed[asked], strata.malignant[asked]
    if not n.any():
        return UNKNOWN
    x = x if malignant else n - x
    hit = strata.flagged[asked] if malignant else ~strata.flagged[asked]
    answered = strata.answered[asked]
    random = np.random.default_rng(_SEED)
    lower = random.beta(np.maximum(x, _NEVER), n - x + 1, (_DRAWS, len(n))) * answered
    upper = random.beta(x + 1, np.maximum(n - x, _NEVER), (_DRAWS, len(n))) * answered
    low = np.quantile(_share(np.where(hit, lower, upper), hit, 0.0), (1 - LEVEL) / 2)
    high = np.quantile(_share(np.where(hit, upper, lower), hit, 1.0), (1 + LEVEL) / 2)
    value = np.nan
    if n.all() and x.any():
        expected = answered * x / n
        value = expected[hit].sum() / expected.sum()
    return Limits(np.array(value), np.array(low), np.array(high))


def _share(drawn: Real, hit: NDArray[np.bool_], of_none: float) -> Real:
    """The part of each draw that lies in the strata that count, `(draws, strata)` to `(draws,)`."""
    whole = drawn.sum(axis=1)
    return np.where(whole > 0, drawn[:, hit].sum(axis=1) / np.maximum(whole, _NEVER), of_none)
