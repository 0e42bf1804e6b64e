"""Wilson intervals of a mean of proportions, such as recalls, which widen where pictures are few.

Where a class of few pictures is answered all alike, no replicate varies in it, and the percentiles of their
mean recall are those of the other classes. Each proportion r_k = x / n has Wilson's interval (1927),

    l_k, u_k = (x + z²/2 ∓ z √(x (n − x) / n + z²/4)) / (n + z²),  z = 1.96,

which has width wherever r_k lies, and that of the mean f of K proportions follows from theirs by MOVER (Zou &
Donner 2008):

    low = f − √(Σ_k (r_k − l_k)²) / K,  high = f + √(Σ_k (u_k − r_k)²) / K.

It takes the n pictures for independent ones, which pictures of one lesion are not: a bootstrap over lesions
knows better, and is widened by it and never made narrower. Measured coverages are in `docs/metrics.md`.
"""

import numpy as np
from numpy.typing import NDArray

_Z = 1.959963984540054  # the 0.975-quantile of the normal distribution


def widened(
    found: tuple[float, float], right: NDArray[np.int64], n: NDArray[np.int64]
) -> tuple[float, float]:
    """An interval of a mean of proportions with at least the ends of `mean_interval`.

    A single proportion keeps its own: replicates that do not vary are all equal then, and are seen as that.

    Args:
        found: the interval from replicates.
        right: x of each proportion, `(K,)`.
        n: n of each, `(K,)`; those of 0 pictures are left out.
    """
    if np.count_nonzero(n) < 2:
        return found
    low, high = mean_interval(right, n)
    return min(found[0], low), max(found[1], high)


def mean_interval(right: NDArray[np.int64], n: NDArray[np.int64]) -> tuple[float, float]:
    """The 95 % interval of the mean of proportions `right` of `n`, `(K,)`; one n at least is not 0."""
    x, of = right[n > 0], n[n > 0]
    share = x / of
    middle = (x + _Z**2 / 2) / (of + _Z**2)
    half = _Z * np.sqrt(x * (of - x) / of + _Z**2 / 4) / (of + _Z**2)
    below = np.sqrt(np.sum((share - middle + half) ** 2)) / len(of)
    above = np.sqrt(np.sum((middle + half - share) ** 2)) / len(of)
    return float(share.mean() - below), float(share.mean() + above)
