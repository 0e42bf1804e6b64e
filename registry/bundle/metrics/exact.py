"""Exact limits of proportions (Clopper & Pearson 1934), also of numbers that are not whole.

The exact interval of x of n takes each side's α/2 from the binomial distribution, whose tails are beta
distributions:

    low = B(α/2; x, n − x + 1),  high = B(1 − α/2; x + 1, n − x),  B(p; a, b) the p-quantile of Beta(a, b).

It holds the truth with 1 − α at least, also where all or none are so. n pictures that are not independent are
worth n / deff that are (`design_effect`), and x of them x / deff (Korn & Graubard 1998).
"""

from collections.abc import Callable
from functools import lru_cache
from math import lgamma
from typing import Any

import numpy as np
from numpy.typing import NDArray

from registry.bundle.metrics.limits import LEVEL, Limits

Real = NDArray[np.float64]

_KEPT = 4096  # answers that are kept, for questions that come again
_TINY = float(np.finfo(np.float64).tiny)  # keeps the continued fraction away from a division by 0
_ACCURACY = 1e-15
_MOST_TERMS = 100_000
_STEPS = 60
_NARROW = 1e-8  # the next of Newton's steps would be as its square
_HALVINGS = 60
_log_gamma: Callable[[Any], Real] = np.vectorize(lgamma, otypes=[np.float64])


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
    """The x with I_x(a, b) = `probability`.

    The same counts are asked about again and again: by every stage, by the summary, and by the report.
    """
    a, b = np.broadcast_arrays(a, b)
    return _beta_quantile(probability, a.shape, a.tobytes(), b.tobytes()).copy()


@lru_cache(_KEPT)
def _beta_quantile(probability: float, shape: tuple[int, ...], of_a: bytes, of_b: bytes) -> Real:
    """By Newton's steps, and by halving where they lead out; a and b as the bytes of their arrays."""
    a, b = (np.frombuffer(each, np.float64).reshape(shape) for each in (of_a, of_b))
    front = _log_gamma(a + b) - _log_gamma(a) - _log_gamma(b)
    low, high = np.zeros(front.shape), np.ones(front.shape)
    x = a / (a + b)
    for _ in range(_STEPS):
        missing = probability - incomplete_beta(x, a, b)
        low, high = np.where(missing > 0, x, low), np.where(missing > 0, high, x)
        with np.errstate(all="ignore"):  # a step into nowhere is not taken
            density = np.exp(front + (a - 1) * np.log(x) + (b - 1) * np.log1p(-x))
            step = x + missing / density
        inside = np.isfinite(step) & (step > low) & (step < high)
        step = np.where(inside, step, (low + high) / 2)
        done = np.abs(step - x) <= _NARROW * x
        x = step
        if done.all():
            break
    return x


def bisect(is_below: Callable[[float], bool], low: float, high: float) -> float:
    """The point between `low` and `high` where a rising function passes its target, by bisection."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return (low + high) / 2


def incomplete_beta(x: Any, a: Any, b: Any) -> Real:
    """The regularised incomplete beta function I_x(a, b), for 0 ≤ x ≤ 1 and a, b > 0, `(...)`.

    I_x(a, b) = x^a (1 − x)^b / (a B(a, b)) · 1 / (1 + d_1 / (1 + d_2 / (1 + …))), a fraction that converges
    quickly below the mean; above it I_x(a, b) = 1 − I_{1−x}(b, a).
    """
    x, a, b = np.broadcast_arrays(*(np.asarray(each, dtype=np.float64) for each in (x, a, b)))
    swap = x > (a + 1) / (a + b + 2)
    y, c, d = np.where(swap, 1 - x, x), np.where(swap, b, a), np.where(swap, a, b)
    inside = np.clip(y, _TINY, 1 - 1e-16)
    log_front = _log_gamma(c + d) - _log_gamma(c) - _log_gamma(d) + c * np.log(inside) + d * np.log1p(-inside)
    found = np.where(y <= 0, 0.0, np.exp(log_front) / c * _fraction(inside, c, d))
    return np.where(swap, 1 - found, found)


def _fraction(x: Real, a: Real, b: Real) -> Real:
    """1 / (1 + d_1 / (1 + d_2 / …)), from the front (Lentz 1976).

    d_{2m} = m (b − m) x / ((a + 2m − 1)(a + 2m)), d_{2m+1} = −(a + m)(a + b + m) x / ((a + 2m)(a + 2m + 1)).
    """
    value, above, below = np.ones_like(x), np.ones_like(x), np.zeros_like(x)
    for term in range(_MOST_TERMS):
        m = term // 2
        if term == 0:
            d = np.ones_like(x)
        elif term % 2 == 0:
            d = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        else:
            d = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        below = 1 + d * below
        below = 1 / np.where(below == 0, _TINY, below)
        above = 1 + d / above
        above = np.where(above == 0, _TINY, above)
        value = value * above * below
        if (np.abs(above * below - 1) < _ACCURACY).all():
            break
    return value - 1.0
