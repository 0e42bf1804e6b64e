"""Mean losses and counts by subgroup, L_{c,s} and N_{c,s}, as the tasks of all objectives report them.

A loss is told where pictures of `min_count` patients were drawn, however many the client holds: of one it
would be what the model answers for it.
"""

from collections.abc import Mapping

import numpy as np
import torch
from numpy import int64
from numpy.typing import NDArray
from torch import Tensor

from training.algorithms.objectives.base import LocalRound
from training.data.dataset import Examples
from training.data.small_cells import count_people
from training.data.subgroups import count_by_subgroup, name_losses
from training.messages.message import Tensors


class SubgroupLosses:
    """Sums of losses by subgroup, on the device; undeclared pictures take the last place."""

    def __init__(self, work: LocalRound, examples: Examples) -> None:
        self._names = work.subgroups
        self._min_count = work.min_count
        self._examples = examples
        self._subgroup_of = torch.from_numpy(examples.subgroups).to(work.device) % (len(self._names) + 1)
        self.reset()

    def reset(self) -> None:
        """Start an epoch: all sums are 0."""
        shape, device = len(self._names) + 1, self._subgroup_of.device
        self._sums = torch.zeros(shape, dtype=torch.float64, device=device)
        self._numbers = torch.zeros(shape, dtype=torch.float64, device=device)
        self._seen = np.zeros(len(self._examples), dtype=np.bool_)

    def add(self, positions: NDArray[int64], losses: Tensor, shares: Tensor | None = None) -> None:
        """Add the losses `(batch,)` of the pictures at `positions` `(batch,)`.

        Each counts by its share `(batch,)`, where a part of a picture was shown; whole by default.
        """
        subgroups = self._subgroup_of[torch.from_numpy(positions).to(self._subgroup_of.device)]
        counted = torch.ones_like(losses, dtype=torch.float64) if shares is None else shares.double()
        self._sums.index_add_(0, subgroups, counted * losses.detach().double())
        self._numbers.index_add_(0, subgroups, counted)
        self._seen[positions] = True

    @property
    def drawn(self) -> Examples:
        """The pictures whose losses were added in this epoch, each once."""
        return self._examples.where(self._seen)

    @property
    def enough_unlabelled(self) -> bool:
        """Whether pictures without a label of enough patients were drawn for something to be told of them."""
        drawn = self.drawn
        return drawn.where(drawn.labels < 0).num_people >= max(self._min_count, 1)

    def num_examples(self) -> Mapping[str, int]:
        """Pictures by subgroup."""
        return count_by_subgroup(self._examples, self._names)

    def losses(self) -> Mapping[str, float]:
        """Mean loss by subgroup over what was drawn; of too few patients none."""
        places, drawn = len(self._names) + 1, self.drawn
        enough = count_people(drawn.subgroups % places, drawn.people, places) >= self._min_count
        numbers = self._numbers * torch.from_numpy(enough).to(self._sums)
        return name_losses(self._sums, numbers, self._names)


class SubgroupLossTask:
    """The half of a `LocalTask` that reports, where nothing follows a step and only weights travel."""

    def __init__(self, work: LocalRound, examples: Examples) -> None:
        """Reports on `examples`, those of the client's that the objective trains on."""
        self._losses = SubgroupLosses(work, examples)

    def after_step(self) -> None:
        """Nothing follows a step."""

    def num_examples(self) -> Mapping[str, int]:
        """The pictures trained on, by subgroup."""
        return self._losses.num_examples()

    def losses(self) -> Mapping[str, float]:
        """Mean loss by subgroup over the last epoch."""
        return self._losses.losses()

    def outgoing(self) -> Tensors:
        """Nothing travels besides weights."""
        return {}

    def keep(self) -> Tensors:
        """Nothing stays."""
        return {}

    def scalars(self) -> Mapping[str, float]:
        """Nothing more is logged."""
        return {}
