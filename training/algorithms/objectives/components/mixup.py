"""Mixup: the network is shown mixtures of two pictures, and is to say both labels (Zhang et al. 2018).

    x̃ = λ x_i + (1 − λ) x_j,   l̃ = λ l(x̃, y_i) + (1 − λ) l(x̃, y_j),   λ ~ Beta(α, α)

λ is drawn once a batch and j is i's partner in a permutation of the batch, as in the authors' code. For
cross-entropy l̃ is the loss against the mixed label λ y_i + (1 − λ) y_j.

Of cases the pictures are mixed slot by slot, where both cases have pictures of the same kinds in the same
slots; any other is left as it is, with its own label. A mixed case keeps the facts of i: an age could be
mixed, a sex could not.

Departures: the larger of λ and 1 − λ is i's (as in MixMatch, Berthelot et al. 2019). Over permutations the
mixtures are the same ones; but so the facts are of the case that more is shown of.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy import int64
from numpy.typing import NDArray
from torch import Tensor

from training.algorithms.objectives.base import Batch
from training.models.case_batch import CaseBatch, Inputs


@dataclass(frozen=True)
class MixedBatch(Batch[Inputs]):
    """A batch of mixtures.

    Attributes:
        partners: the positions `(batch,)` of what each was mixed with.
        shares: how much of each is its own, `(batch,)`; 1 where nothing was mixed in.
    """

    partners: NDArray[int64]
    shares: Tensor


def mix(batch: Batch[Inputs], alpha: float, random: np.random.Generator) -> MixedBatch:
    """Each picture or case of a batch mixed with another; the batch stays as it is."""
    inputs, drawn = batch.images, random.beta(alpha, alpha)
    share = max(drawn, 1 - drawn)
    order = random.permutation(len(inputs))
    if isinstance(inputs, CaseBatch):
        partner = torch.from_numpy(order).to(inputs.kinds.device)
        alike = (inputs.kinds == inputs.kinds[partner]).all(dim=1)
        shares = torch.where(alike, share, 1.0).to(inputs.images.dtype)
        mixed: Inputs = replace(inputs, images=mixture(inputs.images, partner, shares))
    else:
        partner = torch.from_numpy(order).to(inputs.device)
        shares = inputs.new_full((len(inputs),), share)
        mixed = mixture(inputs, partner, shares)
    return MixedBatch(mixed, batch.positions, batch.positions[order], shares)


def mixture(images: Tensor, partner: Tensor, shares: Tensor) -> Tensor:
    """λ x_i + (1 − λ) x_j, with j = `partner` `(batch,)` and λ = `shares` `(batch,)`."""
    return torch.lerp(images[partner], images, shares.view(-1, *[1] * (images.ndim - 1)))
