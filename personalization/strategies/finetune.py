"""Fine-tuning the whole model on the subgroup's own pictures (Xu et al. 2023, section IV-B, "post-FL").

Departures: with several clients that hold a subgroup an epoch is a round of FedAvg among them; with one
client, as in the paper, it is local fine-tuning. "The post-FL stage has the same parameters as the in-FL
stage": the objective is the training stage's own unless the job gives another.
"""

from typing import ClassVar, Literal

from personalization.strategies.base import Training
from training.algorithms.objectives import Objective
from training.algorithms.sync import Sync, SyncAll


class FineTune(Training):
    """All weights move."""

    takes_cases: ClassVar[bool] = True
    name: Literal["finetune"] = "finetune"

    def local_objective(self) -> Objective:
        """The given or inherited objective."""
        return self.epoch

    def sync(self) -> Sync:
        """Everything travels."""
        return SyncAll()
