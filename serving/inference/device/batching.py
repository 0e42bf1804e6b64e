"""How many pictures go together, and how long one waits for others: by the settings, else by the device."""

from dataclasses import dataclass
from typing import Final

from serving.inference.device.device import Device
from serving.settings import ServeSettings

GPU_BATCH: Final = 32
"""Pictures at once on a GPU, unless a setting says otherwise."""

GPU_GATHER_SECONDS: Final = 0.002
"""How long a picture waits there at most for others; about what one more run would cost it."""


@dataclass(frozen=True)
class Batching:
    """How pictures are put together.

    Attributes:
        max_batch: pictures that a model is shown at once at most.
        gather_seconds: how long a decoded one waits at most for others that are being decoded.
        one_run: whether a version runs one batch at a time, so that further ones gather meanwhile.
    """

    max_batch: int = 1
    gather_seconds: float = 0.0
    one_run: bool = False

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of batches that a model is warmed up with: one, the largest, and each power of two."""
        between = [2**power for power in range(1, self.max_batch.bit_length()) if 2**power < self.max_batch]
        return tuple(dict.fromkeys((1, self.max_batch, *between)))


def batching_of(settings: ServeSettings, device: Device) -> Batching:
    """How pictures are put together on a device."""
    largest = GPU_BATCH if device.is_gpu else 1
    longest = GPU_GATHER_SECONDS if device.is_gpu else 0.0
    return Batching(
        largest if settings.max_batch is None else settings.max_batch,
        longest if settings.gather_seconds is None else settings.gather_seconds,
        one_run=device.is_gpu,
    )
