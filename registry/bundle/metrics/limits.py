"""Figures with the ends of their 95 % intervals."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from registry.bundle.metrics.ratio import Figure

LEVEL = 0.95
Z = 1.959963984540054  # the 0.975-quantile of the normal distribution


@dataclass(frozen=True)
class Limits:
    """A figure and the ends of its interval, all `(...)`; nan where it is undefined."""

    value: Figure
    low: Figure
    high: Figure

    def __getitem__(self, place: int) -> "Limits":
        return Limits(self.value[..., place], self.low[..., place], self.high[..., place])

    def __sub__(self, other: Self) -> "Limits":
        """The difference of two independent figures.

        As far below it as √((f − l)² + (u' − f')²), above likewise (Newcombe 1998; MOVER, Zou & Donner 2008).
        """
        value = self.value - other.value
        below = np.hypot(self.value - self.low, other.high - other.value)
        above = np.hypot(self.high - self.value, other.value - other.low)
        return Limits(value, value - below, value + above)

    def ends(self) -> list[float] | None:
        """Both ends of a single figure, ready for JSON; None where it is undefined."""
        return None if np.isnan(self.value) else [float(self.low), float(self.high)]

    @classmethod
    def stack(cls, several: "list[Limits]") -> "Limits":
        """Several figures `(...)` as one of `(..., figures)`."""
        names = ("value", "low", "high")
        return cls(*(np.stack([getattr(each, name) for each in several], axis=-1) for name in names))
