"""Quotients and means of values that may be undefined: nan in, nan out, and never a warning."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Figure = NDArray[np.float64]
"""A figure: `()` for plain counts, `(replicates,)` for replicates; nan where it is undefined."""

Tally = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Of proportions whose mean a figure is: how many pictures of how many, both `(..., proportions)`."""


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
