"""No training: every personal model is the global model.

v = w*: what every other strategy is compared with, and the way to calibrate one global model for each
subgroup by itself. There is no epoch but epoch 0, so that no hospital is asked to train; what is reported of
validation is the global model's.
"""

from typing import ClassVar, Literal

from personalization.strategies.base import Strategy
from training.algorithms.objectives import Objective
from training.algorithms.sync import Sync, SyncAll


class NoTraining(Strategy):
    """Nothing moves."""

    takes_cases: ClassVar[bool] = True
    name: Literal["none"] = "none"
    epochs: Literal[0] = 0

    def inherit(self, objective: Objective | None) -> "NoTraining":
        """Nothing is taken over."""
        return self

    def local_objective(self) -> Objective:
        """No client is asked to train."""
        raise AssertionError("strategy none has no epochs")

    def sync(self) -> Sync:
        """The model travels to be evaluated."""
        return SyncAll()
