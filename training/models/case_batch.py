"""What a model of cases is shown: pictures in slots, their kinds, and facts."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from registry.bundle.cases import EMPTY
from training.data.dataset import Examples

ENCODER_BATCH = 8  # pictures that an encoder sees at once: what it makes of more leaves a processor's caches


@dataclass(frozen=True)
class CaseBatch:
    """Cases; see `registry.bundle.cases` for the numbers.

    Attributes:
        images: pictures `(batch, slots, 3, height, width)` in [0, 1], or what a frozen encoder made of them,
            `(batch, slots, features)`; whatever is in an empty slot has no effect.
        kinds: `(batch, slots)` int64, -1 where a slot is empty.
        context: the facts `(batch, facts)`, NaN where one is not known.
    """

    images: Tensor
    kinds: Tensor
    context: Tensor

    def __len__(self) -> int:
        return len(self.kinds)

    @property
    def present(self) -> Tensor:
        """Which slots hold a picture, `(batch, slots)` bool."""
        return self.kinds != EMPTY


Inputs = Tensor | CaseBatch
"""What a classifier takes: pictures `(batch, 3, height, width)`, features `(batch, features)`, or cases."""


def as_inputs(examples: Examples, positions: NDArray[np.int64], device: torch.device) -> Inputs:
    """The examples at `positions` as a classifier takes them: pictures, or cases where they are cases."""
    if examples.cases is None:
        return to_model_input(examples.batch(positions), device)
    cases = examples.cases.where(positions)
    pictures = examples.images[np.maximum(cases.pictures, 0)]
    flat = to_model_input(pictures.reshape(-1, *pictures.shape[2:]), device)
    return CaseBatch(
        flat.view(*cases.pictures.shape, *flat.shape[1:]),
        torch.from_numpy(cases.kinds).to(device),
        torch.from_numpy(cases.context).to(device),
    )


def to_model_input(images: NDArray[Any], device: torch.device) -> Tensor:
    """uint8 `(batch, height, width, 3)` to float `(batch, 3, height, width)` in [0, 1], channels last.

    The bytes travel to the device before they become floats: a quarter of the traffic. Features
    `(batch, features)` become float32 and are else as they are.
    """
    on_device = torch.from_numpy(images).to(device)
    if images.dtype != np.uint8:
        return on_device.float()
    return on_device.permute(0, 3, 1, 2).float().div_(255)
