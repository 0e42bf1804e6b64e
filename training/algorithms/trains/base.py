"""The interface of what learns in a stage: the network of it, at the coordinator and at a client."""

from abc import ABC, abstractmethod

from training.config import FrozenConfig
from training.models import Classifier


class Trains(FrozenConfig, ABC):
    """Which part of the model learns."""

    name: str

    @abstractmethod
    def network(self, model: Classifier) -> Classifier:
        """The network whose state learns and travels, in which the model's tensors keep their names.

        Raises:
            JobError: when the model has no such part.
        """
