"""Watches one promise to one subgroup over days: what is held against it, and the first day of an alarm."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from registry.field.e_process import log_capital
from registry.field.promises import follow_up_weights, kept_promise

MATURE_DAYS: Final = 120
"""After so many days an answer without an outcome counts as not followed up."""

YEAR: Final = 365
"""Days for which a promise is watched with one α; then gamblers begin anew."""

PERIOD_DAYS: Final = 30
"""So often a new gambler begins to bet."""


@dataclass(frozen=True)
class KnownOutcomes:
    """Answers whose outcome is known and that a promise is about, in the order in which it became known.

    Attributes:
        answered_on: the day of each answer, `(outcomes,)`.
        known_on: the day on which its outcome became known, rising, none before `answered_on`.
        stratum: of each.
        hit: whether each counts for the promise.
    """

    answered_on: NDArray[np.int64]
    known_on: NDArray[np.int64]
    stratum: NDArray[np.int64]
    hit: NDArray[np.bool_]


@dataclass(frozen=True)
class Watched:
    """What was held against a promise.

    Attributes:
        evidence: the logarithm of the gamblers' capital after each day on which outcomes became known, since
            the year began, `(days,)`.
        alarm_on: the day on which it first reached 1/α; None where it did not.
    """

    evidence: NDArray[np.float64]
    alarm_on: int | None


def weights_by_day(
    answered: NDArray[np.int64],
    answered_on: NDArray[np.int64],
    known_on: NDArray[np.int64],
    stratum: NDArray[np.int64],
) -> NDArray[np.float64]:
    """The weight of an outcome in each stratum as it is known at the end of each day, `(days, strata)`.

    Args:
        answered: answers on each day in each stratum, `(days, strata)`.
        answered_on: the day of every answer whose outcome is known, whatever it is, `(outcomes,)`.
        known_on: the day on which that became known.
        stratum: of each.
    """
    days = len(answered)
    old_enough = np.zeros_like(answered)
    old_enough[MATURE_DAYS:] = answered[: max(days - MATURE_DAYS, 0)]
    counted_on = np.maximum(known_on, answered_on + MATURE_DAYS)
    confirmed = np.zeros_like(answered)
    within = counted_on < days
    np.add.at(confirmed, (counted_on[within], stratum[within]), 1)
    return follow_up_weights(old_enough.cumsum(axis=0), confirmed.cumsum(axis=0))


def watch(
    outcomes: KnownOutcomes, weights: NDArray[np.float64] | None, promised: float, alpha: float
) -> Watched:
    """Holds outcomes against a promised share of hits.

    Args:
        outcomes: of the answers that the promise is about.
        weights: of `weights_by_day`; without them everybody counts alike, and the promise is watched for
            those alone who are followed up.
        promised: the least share of hits.
        alpha: how often a promise that is kept may be accused in a year.
    """
    if weights is None:
        weight = np.ones(len(outcomes.hit))
    else:  # as they were the day before
        weight = weights[np.maximum(outcomes.known_on - 1, 0), outcomes.stratum]
    each_x, most = kept_promise(outcomes.hit, weight, promised)
    # One bet a day, on the mean of what became known on it: in a file what was missed may stand first.
    known_on, of_day = np.unique(outcomes.known_on, return_inverse=True)
    x = np.bincount(of_day, each_x) / np.bincount(of_day)
    year, day = np.divmod(known_on, YEAR)
    evidence = np.zeros(len(x))
    for each in np.unique(year):
        of = year == each
        evidence[of] = log_capital(x[of], most, day[of] // PERIOD_DAYS, -(-YEAR // PERIOD_DAYS))
    alarms = np.flatnonzero(evidence >= -np.log(alpha))
    return Watched(evidence, int(known_on[alarms[0]]) if alarms.size else None)
