"""The base of strategies that train only a part of the model; see `training.algorithms.trainable`."""

from personalization.strategies.base import Training
from training.algorithms.objectives import Objective
from training.algorithms.sync import Sync
from training.algorithms.trainable import OverPart, Part, SyncPart


class PartStrategy(Training, Part):
    """Only what `moves` names learns, and only that travels."""

    def local_objective(self) -> Objective:
        """The given or inherited objective, over the part."""
        return OverPart.of(self.epoch, part=self)

    def sync(self) -> Sync:
        """The part travels."""
        return SyncPart(part=self)
