"""Days whose outcomes are looked at together: until there are enough of either side of the working point.

When a window closes is decided by how many outcomes have come, whatever they say: so the rule chooses
nothing. A file that is imported is never divided, as all of it became known on one day.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from registry.field.promises import follow_up_weights

LEAST: Final = 20
"""A window closes with so many outcomes of each side that was answered."""

ANSWERS_DAYS: Final = 365
"""Weights look at the answers of so many days before a window closes."""


@dataclass(frozen=True)
class Windows:
    """Windows that have closed, in their order.

    Attributes:
        closed_on: the last day of each, `(windows,)`.
        weights: of an outcome in each stratum, `(windows, strata)`.
    """

    closed_on: NDArray[np.int64]
    weights: NDArray[np.float64]


def windows(
    answered: NDArray[np.int64],
    known_on: NDArray[np.int64],
    stratum: NDArray[np.int64],
    flagged: NDArray[np.bool_],
) -> Windows:
    """Divides days into windows.

    Args:
        answered: answers on each day in each stratum, `(days, strata)`.
        known_on: the day on which each outcome became known, whatever it says, `(outcomes,)`.
        stratum: of each.
        flagged: which strata are above the working point, `(strata,)`.
    """
    days, strata = answered.shape
    known = np.zeros((days, strata), dtype=np.int64)
    np.add.at(known, (known_on, stratum), 1)
    until = answered.cumsum(axis=0)
    closed_on: list[int] = []
    weights: list[NDArray[np.float64]] = []
    came = np.zeros(strata, dtype=np.int64)
    for day in np.unique(known_on):
        came = came + known[day]
        lately = until[day] - (until[day - ANSWERS_DAYS] if day >= ANSWERS_DAYS else 0)
        sides = [side for side in (flagged, ~flagged) if lately[side].any() or came[side].any()]
        if all(came[side].sum() >= LEAST for side in sides):
            closed_on.append(int(day))
            weights.append(follow_up_weights(lately, came, flagged))
            came = np.zeros(strata, dtype=np.int64)
    return Windows(np.array(closed_on, dtype=np.int64), np.array(weights).reshape(-1, strata))
