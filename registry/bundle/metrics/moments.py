"""Limits of any figure between 0 and 1 from its variance, by exact limits of effective numbers.

A figure f of variance V is as certain as a proportion of n = f̃ (1 − f̃) / V independent pictures, and has the
exact limits of f n of n (Korn & Graubard 1998). They lie within 0 and 1, and are as skew as those of a
proportion. In n, a smoothed figure f̃ stands for f, with the variance that it would have: of a class of few
pictures that are answered all alike, f would be certain.

The variance of a mean Σ_k w_k f_k is Σ_jk R_jk w_j w_k √(V_j V_k), with R the correlation of the figures.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from registry.bundle.metrics.exact import exact_high, exact_low
from registry.bundle.metrics.limits import Limits
from registry.bundle.metrics.ratio import Figure, mean_defined, ratio


@dataclass(frozen=True)
class Moments:
    """A figure and what its limits are made of, all `(...)`.

    Attributes:
        value: f; nan where it is undefined.
        smooth: f̃, between 0 and 1 and neither.
        variance: V, of f̃.
        least: f where the lower limit starts; below f where noise pushes f up.
        most: f where the upper limit starts; above f where bins hide the order of pictures.
    """

    value: Figure
    smooth: Figure
    variance: Figure
    least: Figure
    most: Figure

    def limits(self) -> Limits:
        """The figure with its limits, `(...)`; 0 to 1 where nothing can vary and nothing is known."""
        n = np.nan_to_num(ratio(self.smooth * (1 - self.smooth), self.variance))
        n = np.where(np.isnan(self.value), np.nan, n)
        return Limits(self.value, exact_low(self.least * n, n), exact_high(self.most * n, n))

    def mean(self, correlation: NDArray[np.float64] | None = None) -> "Moments":
        """The mean over the last axis of the figures that are defined.

        Args:
            correlation: R, `(..., figures, figures)`; where not given they are independent.
        """
        defined = ~np.isnan(self.value)
        value, smooth, least, most = (
            mean_defined(np.where(defined, of, np.nan))
            for of in (self.value, self.smooth, self.least, self.most)
        )
        deviation = np.where(defined, np.sqrt(self.variance), 0.0)
        if correlation is None:  # no matrix of a thousand clients by a thousand, and the same to the last bit
            several = np.einsum("...k,...k->...", deviation, deviation, optimize=True)
        else:
            several = np.einsum("...j,...jk,...k->...", deviation, correlation, deviation, optimize=True)
        return Moments(value, smooth, ratio(several, defined.sum(axis=-1) ** 2), least, most)

    @classmethod
    def stack(cls, several: "list[Moments]") -> "Moments":
        """Several figures `(...)` as one of `(..., figures)`."""
        names = ("value", "smooth", "variance", "least", "most")
        return cls(*(np.stack([getattr(each, name) for each in several], axis=-1) for name in names))
