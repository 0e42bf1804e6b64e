"""Shamir secret sharing: a threshold of shares gives the secret, fewer give nothing (Shamir 1979).

f(x) = s + a_1 x + … + a_{t-1} x^{t-1} over the integers modulo p, with a_i uniform; share i is f(i), i ≥ 1.
Any t shares give s = Σ_i f(x_i) Π_{j≠i} x_j / (x_j − x_i). Here p = 2^521 − 1, a Mersenne prime, so that
secrets of 32 bytes fit. How secrets come together again is `training.privacy.secagg.recovery`.

Departures: none.
"""

import secrets
from collections.abc import Iterable, Sequence

PRIME = 2**521 - 1
PRIME_BITS = 521
SECRET_BYTES, SHARE_BYTES = 32, 66
LAZY = 32  # steps of Horner's rule between two reductions: numbers grow, and that costs less than `%`


def split(secret: bytes, count: int, threshold: int) -> list[bytes]:
    """`count` shares of 66 bytes, of which any `threshold` give the secret of 32 bytes.

    The share at place i is that of x = i + 1. Coefficients come from the operating system.
    """
    assert len(secret) == SECRET_BYTES, "a secret has 32 bytes"
    assert 1 <= threshold <= count, "no more shares can be needed than there are"
    coefficients = [int.from_bytes(secret, "big"), *(secrets.randbelow(PRIME) for _ in range(threshold - 1))]
    return [value.to_bytes(SHARE_BYTES, "big") for value in evaluate(coefficients, range(1, count + 1))]


def evaluate(coefficients: Sequence[int], points: Iterable[int]) -> list[int]:
    """F at each of the points, modulo p, by Horner's rule; the first coefficient is that of x^0."""
    falling = coefficients[::-1]
    blocks = [falling[start : start + LAZY] for start in range(0, len(falling), LAZY)]
    values = []
    for x in points:
        value = 0
        for block in blocks:
            for coefficient in block:
                value = value * x + coefficient
            value = (value & PRIME) + (value >> PRIME_BITS)  # the same modulo 2^521 − 1
        values.append(value % PRIME)
    return values
