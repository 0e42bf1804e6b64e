"""Discrete Gaussian noise N_Z(0, σ²), drawn exactly: P(x) ∝ exp(−x² / 2σ²) on the whole numbers.

Canonne, Kamath and Steinke 2020 (*The Discrete Gaussian for Differential Privacy*), Algorithms 1 to 3. All
arithmetic is of whole numbers, so that no gap between floating-point numbers discloses what the noise was
added to; draws come from the operating system's entropy. Departures: none.
"""

import secrets
from collections.abc import Callable
from fractions import Fraction
from math import isqrt

import numpy as np
from numpy.typing import NDArray

Below = Callable[[int], int]
"""A uniform whole number from 0 to below n; tests put another function in its place."""


def discrete_gaussian(variance: Fraction, size: int, below: Below = secrets.randbelow) -> NDArray[np.int64]:
    """Independent draws of N_Z(0, σ²), `(size,)`.

    Args:
        variance: σ², above 0, exactly.
        size: how many.
        below: where uniform numbers come from.
    """
    return np.array([_gaussian(variance, below) for _ in range(size)], dtype=np.int64)


def _gaussian(variance: Fraction, below: Below) -> int:
    """One draw (Algorithm 3): a discrete Laplace number, kept with exp(−(|Y| − σ²/t)² / 2σ²)."""
    p, q = variance.numerator, variance.denominator
    t = isqrt(p // q) + 1  # ⌊σ⌋ + 1
    while True:
        drawn = _laplace(t, below)
        if _bernoulli_exp((abs(drawn) * t * q - p) ** 2, 2 * p * q * t * t, below):
            return drawn


def _laplace(t: int, below: Below) -> int:
    """P(x) ∝ exp(−|x| / t) (Algorithm 2, with s = 1)."""
    while True:
        rest = below(t)
        if not _bernoulli_exp(rest, t, below):
            continue
        whole = 0
        while _bernoulli_exp(1, 1, below):
            whole += 1
        size, negative = rest + t * whole, below(2)
        if size or not negative:  # 0 has one sign
            return -size if negative else size


def _bernoulli_exp(numerator: int, denominator: int, below: Below) -> bool:
    """Whether with probability exp(−γ), γ = numerator / denominator ≥ 0 (Algorithm 1)."""
    while numerator > denominator:
        if not _bernoulli_exp(1, 1, below):
            return False
        numerator -= denominator
    k = 1
    while below(denominator * k) < numerator:  # Bernoulli(γ / k)
        k += 1
    return k % 2 == 1
