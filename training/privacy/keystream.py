"""Uniform bits from a key: AES-256 in counter mode over zeros, as NumPy numbers."""

import sys
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray

BLOCK_BYTES = 16
ZEROS = bytes(1 << 20)

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
