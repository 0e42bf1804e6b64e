"""Wilson's interval of a proportion, and of a mean of several.

Each proportion r_k = x / n has Wilson's interval (1927),

    l_k, u_k = (x + z²/2 ∓ z √(x (n − x) / n + z²/4)) / (n + z²),  z = 1.96,

which has width wherever r_k lies, and that of the mean f of K proportions follows from theirs by MOVER (Zou &
Donner 2008):

    low = f − √(Σ_k (r_k − l_k)²) / K,  high = f + √(Σ_k (u_k − r_k)²) / K.

It takes the n pictures for independent ones.
"""

import numpy as np
from numpy.typing import NDArray

_Z = 1.959963984540054  # the 0.975-quantile of the normal distribution


def mean_interval(right: NDArray[np.int64], n: NDArray[np.int64]) -> tuple[float, float]:
    """The 95 % interval of the mean of proportions `right` of `n`, `(K,)`; one n at least is not 0."""
    x, of = right[n > 0], n[n > 0]
    share = x / of
    middle = (x + _Z**2 / 2) / (of + _Z**2)
    half = _Z * np.sqrt(x * (of - x) / of + _Z**2 / 4) / (of + _Z**2)
    below = np.sqrt(np.sum((share - middle + half) ** 2)) / len(of)
    above = np.sqrt(np.sum((middle + half - share) ** 2)) / len(of)
    return float(share.mean() - below), float(share.mean() + above)
