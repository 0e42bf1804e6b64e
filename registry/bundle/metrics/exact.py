"""Exact intervals of proportions (Clopper & Pearson 1934), for where no replicate varies.

Where all pictures are answered rightly, so are those of every replicate, and a bootstrap would be certain.
The exact interval of x of n takes each side's α/2 from the binomial distribution, whose tails are beta
distributions:

    low = B(α/2; x, n − x + 1),  high = B(1 − α/2; x + 1, n − x),  B(p; a, b) the p-quantile of Beta(a, b).

It takes the n pictures for independent ones. Pictures of one lesion are not, and make it too narrow.
"""

from collections.abc import Callable
from math import exp, lgamma, log, log1p

import numpy as np
from numpy.typing import NDArray

from registry.bundle.metrics.interval import LEVEL

_TINY = 1e-300  # keeps the continued fraction away from a division by 0
_ACCURACY = 1e-15
_MOST_TERMS = 100_000
_HALVINGS = 60


def exact_interval(right: NDArray[np.int64], n: NDArray[np.int64]) -> tuple[float, float] | None:
    """An interval of the mean of K proportions, such as accuracy (K = 1) or recalls; None where all n are 0.

    With K > 1 each has its own interval at the level 1 − α/K, and the ends are averaged: all K hold at once
    with probability 1 − α at least, and then so does the mean. This is wider than it need be.

    Args:
        right: x of each, `(K,)`.
        n: n of each, `(K,)`; those of 0 pictures are left out.
    """
    pairs = [(int(x), int(of)) for x, of in zip(right, n, strict=True) if of]
    if not pairs:
        return None
    level = 1 - (1 - LEVEL) / len(pairs)
    ends = np.mean([clopper_pearson(x, of, level) for x, of in pairs], axis=0)
    return float(ends[0]), float(ends[1])


def clopper_pearson(right: float, n: float, level: float = LEVEL) -> tuple[float, float]:
    """The exact interval of a proportion of which `right` of `n` were seen; neither need be whole."""
    tail = (1 - level) / 2
    low = 0.0 if right == 0 else _beta_quantile(tail, right, n - right + 1)
    high = 1.0 if right == n else _beta_quantile(1 - tail, right + 1, n - right)
    return low, high


def _beta_quantile(probability: float, a: float, b: float) -> float:
    """The x with I_x(a, b) = `probability`, by bisection."""
    return bisect(lambda x: incomplete_beta(x, a, b) < probability, 0.0, 1.0)


def bisect(is_below: Callable[[float], bool], low: float, high: float) -> float:
    """The point between `low` and `high` where a rising function passes its target, by bisection."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return (low + high) / 2


def incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I_x(a, b), for 0 ≤ x ≤ 1 and a, b > 0.

    I_x(a, b) = x^a (1 − x)^b / (a B(a, b)) · 1 / (1 + d_1 / (1 + d_2 / (1 + …))), a fraction that converges
    quickly below the mean; above it I_x(a, b) = 1 − I_{1−x}(b, a).
    """
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(1 - x, b, a)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)) / a
    return front * _fraction(x, a, b)


def _fraction(x: float, a: float, b: float) -> float:
    """1 / (1 + d_1 / (1 + d_2 / …)), from the front (Lentz 1976).

    d_{2m} = m (b − m) x / ((a + 2m − 1)(a + 2m)), d_{2m+1} = −(a + m)(a + b + m) x / ((a + 2m)(a + 2m + 1)).
    """
    value, above, below = 1.0, 1.0, 0.0
    for term in range(_MOST_TERMS):
        m = term // 2
        if term == 0:
            d = 1.0
        elif term % 2 == 0:
            d = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        else:
            d = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        below = 1 / (1 + d * below or _TINY)
        above = 1 + d / above or _TINY
        value *= above * below
        if abs(above * below - 1) < _ACCURACY:
            break
    return value - 1.0
