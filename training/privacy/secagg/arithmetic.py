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

Fixed-point encoding modulo 2^32 and 2^64: tensors as numbers that are masked and added, and back.

A value v with weight w becomes the whole number q = round(w v 2^f), and Σ_c q_c modulo 2^b becomes Σ_c w_c
v_c again as long as |Σ_c q_c| < 2^(b−1). Tensors of 4 bytes a value or fewer take b = 32, of 8 bytes b = 64.

For whole numbers f = 0 and w = 1: their sum is exact. For others, with |v| ≤ B and Σ_c |w_c| ≤ W (B and W
powers of two), f = b − 2 − log2(B W), so that |Σ_c q_c| ≤ 2^(b−2) + n/2; each of n clients rounds by at most
half a unit, and the sum is off by at most n B W 2^−(b−1).
"""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log2, prod
from operator import mul
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from training.config import FrozenConfig
from training.errors import DataError, MessageError
from training.messages import Tensors
from training.randomness import Keystream

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


NARROW, WIDE = np.dtype(np.uint32), np.dtype(np.uint64)
WIDE_BOUND = 2.0**32  # B of sums in double precision, such as log-likelihoods


def power_of_two(value: float) -> float:
    """The least power of two, 1 or above, that is not below `value`."""
    return float(2 ** ceil(log2(value))) if value > 1 else 1.0


class Entry(FrozenConfig):
    """One tensor of a sum.

    Attributes:
        name: its name.
        shape: its shape.
        dtype: `float32`, `int64` and the like.
        bound: B, the largest absolute value of a client; 0 for whole numbers, which have none of their own.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    bound: float = Field(0.0, ge=0)

    @classmethod
    def of(cls, name: str, tensor: Tensor, bound: float = 0.0) -> "Entry":
        """The entry of a tensor."""
        kind = str(tensor.dtype).removeprefix("torch.")
        if tensor.is_floating_point() and tensor.element_size() == WIDE.itemsize:
            bound = WIDE_BOUND
        return cls(name=name, shape=tuple(tensor.shape), dtype=kind, bound=bound)

    @property
    def torch_dtype(self) -> torch.dtype:
        """Its type."""
        found = getattr(torch, self.dtype, None)
        assert isinstance(found, torch.dtype), "an entry is made from a tensor"
        return found

    @property
    def size(self) -> int:
        """How many values."""
        return prod(self.shape)

    @property
    def ring(self) -> np.dtype[Any]:
        """In which ring it is added."""
        return WIDE if self.torch_dtype.itemsize == WIDE.itemsize else NARROW

    def scale(self, total_weight: float) -> float:
        """2^f."""
        if not self.torch_dtype.is_floating_point:
            return 1.0
        return 2.0 ** (8 * self.ring.itemsize - 2) / (power_of_two(self.bound) * power_of_two(total_weight))

    def tolerance(self, clients: int, total_weight: float) -> float:
        """By how much a sum over so many clients may be off in any value."""
        return 0.0 if not self.torch_dtype.is_floating_point else clients / 2 / self.scale(total_weight)


Layout = Sequence[Entry]


