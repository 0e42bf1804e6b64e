"""95 % intervals from replicates: the 2.5th to the 97.5th percentile."""

import numpy as np

from registry.bundle.metrics.limits import LEVEL
from registry.bundle.metrics.ratio import Figure

_NO_WIDTH = 1e-12
"""Figures that differ by no more are equal: sums of the same numbers come out so far apart by rounding."""


def interval(replicates: Figure) -> tuple[float, float] | None:
    """The ends of the interval of a figure with these replicates, `(replicates,)`.

    A replicate in which the figure is undefined (it drew no picture of a small subgroup) is left out;
    None where that is more than half of them, or there are none, or all are equal, or so many that both ends
    are, since then they say nothing of how uncertain the figure is.
    """
    defined = replicates[~np.isnan(replicates)]
    if 2 * defined.size < replicates.size or not defined.size or np.ptp(defined) <= _NO_WIDTH:
        return None
    low, high = np.quantile(defined, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return None if high - low <= _NO_WIDTH else (float(low), float(high))
