"""Summing updates: one pass over the tensors, in client order."""

from collections.abc import Sequence

import torch
from torch import Tensor

from training.aggregators.base import Mixture
from training.messages import Tensors, Update


def mix(
    mixture: Mixture, updates: Sequence[Update], previous: Tensors, names: Sequence[str]
) -> dict[str, Tensor]:
    """θ ← Σ_c w_c θ_c + w_previous θ^t for the named tensors; those not named stay as they were.

    Args:
        mixture: the weights.
        updates: in client order; each is read once and only one is in memory at a time if they are spooled.
        previous: θ^t.
        names: what travelled.
    """
    total = {
        name: previous[name] * mixture.previous if mixture.previous else torch.zeros_like(previous[name])
        for name in names
    }
    for update in updates:
        weight = mixture.clients.get(update.client, 0.0)
        for name, value in total.items():
            value.add_(update.tensors[name], alpha=weight)
    return {**previous, **total}
