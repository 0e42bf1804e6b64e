"""What all stages of rounds have in common: the settings of their parts, and the plan that follows."""

from typing import Annotated

from pydantic import Field

from training.aggregators import AGGREGATORS, Aggregator
from training.data import Split
from training.errors import QuorumError
from training.exchanges import EXCHANGES, Exchange, NoExchange
from training.messages import GLOBAL
from training.models import Classifier
from training.models.groups import float_state
from training.objectives import OBJECTIVES, Objective
from training.plan import Plan, Track
from training.stages.base import Setting, Stage
from training.sync import SYNCS, Sync, SyncAll


class RoundsStage(Stage):
    """The four parts of a system, and how many rounds they run.

    Attributes:
        rounds: how many.
        objective: what a client minimises.
        sync: which parameters travel.
        exchange: what travels besides.
        aggregator: how the server combines.
        participation: the share of clients asked each round.
    """

    rounds: int = Field(ge=1)
    objective: Annotated[Objective, OBJECTIVES]
    sync: Annotated[Sync, SYNCS] = SyncAll()
    exchange: Annotated[Exchange, EXCHANGES] = NoExchange()
    aggregator: Annotated[Aggregator, AGGREGATORS]
    participation: float = Field(1.0, gt=0, le=1)

    def plan_for(self, setting: Setting, model: Classifier, split: Split | None) -> Plan:
        """What stays the same through the rounds of one global model.

        Args:
            setting: what the stage finds.
            model: whose parameters are trained.
            split: what is evaluated after each round; None for nothing.

        Raises:
            QuorumError: when the job demands more answers than there are clients.
        """
        clients = setting.census.holders("train", setting.places)
        needed = setting.job.engine.min_clients
        if needed is not None and needed > len(clients):
            raise QuorumError(
                f"engine.min_clients is {needed}, but only {len(clients)} clients hold training pictures: "
                f"{', '.join(clients)}. Lower it, or bring more clients"
            )
        judges = setting.census.holders(split, setting.places) if split else ()
        travels, stays = divide(self.sync, model)
        return Plan(
            stage=setting.key,
            rounds=self.rounds,
            tracks=(Track(GLOBAL, clients, judges, setting.places),),
            travels=travels,
            stays=stays,
            exchange=self.exchange,
            aggregator=self.aggregator.for_job(names_subgroups=bool(setting.subgroups)),
            participation=self.participation,
            min_clients=needed,
            average_at_end=self.sync.average_at_end,
            split=split,
            seed=setting.job.seed,
        )


def divide(sync: Sync, model: Classifier) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names that travel and those that stay, in the model's order."""
    travels = sync.travels(model)
    return travels, tuple(name for name in float_state(model) if name not in travels)
