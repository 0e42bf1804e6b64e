"""Figures with the ends of their 95 % intervals: limits of one, and of a mean of several from theirs (MOVER).

A mean f = Σ_k w_k f_k of figures with limits l_k, u_k has (Zou & Donner 2008), where R is their correlation,

    low = f − √(Σ_jk R_jk w_j w_k (f_j − l_j) (f_k − l_k)),  high likewise from u_k − f_k.

It keeps what is known of each: of a class of few pictures that all are answered alike, replicates say that
nothing varies, and its limits say how little is known.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from registry.bundle.metrics.ratio import Figure, ratio

LEVEL = 0.95
Z = 1.959963984540054  # the 0.975-quantile of the normal distribution
_HALVINGS = 40


@dataclass(frozen=True)
class Limits:
    """A figure and the ends of its interval, all `(...)`; nan where it is undefined."""

    value: Figure
    low: Figure
    high: Figure

    def __getitem__(self, place: int) -> "Limits":
        return Limits(self.value[..., place], self.low[..., place], self.high[..., place])

    def ends(self) -> list[float] | None:
        """Both ends of a single figure, ready for JSON; None where it is undefined."""
        return None if np.isnan(self.value) else [float(self.low), float(self.high)]

    @classmethod
    def stack(cls, several: "list[Limits]") -> "Limits":
        """Several figures `(...)` as one of `(..., figures)`."""
        return cls(
            *(
                np.stack([getattr(each, name) for each in several], axis=-1)
                for name in ("value", "low", "high")
            )
        )


def wilson(x: NDArray[np.float64], n: NDArray[np.float64]) -> Limits:
    """A proportion x / n with Wilson's limits (1927), which need not be of whole numbers; 0 to 1 of none.

    (x + z²/2 ∓ z √(x (n − x) / n + z²/4)) / (n + z²): they have width wherever x / n lies.
    """
    share = np.where(n > 0, x / np.maximum(n, 1e-9), 0.0)
    middle = (share * n + Z**2 / 2) / (n + Z**2)
    half = Z * np.sqrt(n * share * (1 - share) + Z**2 / 4) / (n + Z**2)
    return Limits(share, middle - half, middle + half)


def score_limits(value: Figure, variance: Callable[[Figure], Figure]) -> Limits:
    """The limits θ between 0 and 1 at which |value − θ| = z √variance(θ), by bisection from the value."""
    ends = []
    for farthest in (0.0, 1.0):
        inside, outside = np.array(value), np.full_like(value, farthest)
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            within = np.abs(value - middle) <= Z * np.sqrt(variance(middle))
            inside, outside = np.where(within, middle, inside), np.where(within, outside, middle)
        ends.append(np.where(np.isnan(value), np.nan, (inside + outside) / 2))
    return Limits(value, *ends)


def mean_limits(
    parts: Limits, weights: NDArray[np.float64] | None = None, correlation: NDArray[np.float64] | None = None
) -> Limits:
    """The mean over the last axis of figures that are defined.

    Args:
        parts: `(..., K)`.
        weights: of each, `(..., K)`; where not given all count alike.
        correlation: R, `(..., K, K)`; where not given they are independent.
    """
    defined = ~np.isnan(parts.value)
    heavy = np.where(defined, 1.0 if weights is None else weights, 0.0)
    share = ratio(heavy, heavy.sum(axis=-1, keepdims=True))
    value = (share * np.where(defined, parts.value, 0.0)).sum(axis=-1)

    def distance(of: Figure) -> Figure:
        each = share * np.where(defined, of, 0.0)
        if correlation is None:
            return np.sqrt((each**2).sum(axis=-1))
        return np.sqrt(np.einsum("...j,...jk,...k->...", each, correlation, each))

    return Limits(value, value - distance(parts.value - parts.low), value + distance(parts.high - parts.value))
