"""Exact limits of proportions (Clopper & Pearson 1934), also of numbers that are not whole.

The exact interval of x of n takes each side's α/2 from the binomial distribution, whose tails are beta
distributions:

    low = B(α/2; x, n − x + 1),  high = B(1 − α/2; x + 1, n − x),  B(p; a, b) the p-quantile of Beta(a, b).

It holds the truth with 1 − α at least, also where all or none are so. n pictures that are not independent are
worth n / deff that are (`design_effect`), and x of them x / deff (Korn & Graubard 1998).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from registry.bundle.metrics.limits import LEVEL, Limits

Real = NDArray[np.float64]

_TINY = float(np.finfo(np.float64).tiny)
_NARROW = 1e-8


def exact_limits(x: NDArray[Any], n: NDArray[Any], level: float = LEVEL) -> Limits:
    """Proportions x / n with their exact limits, `(...)`; of 0 of 0 the value is 0, and 0 to 1 the limits."""
    x, n = (np.asarray(each, dtype=np.float64) for each in (x, n))
    value = np.where(n > 0, x / np.maximum(n, _TINY), 0.0)
    return Limits(value, exact_low(x, n, level), exact_high(x, n, level))


def exact_low(x: Real, n: Real, level: float = LEVEL) -> Real:
    """The lower exact limit, `(...)`; nan of nan."""
    inside = x > _NARROW
    low = beta_quantile((1 - level) / 2, np.where(inside, x, 1.0), np.where(inside, n - x + 1, 1.0))
    return np.where(inside, low, 0.0 * x)


def exact_high(x: Real, n: Real, level: float = LEVEL) -> Real:
    """The upper exact limit, `(...)`; nan of nan."""
    return 1 - exact_low(n - x, n, level)


def clopper_pearson(x: float, n: float, level: float = LEVEL) -> tuple[float, float]:
    """The exact interval of a proportion of which x of n were seen."""
    found = exact_limits(np.array(x), np.array(n), level)
    return float(found.low), float(found.high)


def beta_quantile(probability: float, a: Real, b: Real) -> Real:
    """The x with I_x(a, b) = `probability`, the quantile of Beta(a, b), `(...)`."""
    found: Real = betaincinv(a, b, probability)
    return found
