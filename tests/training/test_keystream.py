"""The keystream is AES-256 in counter mode, whatever the sizes in which it is drawn."""

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

from training.secure_random import ZEROS, Keystream

KEY = bytes(range(32))


def test_it_is_the_cipher_of_the_counter():
    block = Cipher(AES(KEY), ECB()).encryptor()
    expected = b"".join(block.update(number.to_bytes(16, "big")) for number in range(100))
    assert Keystream(KEY).draw(1600, np.uint8).tobytes() == expected


def test_how_it_is_drawn_changes_nothing():
    count = 2 * len(ZEROS) + 52  # bytes: more than one chunk, and a part of a block
    whole = Keystream(KEY).draw(count, np.uint8)
    stream = Keystream(KEY)
    parts = [stream.draw(size, dtype).tobytes() for size, dtype in ((3, np.uint32), (5, np.uint64))]
    parts.append(stream.draw(count - 52, np.uint8).tobytes())
    assert b"".join(parts) == whole.tobytes()
    assert (Keystream(bytes(32)).draw(1000, np.uint8) != whole[:1000]).any()
