"""The interface of what learns in a stage: the network of it, at the coordinator and at a client."""

from abc import ABC

from training.algorithms.local_model import LocalModel
from training.algorithms.objectives import Objective
from training.algorithms.sync import Sync
from training.config import FrozenConfig
from training.messages.message import Tensors
from training.models import Classifier


class Trains(FrozenConfig, ABC):
    """Which part of the model learns."""

    name: str

    def network(self, model: Classifier) -> Classifier:
        """The network whose state learns, in which the model's tensors keep their names.

        What of it is new is drawn from torch's generator.

        Raises:
            JobError: when the model has no such part.
        """
        return model

    def local_model(self, local_model: LocalModel) -> LocalModel:
        """The local model of the network."""
        return local_model

    def merged(self, weights: Tensors) -> Tensors:
        """The model's state, of the network's."""
        return weights

    def objective(self, objective: Objective) -> Objective:
        """What a client minimises, for the stage's objective."""
        return objective

    def sync(self, sync: Sync) -> Sync:
        """What travels, for the stage's sync."""
        return sync
