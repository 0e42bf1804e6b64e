"""What a strategy is: for how many epochs a subgroup's model trains, on what, and what travels."""

from abc import ABC, abstractmethod

from pydantic import Field

from training.config import FrozenConfig
from training.objectives import Objective
from training.sync import Sync


class Strategy(FrozenConfig, ABC):
    """How a subgroup's own model comes from the global one.

    Attributes:
        epochs: fine-tuning epochs; each is a round among the clients that hold the subgroup.
    """

    name: str
    epochs: int = Field(ge=1)

    @abstractmethod
    def inherit(self, objective: Objective | None) -> "Strategy":
        """The strategy with everything filled in, given the objective of the training stage before it."""

    @abstractmethod
    def local_objective(self) -> Objective:
        """What a client minimises in one epoch."""

    @abstractmethod
    def sync(self) -> Sync:
        """What travels between the clients that hold the subgroup."""
