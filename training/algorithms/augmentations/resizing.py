"""First rounds on small pictures, as in progressive resizing (Howard 2018; Touvron et al. 2019).

A network learns most of what it will know from small pictures nearly as well, and a step on them costs less:
of half as many pixels a convolution's takes half the time.

Departures: Howard grows pictures in several steps; here there is one.
"""

from dataclasses import replace

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from training.config import FrozenConfig
from training.models.case_batch import CaseBatch, Inputs


class ProgressiveResizing(FrozenConfig):
    """How long training sees small pictures, and how small.

    Attributes:
        rounds: the first so many; the others are at the job's size, as every evaluation is.
        image_size: pixels on both sides.
    """

    rounds: int = Field(ge=1)
    image_size: int = Field(ge=8)

    def size_in(self, round_: int) -> int | None:
        """To how many pixels a round's batches are scaled; None for as they are."""
        return self.image_size if round_ <= self.rounds else None


def scale_down(inputs: Inputs, size: int) -> Inputs:
    """Pictures, or those of cases, at `size` pixels on both sides, bilinear and antialiased."""
    if isinstance(inputs, CaseBatch):
        scaled = scaled_down(inputs.images.flatten(0, 1), size)
        return replace(inputs, images=scaled.view(*inputs.kinds.shape, *scaled.shape[1:]))
    return scaled_down(inputs, size)


def scaled_down(images: Tensor, size: int) -> Tensor:
    """Pictures `(batch, 3, height, width)` at `size` pixels on both sides."""
    return F.interpolate(images, size=(size, size), mode="bilinear", antialias=True)
