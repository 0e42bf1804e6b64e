"""95 % intervals: of proportions, of any metric from its variance, and for pictures of one lesion.

**Exact limits** of x of n (Clopper & Pearson 1934) take each side's α/2 from the binomial distribution, whose
tails are beta distributions:

    low = B(α/2; x, n − x + 1),  high = B(1 − α/2; x + 1, n − x),  B(p; a, b) the p-quantile of Beta(a, b).

They contain the truth with 1 − α at least, also where all or none are so, and are defined for numbers that
are not whole. n pictures that are not independent are worth n / deff that are, and x of them x / deff.

**Limits from a variance** (`Moments`; Korn & Graubard 1998). A metric f of variance V is as certain as a
proportion of n = f̃ (1 − f̃) / V independent pictures, and has the exact limits of f n of n. They lie within 0
and 1, and are as skew as those of a proportion. In n, f is replaced by a smoothed f̃, with the variance that
it
would have: of a class of few pictures that are answered all alike, f would be certain. The variance of a mean
Σ_k w_k f_k is Σ_jk R_jk w_j w_k √(V_j V_k), with R the correlation of the metrics.

**Design effects** (`DesignEffect`). n pictures of lesions with several pictures tell as much as n / deff
independent ones, with

    deff = 1 + (s − 1) ρ  (Kish 1965),

s = Σ n_g² / Σ n_g the mean number of pictures at a picture's lesion and ρ the correlation of right answers
within a lesion. ρ is estimated from the sums by lesion, over all classes: Σ_g Σ_{i≠j} e_i e_j / (pairs · mean
e²), with e = right − the share of right answers, of the picture's class or of all, whichever gives more.

**Wilson's interval** of a mean of proportions (`mean_interval`). Each proportion r_k = x / n has the interval
(1927)

    l_k, u_k = (x + z²/2 ∓ z √(x (n − x) / n + z²/4)) / (n + z²),  z = 1.96,

and that of the mean f of K proportions of independent pictures follows by MOVER (Zou & Donner 2008):

    low = f − √(Σ_k (r_k − l_k)²) / K,  high = f + √(Σ_k (u_k − r_k)²) / K.

Values may be undefined, which is nan: nan in, nan out, and never a warning.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counting import Block
from registry.bundle.counts import Confusion, Counts
from registry.bundle.lesion_counts import LesionSums

LEVEL = 0.95
Z = 1.959963984540054  # the 0.975-quantile of the normal distribution

Figure = NDArray[np.float64]
"""A metric: `()` for plain counts, `(replicates,)` for replicates; nan where it is undefined."""


def mean_interval(right: NDArray[np.int64], n: NDArray[np.int64]) -> tuple[float, float]:
    """The 95 % interval of the mean of proportions `right` of `n`, `(K,)`; one n at least is not 0."""
    x, of = right[n > 0], n[n > 0]
    share = x / of
    middle = (x + Z**2 / 2) / (of + Z**2)
    half = Z * np.sqrt(x * (of - x) / of + Z**2 / 4) / (of + Z**2)
    below = np.sqrt(np.sum((share - middle + half) ** 2)) / len(of)
    above = np.sqrt(np.sum((middle + half - share) ** 2)) / len(of)
    return float(share.mean() - below), float(share.mean() + above)


def ratio(numerator: NDArray[Any], denominator: NDArray[Any]) -> Figure:
    """The quotient, nan where the denominator is 0."""
    numerator, denominator = np.broadcast_arrays(numerator, denominator)
    quotient = np.full(denominator.shape, np.nan)
    np.divide(numerator, denominator, out=quotient, where=denominator != 0)
    return quotient


def mean_defined(values: Figure, axis: int = -1) -> Figure:
    """The mean over `axis` of the values that are defined, nan where none is."""
    defined = ~np.isnan(values)
    return ratio(np.where(defined, values, 0.0).sum(axis=axis), defined.sum(axis=axis))


def harmonic_between(first: NDArray[np.int64], last: NDArray[np.int64]) -> NDArray[np.float64]:
    """Σ 1/i over first < i ≤ last."""
    sums = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, int(last.max(initial=0)) + 1))])
    between: NDArray[np.float64] = sums[last] - sums[first]
    return between


@dataclass(frozen=True)
class _Columns:
    """Arrays of one shape."""

    @classmethod
    def stack(cls, several: Sequence[Self]) -> Self:
        """Several metrics `(...)` as one of `(..., metrics)`."""
        names = [each.name for each in fields(cls)]
        return cls(*(np.stack([getattr(each, name) for each in several], axis=-1) for name in names))


@dataclass(frozen=True)
class Limits(_Columns):
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


_TINY = float(np.finfo(np.float64).tiny)
_NARROW = 1e-8


def exact_limits(x: NDArray[Any], n: NDArray[Any], level: float = LEVEL) -> Limits:
    """Proportions x / n with their exact limits, `(...)`; of 0 of 0 the value is 0, and 0 to 1 the limits."""
    x, n = (np.asarray(each, dtype=np.float64) for each in (x, n))
    value = np.where(n > 0, x / np.maximum(n, _TINY), 0.0)
    return Limits(value, exact_low(x, n, level), exact_high(x, n, level))


def exact_low(x: Figure, n: Figure, level: float = LEVEL) -> Figure:
    """The lower exact limit, `(...)`; nan of nan."""
    from scipy.special import betaincinv  # a quarter of a second and 25 MB, which most commands do without

    inside = x > _NARROW
    low = betaincinv(np.where(inside, x, 1.0), np.where(inside, n - x + 1, 1.0), (1 - level) / 2)
    return np.where(inside, low, 0.0 * x)


def exact_high(x: Figure, n: Figure, level: float = LEVEL) -> Figure:
    """The upper exact limit, `(...)`; nan of nan."""
    return 1 - exact_low(n - x, n, level)


def clopper_pearson(x: float, n: float, level: float = LEVEL) -> tuple[float, float]:
    """The exact interval of a proportion of which x of n were seen."""
    found = exact_limits(np.array(x), np.array(n), level)
    return float(found.low), float(found.high)


_NO_WIDTH = 1e-12
"""Figures that differ by no more are equal: sums of the same numbers come out so far apart by rounding."""


def interval(replicates: Figure) -> tuple[float, float] | None:
    """The ends of the interval of a figure with these replicates, `(replicates,)`.

    A replicate in which the figure is undefined (it drew no picture of a small subgroup) is left out;
    None where that is more than half of them, or there are none, or all are equal, or so many that both ends
    are, since then they say nothing of how uncertain the figure is.
    """
    defined = replicates[~np.isnan(replicates)]
    if 2 * defined.size < replicates.size or not defined.size or np.ptp(defined) <= _NO_WIDTH:
        return None
    low, high = np.quantile(defined, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return None if high - low <= _NO_WIDTH else (float(low), float(high))


@dataclass(frozen=True)
class Moments(_Columns):
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


@dataclass(frozen=True)
class DesignEffect:
    """What is known of how alike pictures of a lesion are.

    Attributes:
        correlation: ρ, `(...)`.
        sizes: s of the pictures of each class, `(..., classes)`; 1 for an absent class.
    """

    correlation: Figure
    sizes: Figure

    @classmethod
    def estimated(cls, right: LesionSums) -> "DesignEffect":
        """From the sums of right answers by true class, `(..., classes)`."""
        pooled = LesionSums(*np.moveaxis(right.to_array().sum(axis=-2, keepdims=True), -1, 0))
        found = np.maximum(_correlation(right), _correlation(pooled))
        pairs, several = (right.nn - right.n).sum(axis=-1), right.several.sum(axis=-1)
        # Few lesions with several pictures tell little of the correlation: it may be that much higher.
        may_be = np.clip(found, 0.0, 1.0) + 1 / np.sqrt(np.maximum(several, 1))
        sizes = np.where(right.n > 0, right.nn / np.maximum(right.n, 1), 1.0)
        return cls(np.where(pairs > 0, np.minimum(may_be, 1.0), 0.0), sizes)

    @property
    def of_classes(self) -> Figure:
        """The design effect of each class, `(..., classes)`."""
        return 1 + (self.sizes - 1) * self.correlation[..., np.newaxis]

    def of_pictures(self, by_class: NDArray[np.float64]) -> Figure:
        """That of so many pictures of each class together, `(..., [more,] classes)` to `(..., [more])`."""
        more = (1,) * (by_class.ndim - self.sizes.ndim)
        effects = self.of_classes
        effects = effects.reshape(*effects.shape[:-1], *more, effects.shape[-1])
        n = by_class.sum(axis=-1)
        return np.where(n > 0, (by_class * effects).sum(axis=-1) / np.maximum(n, 1e-9), 1.0)

    def of_scores(self) -> "DesignEffect":
        """That of scores, of which right and wrong are the two sides: they are more alike than these.

        Two normal variables of correlation r lie on the same side of their means as if these had a
        correlation of (2/π) asin r (Sheppard 1899).
        """
        return DesignEffect(np.sin(np.pi / 2 * self.correlation), self.sizes)


def _correlation(right: LesionSums) -> Figure:
    held = np.maximum(right.n, 1)
    share = right.x / held
    of_pictures = (right.n * share * (1 - share)).sum(axis=-1)
    of_lesions = (right.xx - 2 * share * right.xn + share**2 * right.nn).sum(axis=-1)
    pairs = np.maximum((right.nn - right.n).sum(axis=-1), 1)
    spread = of_pictures / np.maximum(right.n.sum(axis=-1), 1)
    alike = spread <= 0  # all right or all wrong: nothing is known
    return np.where(alike, 1.0, (of_lesions - of_pictures) / (pairs * np.where(alike, 1.0, spread)))


C = TypeVar("C", bound=Confusion, covariant=True)


@dataclass(frozen=True)
class Sample(Generic[C]):
    """Counts of some pictures, which may carry leading axes, and their design effect.

    Attributes:
        counts: of a block, or a confusion matrix alone.
        effect: that of the block which they are, or are a part of.
        noise: the variance of the noise on each released number; sums of rows are without.
    """

    counts: C
    effect: DesignEffect
    noise: float = 0.0


def sample_of(block: Block) -> Sample[Counts]:
    """A block as a sample."""
    noise = 0.0 if block.noisy is None else block.noisy.variance
    return Sample(block.point, DesignEffect.estimated(block.by_lesion), noise)


def of_noise(slopes: NDArray[np.float64]) -> NDArray[np.float64]:
    """What noise of variance 1 on each number adds to the variance of a figure, `(...)`.

    Args:
        slopes: of the figure, by numbers whose sum is known, `(..., numbers)`: only what differs from their
            mean moves it.
    """
    centred = slopes - slopes.mean(axis=-1, keepdims=True)
    return np.asarray((centred**2).sum(axis=-1))
