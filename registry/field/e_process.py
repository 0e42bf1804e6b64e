"""Evidence against a promise that may be looked at every day: the capital of a gambler who bets against it.

A promise says that the mean of X_1, X_2, … is at least 0. A gambler who begins with 1 and bets the share κ
of their capital against each multiplies it by 1 − κ X_i / b, where X_i ≤ b is known beforehand. While the
promise holds, the capital is no martingale that gains, and by Ville's inequality it reaches 1/α at any time
with probability α at most, however often one looks (Waudby-Smith and Ramdas, JRSS B 86:1, 2024). Nobody
knows the best κ, nor when a model turns bad: the capital is spread over several κ, and over gamblers who
begin at different times; a mean of such capitals is one again. Those who begin late have lost nothing while
all was well (as in Shin, Ramdas and Rinaldo's e-detectors, 2023, but with shares that add up to one, so that
the probability of one false alarm in the whole time is bounded).
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

SHARES: Final = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
"""Shares of the capital that are bet."""


def log_capital(
    x: NDArray[np.float64], most: float, period: NDArray[np.int64], periods: int
) -> NDArray[np.float64]:
    """The logarithm of the capital after each observation, `(observations,)`.

    Args:
        x: in the order in which they became known, `(observations,)`; none above `most`.
        most: the bound b.
        period: in which period each became known, rising, `(observations,)`; in each a new gambler begins.
        periods: how many periods there will be in all, over which the first capital is spread.

    Raises:
        ValueError: an observation is above the bound, or in no period.
    """
    if not len(x):
        return np.zeros(0)
    if (x > most + 1e-12).any():
        raise ValueError(f"an observation of {x.max()} is above the bound {most}")
    if period[0] < 0 or period[-1] >= periods or (np.diff(period) < 0).any():
        raise ValueError("observations are not in the order of their periods")
    shares = np.array(SHARES)[:, np.newaxis]
    won = np.cumsum(np.log1p(-shares * x / most), axis=1)  # (shares, observations)
    total = np.full(len(x), -np.inf)
    for start in np.searchsorted(period, np.arange(periods)):
        # Who begins here has bet from this observation on, and has their whole capital before it.
        since = won - (won[:, start - 1, np.newaxis] if start else 0.0)
        capital = np.where(np.arange(len(x)) >= start, since, 0.0)
        total = np.logaddexp(total, np.logaddexp.reduce(capital, axis=0))
    evidence: NDArray[np.float64] = total - np.log(periods * len(SHARES))
    return evidence
