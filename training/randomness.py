"""Random numbers: reproducible draws, and unpredictable keys, keystreams and Gaussian noise.

Every draw of training comes from (job seed, stage, round, client, ...), never from who draws first: a run
that is repeated, resumed or spread over more workers draws the same numbers.

A keystream is AES-256 in counter mode over zeros, read as unsigned numbers. Noise takes uniform numbers of 53
bits from one whose key comes from the operating system; Box and Muller (1958) make pairs of normal ones of
them, and four of these are added and halved, which leaves their variance and hides the gaps between
floating-point numbers that would disclose what the noise was added to (Mironov 2012; Holohan and Braghin
2021, section 4).
"""

import hashlib
import os
import sys
from math import pi
from typing import Any

import numpy as np
import torch
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray
from torch import Tensor


def derive_seed(seed: int, *purpose: str | int) -> int:
    """A 63-bit seed for `purpose`, e.g. `derive_seed(job.seed, "0-federate", 3, "clinic-a")`."""
    text = "\x1f".join(str(part) for part in (seed, *purpose))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *purpose: str | int) -> np.random.Generator:
    """A NumPy generator for `purpose`."""
    return np.random.Generator(np.random.PCG64(derive_seed(seed, *purpose)))


KEY_BYTES = 32
BLOCK_BYTES = 16
ZEROS = bytes(1 << 20)
ADDED = 4  # normal numbers of which each is made
CHUNK = 1 << 18  # values drawn at once

assert sys.byteorder == "little", "masks are added in the machine's byte order; only little-endian is known"


class Keystream:
    """The stream of one key, from its beginning; a key has one stream and is used once."""

    def __init__(self, key: bytes) -> None:
        self._encryptor = Cipher(AES(key), CTR(bytes(BLOCK_BYTES))).encryptor()

    def draw(self, count: int, dtype: Any) -> NDArray[Any]:
        """The next `count` unsigned numbers of `dtype`."""
        size = count * np.dtype(dtype).itemsize
        drawn = np.empty(size + BLOCK_BYTES - 1, dtype=np.uint8)  # as `update_into` wants it
        room = memoryview(drawn.data)
        for start in range(0, size, len(ZEROS)):
            some = min(len(ZEROS), size - start)
            self._encryptor.update_into(ZEROS[:some] if some < len(ZEROS) else ZEROS, room[start:])
        return drawn[:size].view(dtype)


def fresh_key() -> bytes:
    """A new secret key; tests replace this function."""
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
