"""Stored pictures to what a model takes, on the device."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def to_model_input(images: NDArray[np.uint8], device: torch.device) -> Tensor:
    """uint8 `(batch, height, width, 3)` to float `(batch, 3, height, width)` in [0, 1], channels last.

    The bytes travel to the device before they become floats: a quarter of the traffic.
    """
    return torch.from_numpy(images).to(device).permute(0, 3, 1, 2).float().div_(255)
