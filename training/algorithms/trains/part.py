"""Training a part of a model: an objective of which a part learns, and a sync with which that alone travels.

    min_{θ_P} F(θ_P, θ_rest)

for θ_P the part. The rest gets no gradient and stays at the client, which was given it once: only the part
travels. Normalisation statistics outside the part do not move either (`training.models.frozen_batchnorm`).
"""

from abc import abstractmethod
from typing import Literal

from torch import nn

from training.algorithms.objectives.around import Around
from training.algorithms.objectives.base import LocalRound, LocalTask
from training.algorithms.sync import Sync
from training.config import FrozenConfig
from training.models import Classifier
from training.models.frozen_batchnorm import FrozenBatchNormClassifier
from training.models.groups import float_state


class Part(FrozenConfig):
    """Which part of a model learns."""

    @abstractmethod
    def moves(self, network: Classifier) -> frozenset[str]:
        """The names of the state that changes, statistics among them."""

    def view(self, network: Classifier) -> Classifier:
        """The network as local training sees it; by default none of its statistics move."""
        return FrozenBatchNormClassifier(network)

    def heads(self, model: Classifier) -> nn.Module | None:
        """The modules put on the model while it trains; None for none."""
        return None


class OverPart(Around):
    """Another objective, of which only a part learns."""

    part: Part

    def heads(self, model: Classifier) -> nn.Module | None:
        """What goes on the model while the part trains."""
        return self.part.heads(model)

    def frozen(self, model: Classifier) -> frozenset[str]:
        """Every parameter outside the part, and those that the other objective leaves alone."""
        outside = {name for name, _ in model.named_parameters()} - self.part.moves(model)
        return self.inner.frozen(model) | outside

    def begin(self, model: Classifier, work: LocalRound) -> LocalTask:
        """The other objective's round on the network as the part shows it."""
        return self.inner.begin(self.part.view(model).train(), work)


class SyncPart(Sync):
    """Only a part travels.

    What stays does not change, so that there is nothing to average at the end.
    """

    name: Literal["part"] = "part"
    average_at_end: bool = False
    part: Part

    def stays(self, model: Classifier) -> frozenset[str]:
        """The names of everything but the part."""
        return frozenset(float_state(model)) - self.part.moves(model)
