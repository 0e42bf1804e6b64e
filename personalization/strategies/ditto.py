"""A personal model that is pulled towards the global one (Ditto, Li et al. 2021, Algorithm 1).

    min_v F_k(v) + (λ / 2) ‖v − w*‖²

by gradient steps v ← v − η (∇F_k(v) + λ (v − w*)), for w* the global model. λ = 0 is fine-tuning; the larger
λ, the nearer v stays to w*. The norm is over parameters; normalisation statistics are free. The losses that
are reported are F_k alone.

Departures: the paper trains v with the global model and pulls it to w^t of each round; here v starts from the
finished global model, which is w* throughout and not the round's start as in FedProx. With several
clients that train one personal model, v is averaged after each epoch. The step may be any optimizer's.
"""

from collections.abc import Iterator, Mapping
from typing import Literal, Self

import torch
from pydantic import Field
from torch import Tensor, nn

from personalization.strategies.base import Training
from training.algorithms.objectives import Objective
from training.algorithms.objectives.base import Around, Batch, LocalRound, LocalTask
from training.algorithms.sync import Sync, SyncAll
from training.errors import DataError
from training.messages import Tensors
from training.models import Classifier


class Ditto(Training):
    """All weights move, held back by their distance from the global model's.

    Attributes:
        pull: λ.
    """

    name: Literal["ditto"] = "ditto"
    pull: float = Field(0.1, ge=0)

    def inherit(self, objective: Objective | None) -> Self:
        """Takes the training stage's objective where the job gives none.

        Raises:
            ValueError: also when SGD's steps would overshoot w* ever further.
        """
        filled = super().inherit(objective)
        optimizer = filled.epoch.optimizer
        # Of (λ/2) ‖v − w*‖² alone, heavy-ball steps diverge from η λ = 2 (1 + momentum) on.
        limit = 2 * (1 + optimizer.momentum)
        if optimizer.name == "sgd" and optimizer.lr * self.pull >= limit:
            raise ValueError(
                f"pull {self.pull:g} at lr {optimizer.lr:g} would overshoot the global model at every step: "
                f"their product must be below {limit:g}; lower strategy.pull or objective.optimizer.lr"
            )
        return filled

    def local_objective(self) -> Objective:
        """F_k and the pull."""
        return Pulled.of(self.epoch, pull=self.pull)

    def sync(self) -> Sync:
        """Everything travels."""
        return SyncAll()

    def given(self, model: Classifier, start: Tensors) -> Tensors:
        """w*: the global model's parameters."""
        return {name: start[name] for name, _ in model.named_parameters()}


class Pulled(Around):
    """Another objective and (λ / 2) ‖v − w*‖²."""

    pull: float

    def begin(self, model: Classifier, work: LocalRound) -> LocalTask:
        """The other objective's round, with w* as it was given before the first."""
        return PulledTask(self.inner.begin(model, work), model, work.shared_state, self.pull)


class PulledTask:
    """One client's round: another task's, with a further term in the loss."""

    def __init__(self, inner: LocalTask, model: nn.Module, target: Tensors, pull: float) -> None:
        """Pull `model` to `target`, which has a tensor for each of its parameters.

        Raises:
            DataError: when it has not: the client no longer has what it was given.
        """
        self._inner = inner
        self._pull = pull
        missing = [name for name, _ in model.named_parameters() if name not in target]
        if missing:
            raise DataError(
                f"{len(missing)} tensors of the global model that ditto pulls to are gone from the client's "
                f"store, first {missing[0]}; restore the store, or start the run anew"
            )
        self._pairs = [
            (parameter, target[name].to(parameter)) for name, parameter in model.named_parameters()
        ]

    def batches(self, epoch: int) -> Iterator[Batch]:
        """The other task's."""
        return self._inner.batches(epoch)

    def loss(self, batch: Batch) -> Tensor:
        """F_k(v) + (λ / 2) ‖v − w*‖² over the parameters that learn."""
        apart = [
            (parameter - target).square().sum()
            for parameter, target in self._pairs
            if parameter.requires_grad
        ]
        return self._inner.loss(batch) + self._pull / 2 * torch.stack(apart).sum()

    def after_step(self) -> None:
        """What the other task does."""
        self._inner.after_step()

    def num_examples(self) -> Mapping[str, int]:
        """The other task's."""
        return self._inner.num_examples()

    def losses(self) -> Mapping[str, float]:
        """F_k by subgroup, without the pull."""
        return self._inner.losses()

    def outgoing(self) -> Tensors:
        """The other task's."""
        return self._inner.outgoing()

    def keep(self) -> Tensors:
        """The other task's."""
        return self._inner.keep()

    def scalars(self) -> Mapping[str, float]:
        """The other task's."""
        return self._inner.scalars()