@dataclass(frozen=True)
class FixedPointVector:
    """All values of a sum, one after another in each ring."""

    narrow: NDArray[np.uint32]
    wide: NDArray[np.uint64]

    @classmethod
    def zeros(cls, layout: Layout) -> "FixedPointVector":
        """Nothing yet."""
        sizes = {ring: sum(entry.size for entry in layout if entry.ring == ring) for ring in (NARROW, WIDE)}
        return cls(np.zeros(sizes[NARROW], NARROW), np.zeros(sizes[WIDE], WIDE))

    def add(self, other: "FixedPointVector") -> None:
        """Add in place, modulo 2^32 and 2^64."""
        np.add(self.narrow, other.narrow, out=self.narrow)
        np.add(self.wide, other.wide, out=self.wide)

    def subtract(self, other: "FixedPointVector") -> None:
        """Subtract in place, modulo 2^32 and 2^64."""
        np.subtract(self.narrow, other.narrow, out=self.narrow)
        np.subtract(self.wide, other.wide, out=self.wide)

    def mask(self, key: bytes) -> "FixedPointVector":
        """PRG(key): as many uniform numbers."""
        stream = Keystream(key)
        return FixedPointVector(stream.draw(self.narrow.size, NARROW), stream.draw(self.wide.size, WIDE))

    def to_tensors(self) -> dict[str, Tensor]:
        """As it travels: the same bits as signed numbers."""
        return {
            "narrow": torch.from_numpy(self.narrow.view(np.int32)),
            "wide": torch.from_numpy(self.wide.view(np.int64)),
        }

    @classmethod
    def from_tensors(cls, tensors: Tensors) -> "FixedPointVector":
        """What arrived."""
        return cls(tensors["narrow"].numpy().view(NARROW), tensors["wide"].numpy().view(WIDE))


def encode(tensors: Tensors, layout: Layout, weight: float, total_weight: float) -> FixedPointVector:
    """Σ-ready numbers of one client; zeros for what it does not have.

    Args:
        tensors: v by name.
        layout: what is summed.
        weight: w of this client, 1 where whole numbers are among them.
        total_weight: W.

    Raises:
        DataError: when a value is not finite or larger than can be summed.
    """
    vector = FixedPointVector.zeros(layout)
    starts = {NARROW: 0, WIDE: 0}
    for entry in layout:
        start, starts[entry.ring] = starts[entry.ring], starts[entry.ring] + entry.size
        if entry.name not in tensors or not entry.size:
            continue
        values = tensors[entry.name].detach().reshape(-1)
        whole = to_whole(values, entry, weight, total_weight)
        target = vector.wide if entry.ring == WIDE else vector.narrow
        target[start : start + entry.size] = whole.astype(entry.ring)  # negative ones wrap around
    return vector


def to_whole(values: Tensor, entry: Entry, weight: float, total_weight: float) -> NDArray[np.int64]:
    """The whole numbers q = round(w v 2^f)."""
    if not values.is_floating_point():
        whole: NDArray[np.int64] = values.to(torch.int64).numpy()
        most = 2 ** (8 * entry.ring.itemsize - 2) // power_of_two(total_weight)
        if np.abs(whole).max() > most:
            raise DataError(
                f"a count of {np.abs(whole).max():,} in {entry.name} is over {most:,.0f}, the most that can "
                "be summed under masks; set privacy.secure_aggregation.counts: false"
            )
        return whole
    numbers = values.to(torch.float64).numpy()
    largest = np.abs(numbers).max()
    if not largest <= entry.bound:  # not a number is none
        raise DataError(
            f"{entry.name} holds {largest:g} and can be summed under masks up to {entry.bound:g}; raise "
            "privacy.secure_aggregation.bound, or lower objective.optimizer.lr if training diverged"
        )
    rounded: NDArray[np.int64] = np.rint(numbers * (weight * entry.scale(total_weight))).astype(np.int64)
    return rounded


def decode(vector: FixedPointVector, layout: Layout, total_weight: float) -> dict[str, Tensor]:
    """Σ_c w_c v_c by name, of the tensors' own types; floating-point sums in double precision."""
    found: dict[str, Tensor] = {}
    starts = {NARROW: 0, WIDE: 0}
    for entry in layout:
        start, starts[entry.ring] = starts[entry.ring], starts[entry.ring] + entry.size
        source = vector.wide.view(np.int64) if entry.ring == WIDE else vector.narrow.view(np.int32)
        values = source[start : start + entry.size].reshape(entry.shape)
        if entry.torch_dtype.is_floating_point:
            found[entry.name] = torch.from_numpy(values / entry.scale(total_weight))
        else:
            found[entry.name] = torch.from_numpy(values.copy()).to(entry.torch_dtype)
    return found
