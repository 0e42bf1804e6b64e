"""Quantization of a tensor to 16 or 8 bits a value, and back.

With s = max |v| of the tensor: half precision is the float16 nearest to v / s, of 11 significant bits;
8 bits are q = round(127 v / s) in −127 … 127, and v becomes q s / 127. Stochastic rounding takes
⌊127 v / s + u⌋ with u uniform in [0, 1), whose mean is 127 v / s (QSGD, Alistarh et al. 2017, section 3,
with one scale a tensor).

On the wire a tensor `t` is `wire/half/t` or `wire/8-bit/t`, and its s, float32, `wire/scale/t`. What is small
or not floating-point travels under its own name, as it is.
"""

from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor

from training.errors import MessageError
from training.messages.message import Tensors, named

WIRE = "wire/"
HALF, BYTE, SCALE = WIRE + "half/", WIRE + "8-bit/", WIRE + "scale/"
LEVELS = 127
Round = Callable[[Tensor], Tensor]


def encode(name: str, values: Tensor, form: str, rounding: Round = torch.round) -> dict[str, Tensor]:
    """One floating-point tensor as it travels.

    Args:
        name: its name.
        values: v, of any shape, finite.
        form: `half` or `8-bit`.
        rounding: how 127 v / s becomes whole.
    """
    scale = values.abs().max().to(torch.float32)
    unit = values / scale if scale > 0 else torch.zeros_like(values)
    if form == "half":
        return {HALF + name: unit.to(torch.float16), SCALE + name: scale}
    return {BYTE + name: rounding(unit * LEVELS).clamp_(-LEVELS, LEVELS).to(torch.int8), SCALE + name: scale}


def stochastic(random: torch.Generator) -> Round:
    """Rounds up as often as the value is far above the whole number below it."""

    def rounding(values: Tensor) -> Tensor:
        drawn = torch.rand(values.shape, generator=random, dtype=values.dtype)
        return torch.floor(values + drawn)

    return rounding


def decode(packed: Tensors) -> dict[str, Tensor]:
    """The tensors behind what travelled, by their own names, float32 where they were packed.

    Raises:
        MessageError: when a scale is missing or is none.
    """
    return dict(decoded(dict(packed.items())))


def decoded(packed: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """As `decode`, one by one."""
    for name, value in packed.items():
        if name.startswith(HALF):
            own = name.removeprefix(HALF)
            yield own, value.to(torch.float32) * scale_of(packed, own)
        elif name.startswith(BYTE):
            own = name.removeprefix(BYTE)
            yield own, value.to(torch.float32) * (scale_of(packed, own) / LEVELS)
        elif not name.startswith(SCALE):
            yield name, value


def scale_of(packed: Mapping[str, Tensor], name: str) -> Tensor:
    """The scale s of a tensor.

    Raises:
        MessageError: when it is missing or is none.
    """
    scale = packed.get(SCALE + name)
    if scale is None or scale.numel() != 1 or not bool(torch.isfinite(scale).all()) or float(scale) < 0:
        raise MessageError(f"{name} came in a compressed form without its scale, a number from 0 on")
    return scale.to(torch.float32).reshape(())


def is_packed(tensors: Tensors) -> bool:
    """Whether any tensor is in a compressed form."""
    return any(name.startswith(WIRE) for name in tensors)


def compressible(tensor: Tensor, exact_below: int) -> bool:
    """Whether a tensor travels in a compressed form at all."""
    return tensor.is_floating_point() and tensor.numel() >= max(exact_below, 1)


def packed_names(packed: Tensors) -> frozenset[str]:
    """The names of the tensors that are in a compressed form."""
    return frozenset({*named(packed, HALF), *named(packed, BYTE)})
