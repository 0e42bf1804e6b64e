"""Smooth random fields from cubic B-splines, about a millisecond each."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Field = NDArray[np.float32]
"""A number per pixel, `(size, size)`."""


def smooth(random: np.random.Generator, size: int, knots: int) -> Field:
    """A field of mean 0 and standard deviation about 1 with some `knots` hills along each side.

    Independent normal numbers on a lattice, blended by cubic B-splines: B Z B^T.
    """
    blend = _splines(size, knots)
    lattice = random.standard_normal((blend.shape[1], blend.shape[1]), dtype=np.float32)
    return np.asarray(blend @ lattice @ blend.T * 2.0, dtype=np.float32)


@lru_cache(maxsize=64)
def _splines(size: int, knots: int) -> Field:
    """Values of the cubic B-splines on `knots` intervals at `size` pixel centres, `(size, knots + 3)`."""
    place = (np.arange(size) + 0.5) / size * knots
    distance = np.abs(place[:, None] - np.arange(-1, knots + 2)[None, :])
    inner = 2 / 3 - distance**2 + distance**3 / 2
    outer = np.clip(2 - distance, 0, None) ** 3 / 6
    return np.where(distance < 1, inner, outer).astype(np.float32)


@lru_cache(maxsize=16)
def plane(size: int) -> tuple[Field, Field]:
    """Coordinates of the pixels' centres, x to the right and y down, both from -1 to 1."""
    line = ((np.arange(size) + 0.5) / size * 2 - 1).astype(np.float32)
    x, y = np.meshgrid(line, line)
    return x, y
