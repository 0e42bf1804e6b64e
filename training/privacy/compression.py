"""Compression of the weights that travel: half precision and 8 bits, with error feedback.

With s = max |v| of a tensor: half precision is the float16 nearest to v / s, of 11 significant bits; 8 bits
are q = round(127 v / s) in −127 … 127, and v becomes q s / 127. Stochastic rounding takes ⌊127 v / s + u⌋
with u uniform in [0, 1), whose mean is 127 v / s (QSGD, Alistarh et al. 2017, section 3, with one scale a
tensor).

On the wire a tensor `t` is `wire/half/t` or `wire/8-bit/t`, and its s, float32, `wire/scale/t`. What is small
or not floating-point travels under its own name, as it is.

What a client sends is the difference d = θ_c − θ^t to what it was sent, plus what rounding lost of its last
update: p = d + e, sent is Q(p), and e ← p − Q(p) stays in the client's store (error feedback: Seide et al.
2014; Karimireddy et al. 2019, Algorithm 1). A client that is asked seldom carries its e until it is.

What clients are sent and what their updates are added to is the same: the weights as they come out of their
form. An update stays in its form until it is added up, so that updates that wait take no more room than they
took on the wire.
"""

from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from dataclasses import replace

import torch
from torch import Tensor

from training.algorithms.client import Client, State
from training.errors import MessageError
from training.messages import Broadcast, Tensors, Update, named
from training.privacy.settings import CompressionConfig
from training.randomness import derive_seed

WIRE = "wire/"
HALF, BYTE, SCALE = WIRE + "half/", WIRE + "8-bit/", WIRE + "scale/"
LEVELS = 127


def encode(name: str, values: Tensor, form: str, random: torch.Generator | None = None) -> dict[str, Tensor]:
    """One floating-point tensor as it travels.

    Args:
        name: its name.
        values: v, of any shape, finite.
        form: `half` or `8-bit`.
        random: of 8 bits, for u; without it the nearest whole number is taken.
    """
    scale = values.abs().max().to(torch.float32)
    unit = values / scale if scale > 0 else torch.zeros_like(values)
    if form == "half":
        return {HALF + name: unit.to(torch.float16), SCALE + name: scale}
    unit = unit * LEVELS
    whole = (
        torch.round(unit)
        if random is None
        else torch.floor(unit + torch.rand(unit.shape, generator=random, dtype=unit.dtype))
    )
    return {BYTE + name: whole.clamp_(-LEVELS, LEVELS).to(torch.int8), SCALE + name: scale}


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


def compressible(tensor: Tensor, exact_below: int) -> bool:
    """Whether a tensor travels in a compressed form at all."""
    return tensor.is_floating_point() and tensor.numel() >= max(exact_below, 1)


def opened(broadcast: Broadcast) -> Broadcast:
    """The request with its weights as numbers again."""
    return (
        replace(broadcast, tensors=decode(broadcast.tensors))
        if any(name.startswith(WIRE) for name in broadcast.tensors)
        else broadcast
    )


def packed(update: Update, received: Tensors, client: Client, compression: CompressionConfig) -> Update:
    """The update in the form in which it travels; what its rounding lost is kept.

    Args:
        update: what was trained.
        received: θ^t as the client was sent it.
        client: who trained.
        compression: the job's.
    """
    if compression.up == "exact":
        return update
    key = lost_key(update.stage, update.track)
    state = client.store.load(client.id, key, update.round)
    lost_before = {} if state is None else state.tensors
    seed = derive_seed(client.seed, update.stage, update.track, update.round, client.id, "rounding")
    random = torch.Generator().manual_seed(seed)
    shared: dict[str, Tensor] = {}
    lost: dict[str, Tensor] = {}
    for name, value in update.tensors.items():
        if name not in received or not compressible(value, compression.exact_below):
            shared[name] = value
            continue
        wanted = value.float() - received[name].float()
        if name in lost_before:
            wanted += lost_before[name]
        pieces = encode(name, wanted, compression.up, random)
        shared |= pieces
        lost[name] = wanted - decode(pieces)[name]
    if lost:
        client.store.save(client.id, key, update.round, State(lost))
    return replace(update, tensors=shared)


def lost_key(stage: str, track: str) -> str:
    """Under what a client keeps what rounding lost of its updates of one model."""
    return f"{stage}/{track}/lost"


class Compressor:
    """Packs what goes out, and opens what comes back.

    Args:
        config: the job's.
    """

    def __init__(self, config: CompressionConfig) -> None:
        self._config = config
        self._last: tuple[Tensors, Tensors, Tensors] | None = None  # weights, packed, as they arrive

    def down(self, weights: Tensors) -> Tensors:
        """Weights as they travel; the same object for the same weights, which are packed once."""
        return self._packed(weights)[0]

    def arrived(self, weights: Tensors) -> Tensors:
        """Weights as a client has them that was sent these."""
        return self._packed(weights)[1]

    def _packed(self, weights: Tensors) -> tuple[Tensors, Tensors]:
        if self._config.down == "exact":
            return weights, weights
        if self._last is None or self._last[0] is not weights:
            packed: dict[str, Tensor] = {}
            for name, value in weights.items():
                fits = compressible(value, self._config.exact_below)
                packed |= encode(name, value, self._config.down) if fits else {name: value}
            self._last = (weights, packed, decode(packed))
        return self._last[1], self._last[2]

    def up(self, update: Update, weights: Tensors) -> Update:
        """The update with its tensors as numbers, opened when they are read.

        Args:
            update: as it arrived.
            weights: those that the client was sent, before packing.

        Raises:
            MessageError: when it is in another form than the job says.
        """
        if self._config.up == "exact":
            return update
        return replace(update, tensors=Opened(update, self.arrived(weights), self._config))


class Opened(Mapping[str, Tensor]):
    """θ_c = θ^t + Q(p) by name, from an update as it travelled.

    Raises:
        MessageError: when a tensor is in another form than the job says.
    """

    def __init__(self, update: Update, reference: Tensors, config: CompressionConfig) -> None:
        self._travelled, self._reference = update.tensors, reference
        travelled = dict(update.tensors.items())
        prefix = f"{WIRE}{config.up}/"
        self._packed = frozenset({*named(travelled, HALF), *named(travelled, BYTE)})
        for name in self._packed:
            if name not in reference or prefix + name not in travelled:
                raise MessageError(
                    f"{update.client} sent {name} in another form than {config.up}; do the coordinator and "
                    "this site run the same job?"
                )
            if travelled[prefix + name].shape != reference[name].shape:
                found, expected = tuple(travelled[prefix + name].shape), tuple(reference[name].shape)
                raise MessageError(f"{update.client} sent {name} as {found}; expected {expected}")
            scale_of(travelled, name)
        self._names = (*self._packed, *(name for name in travelled if not name.startswith(WIRE)))

    def __getitem__(self, name: str) -> Tensor:
        return self._read()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def items(self) -> ItemsView[str, Tensor]:
        """All names and tensors."""
        return self._read().items()

    def values(self) -> ValuesView[Tensor]:
        """All tensors."""
        return self._read().values()

    def _read(self) -> dict[str, Tensor]:
        return {
            name: self._reference[name] + value if name in self._packed else value
            for name, value in decode(self._travelled).items()
        }
