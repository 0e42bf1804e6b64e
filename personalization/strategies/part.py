"""The base of strategies that train only a part of the model.

    min_{θ_P} F(θ_P, θ_rest)

for θ_P the part. The rest gets no gradient and stays at the client, which was given it once: only the part
travels. Normalisation statistics outside the part do not move either (`training.models.frozen_batchnorm`).
"""

from abc import abstractmethod
from typing import Literal

from torch import nn

from personalization.strategies.around import Around
from personalization.strategies.base import Training
from training.algorithms.objectives import Objective
from training.algorithms.objectives.base import LocalRound, LocalTask
from training.algorithms.sync import Sync
from training.models import Classifier
from training.models.frozen_batchnorm import FrozenBatchNormClassifier
from training.models.groups import float_state


class PartStrategy(Training):
    """Only what `moves` names learns, and only that travels."""

    @abstractmethod
    def moves(self, network: Classifier) -> frozenset[str]:
        """The names of the state that changes, statistics among them."""

    def view(self, network: Classifier) -> Classifier:
        """The network as local training sees it; by default none of its statistics move."""
        return FrozenBatchNormClassifier(network)

    def heads(self, model: Classifier) -> nn.Module | None:
        """The modules put on the model while it trains; None for none."""
        return None

    def local_objective(self) -> Objective:
        """The given or inherited objective, over the part."""
        return OverPart.of(self.epoch, strategy=self)

    def sync(self) -> Sync:
        """The part travels."""
        return SyncPart(strategy=self)


class OverPart(Around):
    """Another objective, of which only a strategy's part learns."""

    strategy: PartStrategy

    def heads(self, model: Classifier) -> nn.Module | None:
        """What the strategy puts on the model."""
        return self.strategy.heads(model)

    def frozen(self, model: Classifier) -> frozenset[str]:
        """Every parameter outside the part, and those that the other objective leaves alone."""
        outside = {name for name, _ in model.named_parameters()} - self.strategy.moves(model)
        return self.inner.frozen(model) | outside

    def begin(self, model: Classifier, work: LocalRound) -> LocalTask:
        """The other objective's round on the network as the strategy shows it."""
        return self.inner.begin(self.strategy.view(model).train(), work)


class SyncPart(Sync):
    """Only a strategy's part travels.

    What stays does not change, so that there is nothing to average at the end.
    """

    name: Literal["part"] = "part"
    average_at_end: bool = False
    strategy: PartStrategy

    def stays(self, model: Classifier) -> frozenset[str]:
        """The names of everything but the part."""
        return frozenset(float_state(model)) - self.strategy.moves(model)
