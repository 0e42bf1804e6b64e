"""Limits of distances from equality or from calibration, which are never below 0 and grow with noise.

A spread, a gap, a standard deviation, a calibration error: each is a size T(v) of a vector of independent
parts (accuracies, or gaps between confidence and accuracy), with T(v + w) ≤ T(v) + T(w). Noise e in the parts
makes T(v + e) larger than T(v) on average, and where v = 0 all of it is noise. Since T(v̂) ≤ T(v) + T(v̂ − v),

    low = max(0, T(v̂) − Q_0.95[T(e)]),

with e drawn from normal distributions that have the parts' limits as their 0.025- and 0.975-quantiles. T(v)
is the largest of some linear forms of v; T(v̂) is at least what the one is at v̂ that is T at v, so that an
upper limit which holds for each of them holds for T.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from registry.bundle.metrics.limits import Limits, Z
from registry.bundle.metrics.ratio import Figure

_DRAWS = 1000
_AT_ONCE = 25  # of them; all of those of a thousand clients would take a quarter of a gigabyte
_LEVEL = 0.95

Size = Callable[[Figure], Figure]
"""T, along the last axis: `(..., parts)` to `(...)`."""


@dataclass(frozen=True)
class Distance:
    """A size of a vector of parts.

    Attributes:
        size: T.
        parts: v̂ with the limits of each part, `(..., parts)`.
        high: the upper limit of T, `(...)`.
        floor: a lower limit of T that is known besides, `(...)`.
    """

    size: Size
    parts: Limits
    high: Figure
    floor: Figure | float = 0.0

    @property
    def value(self) -> Figure:
        """T(v̂), `(...)`."""
        return self.size(self.parts.value)

    def limits(self) -> Limits:
        """T(v̂) and its limits, `(...)`; the same parts always give the same."""
        sizes = np.concatenate([self.size(errors) for errors in drawn_in_turn(self.parts)])
        noise = np.quantile(sizes, _LEVEL, axis=0)
        low = np.maximum(self.value - noise, self.floor)
        return Limits(self.value, np.where(np.isnan(self.value), np.nan, low), self.high)


def drawn(parts: Limits) -> Figure:
    """Draws of e, `(draws, ..., parts)`."""
    return np.concatenate(list(drawn_in_turn(parts)))


def drawn_in_turn(parts: Limits) -> Iterator[Figure]:
    """The same draws, some of them at once."""
    random = np.random.Generator(np.random.PCG64(0))
    above, below = ((parts.high - parts.value) / Z, (parts.value - parts.low) / Z)
    for _ in range(0, _DRAWS, _AT_ONCE):
        normal = random.standard_normal((_AT_ONCE, *parts.value.shape))
        yield np.where(normal > 0, above, below) * normal


def mean_distance(several: Sequence[Distance]) -> Distance:
    """The mean of distances with parts of their own `(parts,)`, which is one too."""
    places = np.cumsum([each.parts.value.shape[-1] for each in several])[:-1]

    def size(vector: Figure) -> Figure:
        pieces = np.split(vector, places, axis=-1)
        return np.asarray(
            np.mean([of.size(piece) for of, piece in zip(several, pieces, strict=True)], axis=0)
        )

    joined = (
        np.concatenate([getattr(each.parts, name) for each in several], axis=-1)
        for name in ("value", "low", "high")
    )
    value = np.mean([each.value for each in several], axis=0)
    above = np.sqrt(np.sum([(each.high - each.value) ** 2 for each in several], axis=0)) / len(several)
    return Distance(size, Limits(*joined), value + above)
