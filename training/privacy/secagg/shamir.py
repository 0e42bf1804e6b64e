"""Shamir secret sharing: a threshold of shares gives the secret, fewer give nothing (Shamir 1979).

f(x) = s + a_1 x + … + a_{t-1} x^{t-1} over the integers modulo p, with a_i uniform; share i is f(i), i ≥ 1.
Any t shares give s = Σ_i f(x_i) Π_{j≠i} x_j / (x_j − x_i). Here p = 2^521 − 1, a Mersenne prime, so that
secrets of 32 bytes fit. Departures: none.

At the end of a sum the same clients give a share of every secret. So the coefficients of Lagrange's formula
at x = 0 are the same for all of them, are worked out once, and one secret costs t products.

That shares beyond the threshold agree is checked by the code that shares are words of: m shares of a
polynomial of degree below t are a word of a Reed-Solomon code, whose dual has the words v_i q(x_i) with v_i =
1 / Π_{j≠i} (x_i − x_j) and any q of degree below m − t. One such word, q drawn when the shares are there,
gives Σ_i v_i q(x_i) f(x_i) = 0 for shares of one polynomial, and for all others with probability 1/p = 2^−521
(Cascudo and David 2017, "SCRAPE", Lemma 1).

One wrong share at x_o, e off the true one, is found from two such sums: with q of degree below m − t − 1,
S_0 = Σ_i v_i q(x_i) y_i = v_o q(x_o) e and S_1 = Σ_i v_i q(x_i) x_i y_i = x_o S_0 (Peterson 1960).
"""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from operator import mul

from training.errors import MessageError

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


@dataclass(frozen=True)
class Recovery:
    """How secrets come together from the shares of these clients.

    Attributes:
        places: of those who gave shares, from 0, rising.
        threshold: t, how many give a secret.
        at_zero: the coefficients of the first t shares.
        dual: v of all m.
        word: v_i q(x_i) of all m; empty where there are no more than t.
    """

    places: tuple[int, ...]
    threshold: int
    at_zero: tuple[int, ...]
    dual: tuple[int, ...]
    word: tuple[int, ...]

    @classmethod
    def of(cls, places: Iterable[int], threshold: int) -> "Recovery":
        """From shares at these places.

        Raises:
            MessageError: when they are fewer than the threshold.
        """
        there = tuple(sorted(places))
        if len(there) < threshold:
            raise MessageError(
                f"{len(there)} shares of a secret came, {threshold} are needed; nothing is unmasked"
            )
        points = [place + 1 for place in there]
        first = points[:threshold]
        below = inverses([x * prod(o - x for o in first if o != x) for x in first])
        above = prod(first)
        dual = inverses([prod(x - o for o in points if o != x) for x in points])
        return cls(
            there,
            threshold,
            tuple(above * inverse % PRIME for inverse in below),
            tuple(dual),
            tuple(dual_word(points, dual, len(points) - threshold)),
        )

    def secret(self, shares: Mapping[int, bytes]) -> bytes:
        """The secret; shares beyond the threshold must agree with it.

        Args:
            shares: by place; of exactly those that this is for.

        Raises:
            MessageError: when they contradict each other, or are of no such secret.
        """
        values = self._values(shares)
        secret: int = sum(map(mul, self.at_zero, values)) % PRIME
        if secret >> (8 * SECRET_BYTES) or sum(map(mul, self.word, values)) % PRIME:
            raise MessageError("shares of one secret contradict each other; a client sent a wrong one")
        return secret.to_bytes(SECRET_BYTES, "big")

    def wrong(self, shares: Mapping[int, bytes]) -> int | None:
        """The place of the share that contradicts all others; None where it is not one, or cannot be found.

        It can be found from two shares beyond the threshold on.
        """
        values, points = self._values(shares), [place + 1 for place in self.places]
        degrees = len(points) - self.threshold - 1
        word = dual_word(points, self.dual, degrees)
        sums = [sum(map(mul, word, column)) % PRIME for column in (values, map(mul, points, values))]
        if degrees < 1 or not sums[0]:
            return None
        found = sums[1] * pow(sums[0], -1, PRIME) % PRIME
        again = dual_word(points, self.dual, degrees)  # without it the others are a word of the code
        rest = sum(w * (x - found) * y for w, x, y in zip(again, points, values, strict=True)) % PRIME
        return found - 1 if found in points and not rest else None

    def _values(self, shares: Mapping[int, bytes]) -> list[int]:
        assert shares.keys() == set(self.places), "shares are of those that coefficients were made for"
        return [int.from_bytes(shares[place], "big") for place in self.places]


def dual_word(points: Sequence[int], dual: Sequence[int], degrees: int) -> list[int]:
    """v_i q(x_i) for a fresh q with so many coefficients; nothing where there are none."""
    if degrees < 1:
        return []
    drawn = evaluate([secrets.randbelow(PRIME) for _ in range(degrees)], points)
    return [v * q % PRIME for v, q in zip(dual, drawn, strict=True)]


def inverses(numbers: Sequence[int]) -> list[int]:
    """1/x modulo p of each, by one inversion of their product (Montgomery 1987)."""
    before = [1]
    for number in numbers:
        before.append(before[-1] * number % PRIME)
    rest, found = pow(before[-1], -1, PRIME), []
    for number, product in zip(reversed(numbers), reversed(before[:-1]), strict=True):
        found.append(rest * product % PRIME)
        rest = rest * number % PRIME
    return found[::-1]
