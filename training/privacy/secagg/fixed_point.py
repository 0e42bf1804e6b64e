"""Fixed-point encoding modulo 2^32 and 2^64: tensors as numbers that are masked and added, and back.

A value v with weight w becomes the whole number q = round(w v 2^f), and Σ_c q_c modulo 2^b becomes Σ_c w_c
v_c again as long as |Σ_c q_c| < 2^(b−1). Tensors of 4 bytes a value or fewer take b = 32, of 8 bytes b = 64.

For whole numbers f = 0 and w = 1: their sum is exact. For others, with |v| ≤ B and Σ_c |w_c| ≤ W (B and W
powers of two), f = b − 2 − log2(B W), so that |Σ_c q_c| ≤ 2^(b−2) + n/2; each of n clients rounds by at most
half a unit, and the sum is off by at most n B W 2^−(b−1).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log2, prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from training.config import FrozenConfig
from training.errors import DataError
from training.messages.message import Tensors
from training.randomness import Keystream

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
