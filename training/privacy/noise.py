"""Gaussian noise that nobody can foresee: from a key of the operating system, not from the job's seed.

A keystream (AES-256 in counter mode) gives uniform numbers of 53 bits, Box and Muller (1958) make pairs of
normal ones of them, and four of these are added and halved, which leaves their variance and hides the gaps
between floating-point numbers that would tell what the noise was added to (Mironov 2012; Holohan and Braghin
2021, section 4).
"""

import os
from math import pi

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training.privacy.keys import KEY_BYTES
from training.privacy.keystream import Keystream

ADDED = 4
CHUNK = 1 << 18  # values drawn at once


def fresh_key() -> bytes:
    """A key that nobody knows; tests put another function in its place."""
    return os.urandom(KEY_BYTES)


class NoiseSource:
    """Numbers drawn from a key of its own."""

    def __init__(self) -> None:
        self._stream = Keystream(fresh_key())

    def chosen(self, count: int, rate: float) -> NDArray[np.int64]:
        """Of so many things those that are drawn, each by itself with probability `rate`."""
        return np.flatnonzero(self._uniform(count) < rate)

    def normal(self, like: Tensor, deviation: float) -> Tensor:
        """Independent normal numbers of mean 0, in the shape and type of a tensor."""
        drawn = np.concatenate(
            [self._chunk(min(CHUNK, like.numel() - start)) for start in range(0, like.numel(), CHUNK)]
            or [np.empty(0)]
        )
        return torch.from_numpy(drawn * deviation).to(like.dtype).reshape(like.shape)

    def _chunk(self, count: int) -> NDArray[np.float64]:
        pairs = (count + 1) // 2
        total = np.zeros(2 * pairs)
        for _ in range(ADDED):
            first, second = (self._uniform(pairs) for _ in range(2))
            radius, angle = np.sqrt(-2 * np.log1p(-first)), 2 * pi * second
            total[:pairs] += radius * np.cos(angle)
            total[pairs:] += radius * np.sin(angle)
        noise: NDArray[np.float64] = total[:count] / np.sqrt(ADDED)
        return noise

    def _uniform(self, count: int) -> NDArray[np.float64]:
        """Uniform numbers in [0, 1)."""
        drawn: NDArray[np.float64] = (self._stream.draw(count, np.uint64) >> np.uint64(11)) * np.float64(
            2.0**-53
        )
        return drawn
