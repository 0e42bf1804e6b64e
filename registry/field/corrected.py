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

from registry.bundle.metrics.exact import exact_limits
from registry.bundle.metrics.limits import LEVEL, Limits
from registry.field.strata import Strata

_DRAWS = 4000
_SEED = 0  # draws of a posterior: the same counts have the same interval
_JEFFREYS = 0.5


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

    The interval is of the posterior under Jeffreys' prior for the share of malignant ones in each stratum,
    and of N_s as they are: a stratum with few outcomes makes it as wide as it has to be.
    """
    asked = strata.answered > 0
    n, x = strata.confirmed[asked], strata.malignant[asked]
    if not n.any():
        return Limits(np.array(np.nan), np.array(0.0), np.array(1.0))
    x = x if malignant else n - x
    hit = strata.flagged[asked] if malignant else ~strata.flagged[asked]
    answered = strata.answered[asked]
    drawn = np.random.default_rng(_SEED).beta(x + _JEFFREYS, n - x + _JEFFREYS, (_DRAWS, len(n))) * answered
    low, high = np.quantile(drawn[:, hit].sum(axis=1) / drawn.sum(axis=1), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    value = np.nan
    if n.all() and x.any():
        expected = answered * x / n
        value = expected[hit].sum() / expected.sum()
    return Limits(np.array(value), np.array(low), np.array(high))
