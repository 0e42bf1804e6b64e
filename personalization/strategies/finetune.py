"""Fine-tuning the whole model on the subgroup's own pictures (Xu et al. 2023, section IV-B, "post-FL").

Departures: with several clients that hold a subgroup an epoch is a round of FedAvg among them; with one
client, as in the paper, it is local fine-tuning. "The post-FL stage has the same parameters as the in-FL
stage": the objective is the training stage's own unless the job gives another.
"""

from typing import Annotated, Literal

from personalization.strategies.base import Strategy
from training.exchanges import NoExchange
from training.objectives import OBJECTIVES, Objective
from training.sync import Sync, SyncAll


class FineTune(Strategy):
    """All weights move.

    Attributes:
        objective: what to minimise; null takes the training stage's.
    """

    name: Literal["finetune"] = "finetune"
    objective: Annotated[Objective, OBJECTIVES] | None = None

    def inherit(self, objective: Objective | None) -> "FineTune":
        """Takes the training stage's objective, one epoch at a time, where the job gives none."""
        chosen = self.objective or objective
        if chosen is None:
            raise ValueError("no training stage comes before; give strategy.objective")
        if chosen.self_supervised:
            raise ValueError(f"{chosen.name} learns no classes; fine-tune with supervised")
        chosen.fit_with(NoExchange())
        return self.model_copy(update={"objective": chosen.model_copy(update={"epochs": 1})})

    def local_objective(self) -> Objective:
        """The given or inherited objective."""
        assert self.objective is not None, "a job fills this in when it is read"
        return self.objective

    def sync(self) -> Sync:
        """Everything travels."""
        return SyncAll()
