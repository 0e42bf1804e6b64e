"""Aggregation of updates: a weighted sum in one pass over the tensors, in client order."""

from collections.abc import Sequence

import torch
from torch import Tensor

from training.algorithms.aggregators.base import Mixture
from training.messages.message import Tensors, Update


def mix(
    mixture: Mixture, updates: Sequence[Update], previous: Tensors, names: Sequence[str]
) -> dict[str, Tensor]:
    """θ ← Σ_c w_c θ_c + w_previous θ^t for the named tensors; those not named stay as they were.

    Args:
        mixture: the weights.
        updates: in client order, at least one; each is read once and only one is in memory at a time if they
            are spooled.
        previous: θ^t.
        names: what travelled.
    """
    total: dict[str, Tensor] = {}
    for update in updates:
        weight = mixture.clients.get(update.client, 0.0)
        tensors = dict(update.tensors.items())
        for name in names:
            if name not in total:
                total[name] = start(mixture, previous[name], tensors[name])
            total[name].add_(tensors[name], alpha=weight)
    return {**previous, **total}


def start(mixture: Mixture, previous: Tensor, update: Tensor) -> Tensor:
    """w_previous θ^t, laid out in memory as the updates are: adding across layouts is three times slower."""
    total = torch.zeros_like(update, dtype=previous.dtype)
    return total.add_(previous, alpha=mixture.previous) if mixture.previous else total
