"""Watches one promise to one subgroup over days: what is held against it, and the first day of an alarm."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from registry.field.e_process import log_capital, log_gains
from registry.field.promises import kept_promise
from registry.field.windows import Windows

YEAR: Final = 365
"""Days for which a promise is watched with one α; then gamblers begin anew."""

PERIOD_DAYS: Final = 61
"""So often a new gambler begins to bet."""


@dataclass(frozen=True)
class KnownOutcomes:
    """Answers whose outcome is known and that a promise is about.

    Attributes:
        known_on: the day on which the outcome of each became known, `(outcomes,)`.
        stratum: of each.
        hit: whether each counts for the promise.
    """

    known_on: NDArray[np.int64]
    stratum: NDArray[np.int64]
    hit: NDArray[np.bool_]


@dataclass(frozen=True)
class Watched:
    """What was held against a promise.

    Attributes:
        evidence: the logarithm of the gamblers' capital after each window, since its year began,
            `(windows,)`.
        alarm_on: the day on which it first reached 1/α; None where it did not.
    """

    evidence: NDArray[np.float64]
    alarm_on: int | None


def watch(outcomes: KnownOutcomes, within: Windows, promised: float, alpha: float) -> Watched:
    """Holds outcomes against a promised share of hits.

    Args:
        outcomes: of the answers that the promise is about; those after the last window wait for the next.
        within: the windows, whose weights correct for who is followed up.
        promised: the least share of hits.
        alpha: how often a promise that is kept may be accused in a year.
    """
    closed_on = within.closed_on
    window = np.searchsorted(closed_on, outcomes.known_on)
    seen = window < len(closed_on)
    weight = within.weights[window[seen], outcomes.stratum[seen]]
    x, most = kept_promise(outcomes.hit[seen], weight, promised)
    gains = log_gains(x, most, window[seen], len(closed_on))
    year, day = np.divmod(closed_on, YEAR)
    evidence = np.zeros(len(closed_on))
    for each in np.unique(year):
        of = year == each
        evidence[of] = log_capital(gains[:, of], day[of] // PERIOD_DAYS, -(-YEAR // PERIOD_DAYS))
    alarms = np.flatnonzero(evidence >= -np.log(alpha))
    return Watched(evidence, int(closed_on[alarms[0]]) if alarms.size else None)
