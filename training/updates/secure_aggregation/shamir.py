"""Shamir secret sharing: a threshold of shares gives the secret, fewer give nothing (Shamir 1979).

f(x) = s + a_1 x + … + a_{t-1} x^{t-1} over the integers modulo p, with a_i uniform; share i is f(i), i ≥ 1.
Any t shares give s = Σ_i f(x_i) Π_{j≠i} x_j / (x_j − x_i). Here p = 2^521 − 1, a Mersenne prime, so that
secrets of 32 bytes fit.

Departures: none.
"""

import secrets
from collections.abc import Mapping, Sequence

from training.errors import MessageError

PRIME = 2**521 - 1
SECRET_BYTES, SHARE_BYTES = 32, 66


def split(secret: bytes, count: int, threshold: int) -> list[bytes]:
    """`count` shares of 66 bytes, of which any `threshold` give the secret of 32 bytes.

    The share at place i is that of x = i + 1. Coefficients come from the operating system.
    """
    assert len(secret) == SECRET_BYTES, "a secret has 32 bytes"
    assert 1 <= threshold <= count, "no more shares can be needed than there are"
    coefficients = [int.from_bytes(secret, "big"), *(secrets.randbelow(PRIME) for _ in range(threshold - 1))]
    return [evaluate(coefficients, x).to_bytes(SHARE_BYTES, "big") for x in range(1, count + 1)]


def evaluate(coefficients: Sequence[int], x: int) -> int:
    """f(x) modulo p, by Horner's rule."""
    value = 0
    for coefficient in reversed(coefficients):
        value = (value * x + coefficient) % PRIME
    return value


def combine(shares: Mapping[int, bytes], threshold: int) -> bytes:
    """The secret, from shares by their place (from 0); those beyond the threshold must agree with it.

    Raises:
        MessageError: when there are too few, they contradict each other, or they are of no such secret.
    """
    if len(shares) < threshold:
        raise MessageError(
            f"{len(shares)} shares of a secret came, {threshold} are needed; nothing is unmasked"
        )
    points = [(place + 1, int.from_bytes(share, "big")) for place, share in sorted(shares.items())]
    basis, others = points[:threshold], points[threshold:]
    secret = interpolate(basis, 0)
    if secret >> (8 * SECRET_BYTES) or any(interpolate(basis, x) != y for x, y in others):
        raise MessageError("shares of one secret contradict each other; a client sent a wrong one")
    return secret.to_bytes(SECRET_BYTES, "big")


def interpolate(points: Sequence[tuple[int, int]], at: int) -> int:
    """The value at `at` of the polynomial of least degree through `points`, modulo p (Lagrange)."""
    value = 0
    for x, y in points:
        above = below = 1
        for other, _ in points:
            if other != x:
                above = above * (at - other) % PRIME
                below = below * (x - other) % PRIME
        value = (value + y * above * pow(below, -1, PRIME)) % PRIME
    return value
