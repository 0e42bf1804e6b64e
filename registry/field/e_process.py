"""Evidence against a promise that may be looked at every day: the capital of a gambler who bets against it.

A promise says that the mean of X is at least 0. A gambler who begins with 1 and bets the share κ of their
capital against each multiplies it by 1 − κ X / b, where X ≤ b. While the promise holds, the capital is not
expected to grow, and by Ville's inequality it reaches 1/α at any time with probability α at most, however
often one looks (Waudby-Smith and Ramdas, JRSS B 86:1, 2024). Nobody knows the best κ, nor when a model turns
bad: the capital is spread over several κ, and over gamblers who begin at different times; a mean of such
capitals is one again. Those who begin late have lost nothing while all was well (as in Shin, Ramdas and
Rinaldo's e-detectors, 2023, but with shares that add up to one, so that the probability of one false alarm in
the whole time is bounded).
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

SHARES: Final = (0.05, 0.1, 0.2, 0.4)
"""Shares of the capital that are bet."""


def log_gains(
    x: NDArray[np.float64], most: float, step: NDArray[np.int64], steps: int
) -> NDArray[np.float64]:
    """The logarithm of what each share makes of a capital of 1 within each step, `(shares, steps)`.

    Args:
        x: observations, in any order, `(observations,)`; none above `most`.
        most: the bound b.
        step: the step that each belongs to.
        steps: how many there are.

    Raises:
        ValueError: an observation is above the bound.
    """
    if (x > most + 1e-12).any():
        raise ValueError(f"an observation of {x.max()} is above the bound {most}")
    return np.array([np.bincount(step, np.log1p(-share * x / most), minlength=steps) for share in SHARES])


def log_capital(gains: NDArray[np.float64], period: NDArray[np.int64], periods: int) -> NDArray[np.float64]:
    """The logarithm of the capital after each step, `(steps,)`.

    Args:
        gains: of `log_gains`, `(shares, steps)`.
        period: in which period each step ends, rising, `(steps,)`; in each period a new gambler begins.
        periods: how many periods there will be in all, over which the first capital is spread.

    Raises:
        ValueError: a step is in no period, or they are not in their order.
    """
    steps = gains.shape[1]
    if not steps:
        return np.zeros(0)
    if period[0] < 0 or period[-1] >= periods or (np.diff(period) < 0).any():
        raise ValueError("steps are not in the order of their periods")
    won = np.cumsum(gains, axis=1)
    total = np.full(steps, -np.inf)
    for start in np.searchsorted(period, np.arange(periods)):
        # Who begins here has bet from this step on, and has their whole capital before it.
        since = won - (won[:, start - 1, np.newaxis] if start else 0.0)
        capital = np.where(np.arange(steps) >= start, since, 0.0)
        total = np.logaddexp(total, np.logaddexp.reduce(capital, axis=0))
    evidence: NDArray[np.float64] = total - np.log(periods * len(SHARES))
    return evidence
