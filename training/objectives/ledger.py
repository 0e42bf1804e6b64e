"""What the tasks of all objectives have in common: losses added up by subgroup, N_{c,s} and L_{c,s}."""

from collections.abc import Mapping

import torch
from numpy import int64
from numpy.typing import NDArray
from torch import Tensor

from training.data import Examples
from training.messages import Tensors
from training.objectives.base import LocalWork
from training.subgroups import count_by_subgroup, name_losses


class LossLedger:
    """Sums of losses by subgroup, on the device; undeclared pictures take the last place."""

    def __init__(self, work: LocalWork, examples: Examples) -> None:
        self._names = work.subgroups
        self._examples = examples
        self._places = torch.from_numpy(examples.subgroups).to(work.device) % (len(self._names) + 1)
        self.forget()

    def forget(self) -> None:
        """Start an epoch."""
        shape, device = len(self._names) + 1, self._places.device
        self._sums = torch.zeros(shape, dtype=torch.float64, device=device)
        self._drawn = torch.zeros(shape, dtype=torch.float64, device=device)

    def add(self, positions: NDArray[int64], losses: Tensor) -> None:
        """Note the losses `(batch,)` of the pictures at `positions` `(batch,)`."""
        places = self._places[torch.from_numpy(positions).to(self._places.device)]
        self._sums.index_add_(0, places, losses.detach().double())
        self._drawn.index_add_(0, places, torch.ones_like(losses, dtype=torch.float64))

    def num_examples(self) -> Mapping[str, int]:
        """Pictures by subgroup."""
        return count_by_subgroup(self._examples, self._names)

    def losses(self) -> Mapping[str, float]:
        """Mean loss by subgroup over what was drawn."""
        return name_losses(self._sums, self._drawn, self._names)


class LedgerTask:
    """The half of a `LocalTask` that reports, where nothing follows a step and only weights travel."""

    def __init__(self, work: LocalWork, examples: Examples) -> None:
        """Reports on `examples`, those of the client's that the objective trains on."""
        self._ledger = LossLedger(work, examples)

    def after_step(self) -> None:
        """Nothing follows a step."""

    def num_examples(self) -> Mapping[str, int]:
        """The pictures trained on, by subgroup."""
        return self._ledger.num_examples()

    def losses(self) -> Mapping[str, float]:
        """Mean loss by subgroup over the last epoch."""
        return self._ledger.losses()

    def outgoing(self) -> Tensors:
        """Nothing travels besides weights."""
        return {}

    def keep(self) -> Tensors:
        """Nothing stays."""
        return {}

    def scalars(self) -> Mapping[str, float]:
        """Nothing more is told."""
        return {}
