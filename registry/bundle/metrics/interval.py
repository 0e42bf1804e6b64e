"""A 95 % interval from bootstrap replicates."""

import numpy as np

from registry.bundle.metrics.ratio import Figure

LEVEL = 0.95


def interval(replicates: Figure) -> tuple[float, float] | None:
    """The 2.5th and 97.5th percentile of a figure's replicates, `(replicates,)`.

    A replicate in which the figure is undefined (it drew no picture of a small subgroup) is left out;
    None where that is more than half of them, or there are none.
    """
    defined = replicates[~np.isnan(replicates)]
    if 2 * defined.size < replicates.size or not defined.size:
        return None
    low, high = np.quantile(defined, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)
