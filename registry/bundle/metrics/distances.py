"""Limits of distances from equality or from calibration, which are never below 0 and grow with noise.

A spread, a gap, a standard deviation, a calibration error: each is a size T(v) of a vector of independent
parts (accuracies, or gaps between confidence and accuracy), with T(v + w) ≤ T(v) + T(w). Noise e in the parts
makes T(v + e) larger than T(v) on average, and where v = 0 all of it is noise. So

    low = max(0, T(v̂) − Q_0.95[T(e)]),  high = Q_0.975[T(v̂ + e)],

since T(v̂) − T(v) ≤ T(v̂ − v), and since T(v̂ + e) ≥ T(v) wherever the one linear form that is T at v is above
its value there. e is drawn from normal distributions whose 0.025- and 0.975-quantiles are the parts' limits.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from registry.bundle.metrics.limits import Z, Limits
from registry.bundle.metrics.ratio import Figure

DRAWS = 1000
_LOW, _HIGH = 0.95, 0.975

Size = Callable[[Figure], Figure]
"""T, along the last axis: `(..., parts)` to `(...)`."""


@dataclass(frozen=True)
class Distance:
    """A size of a vector of parts.

    Attributes:
        size: T.
        parts: v̂ and the limits of each, `(..., parts)`; of those with nan T must not depend.
    """

    size: Size
    parts: Limits

    @property
    def value(self) -> Figure:
        """T(v̂), `(...)`."""
        return self.size(self.parts.value)

    def limits(self) -> Limits:
        """T(v̂) and its limits, `(...)`; the same parts always give the same."""
        noise = drawn(self.parts)
        value = self.value
        low = np.maximum(value - np.quantile(self.size(noise), _LOW, axis=0), 0.0)
        high = np.quantile(self.size(self.parts.value + noise), _HIGH, axis=0)
        return Limits(value, np.where(np.isnan(value), np.nan, low), np.maximum(high, value))


def drawn(parts: Limits) -> Figure:
    """e, `(draws, ..., parts)`."""
    normal = np.random.Generator(np.random.PCG64(0)).standard_normal((DRAWS, *parts.value.shape))
    above, below = ((parts.high - parts.value) / Z, (parts.value - parts.low) / Z)
    return np.where(normal > 0, above, below) * normal


def mean_distance(several: Sequence[Distance]) -> Distance:
    """The mean of distances with parts of their own `(parts,)`, which is one too."""
    lengths = np.cumsum([each.parts.value.shape[-1] for each in several])[:-1]

    def size(vector: Figure) -> Figure:
        pieces = np.split(vector, lengths, axis=-1)
        sizes = [each.size(piece) for each, piece in zip(several, pieces, strict=True)]
        return np.asarray(np.mean(sizes, axis=0))

    parts = [each.parts for each in several]
    joined = (np.concatenate([getattr(of, name) for of in parts], axis=-1) for name in ("value", "low", "high"))
    return Distance(size, Limits(*joined))
