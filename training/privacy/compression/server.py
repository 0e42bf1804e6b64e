"""The coordinator's half of compression: pack the weights that go out, and unpack the updates.

What clients are sent and what their updates are added to is the same: the weights as they come out of their
form. An update stays in its form until it is added up, so that updates that wait take no more room than they
took on the wire.
"""

from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from dataclasses import replace

from torch import Tensor

from training.errors import MessageError
from training.messages.message import Tensors, Update
from training.privacy.compression.quantization import (
    WIRE,
    compressible,
    decode,
    encode,
    packed_names,
    scale_of,
)
from training.privacy.settings import CompressionConfig


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
        self._packed = packed_names(travelled)
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
