"""Zero-concentrated differential privacy (Bun and Steinke 2016): ρ of discrete Gaussian noise; its (ε, δ).

A count that one patient changes by Δ in the L2 norm, told with N_Z(0, σ²) in every cell, is Δ² / 2σ²-zCDP,
and ρ of several such add up (Canonne, Kamath and Steinke 2020, Theorem 4). How many patients there are is
known, so that the change is of one patient for another: a picture leaves one cell and comes to another, Δ =
√2. (Without the patient it would be 1.) ρ-zCDP is (ε, δ)-differential privacy with

    δ = min_{α > 1} exp((α − 1)(α ρ − ε)) / (α − 1) · (1 − 1/α)^α  (Corollary 13).

Where t hospitals add noise of variance v each and only the sum is seen, the sum is not quite a discrete
Gaussian of variance t v; its ρ is at most ½ (Δ / √(t v) + τ √d)² with d cells that change and τ = 10
Σ_{k<t} exp(−2π² v k/(k + 1)) (Kairouz, Liu and Steinke 2021, *The Distributed Discrete Gaussian Mechanism*,
Theorem 1), if every one of them keeps its own noise to itself.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from math import ceil, exp, inf, log, log1p, pi, sqrt

from registry.bundle.counts.counting import GRAIN

CHANGE = sqrt(2)  # Δ
CELLS = 2  # d: those that change; the others have the same noise in either case
_STEPS = 200
_LEAST, _MOST = 1e-12, 1e4  # of ρ


def delta_of(rho: float, epsilon: float) -> float:
    """δ at ε of ρ-zCDP."""

    def logarithm(log_excess: float) -> float:
        excess = exp(log_excess)  # α − 1
        alpha = 1 + excess
        return excess * (alpha * rho - epsilon) - log_excess - alpha * log1p(1 / excess)

    return min(1.0, exp(min(0.0, _least(logarithm, log(1e-6), log(1e9)))))


def epsilon_of(rho: float, delta: float) -> float:
    """ε at δ of ρ-zCDP."""
    return _smallest(
        lambda epsilon: delta_of(rho, epsilon) <= delta, 0.0, rho + 2 * sqrt(rho * log(1 / delta))
    )


@lru_cache(maxsize=64)
def rho_of(epsilon: float, delta: float) -> float:
    """The largest ρ whose δ at ε is no more than this."""
    found = _smallest(lambda log_rho: delta_of(exp(log_rho), epsilon) > delta, log(_LEAST), log(_MOST))
    return exp(found) * (1 - 1e-9)


def rho_of_units(units: int, variance: float, sharers: int = 1) -> float:
    """ρ of so many counts.

    Args:
        units: how many.
        variance: v, of the noise that each of them adds.
        sharers: t, how many add it at least to what is seen.
    """
    share = sqrt(sharers * variance)
    tau = 10 * sum(exp(-2 * pi**2 * variance * k / (k + 1)) for k in range(1, sharers))
    return units * (CHANGE / share + tau * sqrt(CELLS)) ** 2 / 2


@lru_cache(maxsize=64)
def variance_for(units: int, epsilon: float, delta: float, sharers: int = 1) -> Fraction:
    """The least v, in sixteenths, with which so many counts are (ε, δ)-differentially private."""
    allowed = rho_of(epsilon, delta)
    enough = _smallest(
        lambda log_v: rho_of_units(units, exp(log_v), sharers) <= allowed, log(1e-3), log(units / _LEAST)
    )
    return Fraction(ceil(exp(enough) * (1 + 1e-9) * GRAIN), GRAIN)


def _smallest(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The least value for which something holds that holds from there on, by halving."""
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def _least(of: Callable[[float], float], low: float, high: float) -> float:
    """The minimum of a function with one minimum, by the golden section."""
    golden = (sqrt(5) - 1) / 2
    found = inf
    for _ in range(_STEPS):
        first, second = high - golden * (high - low), low + golden * (high - low)
        at_first, at_second = of(first), of(second)
        found = min(found, at_first, at_second)
        if at_first < at_second:
            high = second
        else:
            low = first
    return found
