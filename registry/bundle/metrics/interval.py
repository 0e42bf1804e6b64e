"""95 % intervals from bootstrap replicates.

Most figures take the 2.5th to the 97.5th percentile of their replicates. Not those that noise pushes to one
side: a distance (`spread`, `ece`) grows with noise, and a resample is noisier than the sample. Its replicates
lie above the figure, the figure above the truth, and the percentiles miss a truth near 0 almost always. The
sample has noise once and a replicate twice: where there is nothing but noise, of size b in the sample, a
replicate's is √2 b, so that the excess of the replicates' median M over the figure f tells b = (1 + √2)(M −
f). Hence

    low = max(0, f − (1 + √2) max(M − f, 0) − (Q_97.5 − M)),  high = Q_97.5,

which takes off the bias and half the width below, and keeps the percentile above. `worst`, which noise
lowers, is the same turned round. Measured coverages of this, of percentiles, of the basic interval and of the
bias-corrected percentiles (Efron 1981), which are worse, are in `docs/metrics.md`.
"""

from collections.abc import Mapping
from math import sqrt
from typing import Literal

import numpy as np

from registry.bundle.metrics.ratio import Figure

LEVEL = 0.95
_NOISE_TWICE = 1 + sqrt(2)
_NO_WIDTH = 1e-12
"""Figures that differ by no more are equal: sums of the same numbers come out so far apart by rounding."""

Noise = Literal["raises", "lowers"]
NOISE: Mapping[str, Noise] = {
    "variance": "raises",
    "gap": "raises",
    "worst": "lowers",
    "spread": "raises",
    "spread_standardised": "raises",
    "ece": "raises",
    "mce": "raises",
}
"""What noise does to the figures that it pushes to one side, by name; all of them lie between 0 and 1."""


def interval(
    replicates: Figure, point: Figure | float | None = None, noise: Noise | None = None
) -> tuple[float, float] | None:
    """The ends of the interval of a figure with these replicates, `(replicates,)`.

    A replicate in which the figure is undefined (it drew no picture of a small subgroup) is left out;
    None where that is more than half of them, or there are none, or all are equal, or so many that both ends
    are, since then they say nothing of how uncertain the figure is.

    Args:
        replicates: the figure of each replicate.
        point: the figure itself, needed with `noise`.
        noise: what noise does to the figure, `NOISE.get(name)`; None for percentiles.
    """
    defined = replicates[~np.isnan(replicates)]
    if 2 * defined.size < replicates.size or not defined.size or np.ptp(defined) <= _NO_WIDTH:
        return None
    low, high = _ends(defined, point, noise)
    return None if high - low <= _NO_WIDTH else (low, high)


def _ends(defined: Figure, point: Figure | float | None, noise: Noise | None) -> tuple[float, float]:
    if noise == "lowers":
        assert point is not None
        mirrored = _bias_corrected(1 - defined, 1 - float(point))
        return 1 - mirrored[1], 1 - mirrored[0]
    if noise == "raises":
        assert point is not None
        return _bias_corrected(defined, float(point))
    low, high = np.quantile(defined, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _bias_corrected(replicates: Figure, point: float) -> tuple[float, float]:
    middle, high = (float(end) for end in np.quantile(replicates, [0.5, (1 + LEVEL) / 2]))
    noise = _NOISE_TWICE * max(middle - point, 0.0)
    return max(0.0, point - noise - (high - middle)), high
