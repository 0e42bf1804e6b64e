"""Promises as observations whose mean is at least 0 while they hold, weighed by who is followed up.

Of a malignant lesion that was called so, sensitivity s or more is promised: the mean of X = called − s is at
least 0 among all malignant lesions. Outcomes come of some of them, of those that were not called much more
seldom. Each counts w = π_least / π_s, where π_s is the share of stratum s whose outcome has become known so
far and π_least the smallest of them: what is rarely followed up counts in full, and the rest as much less as
it is followed up more often (Horvitz and Thompson 1952, scaled to stay within the bound of a bet). Shares are
of the days before, so that a bet knows them.
"""

import numpy as np
from numpy.typing import NDArray

_PRIOR = 1.0  # an answer of each kind, followed up or not, before there are any


def follow_up_weights(answered: NDArray[np.int64], confirmed: NDArray[np.int64]) -> NDArray[np.float64]:
    """The weight of an outcome in each stratum, `(..., strata)`, each in (0, 1].

    Args:
        answered: answers old enough for an outcome, before the day, `(..., strata)`.
        confirmed: those of them whose outcome is known.
    """
    share = (confirmed + _PRIOR) / (answered + 2 * _PRIOR)
    weights: NDArray[np.float64] = share.min(axis=-1, keepdims=True) / share
    return weights


def kept_promise(
    hit: NDArray[np.bool_], weight: NDArray[np.float64], promised: float
) -> tuple[NDArray[np.float64], float]:
    """Observations of a promised share of hits, `(observations,)`, and their bound.

    Args:
        hit: whether each counts for the promise: a malignant lesion that was called so, a set that held the
            right class.
        weight: of each, from `follow_up_weights`.
        promised: the share that is promised, between 0 and 1.

    Raises:
        ValueError: nothing can be held against a promise of 0, and 1 is broken by one observation.
    """
    if not 0 < promised < 1:
        raise ValueError(f"a promised share of {promised} cannot be watched; it lies between 0 and 1")
    return weight * (hit - promised), 1 - promised
