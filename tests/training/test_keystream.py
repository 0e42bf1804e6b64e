"""The keystream is AES-256 in counter mode, whatever the sizes in which it is drawn."""

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

from training.secure_random import Keystream

KEY = bytes(range(32))


def test_it_is_the_cipher_of_the_counter():
    block = Cipher(AES(KEY), ECB()).encryptor()
    expected = b"".join(block.update(number.to_bytes(16, "big")) for number in range(100))
    assert Keystream(KEY).draw(1600, np.uint8).tobytes() == expected
