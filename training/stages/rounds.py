"""What all stages of rounds have in common: the settings of their parts, and the plan that follows."""

from typing import Annotated

from pydantic import Field, model_validator

from training.aggregators import AGGREGATORS, Aggregator
from training.client import Client
from training.data import Split
from training.errors import QuorumError
from training.exchanges import EXCHANGES, Exchange, NoExchange
from training.federation import COLLECT, FIT
from training.fit import collect_kept, fit, open_exchange
from training.messages import GLOBAL, Broadcast, Update
from training.models import Classifier
from training.models.groups import float_state
from training.objectives import OBJECTIVES, Objective
from training.opening import OPEN
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

    @model_validator(mode="after")
    def _parts_fit(self) -> "RoundsStage":
        self.exchange.fit_with(self.objective)
        self.objective.fit_with(self.exchange)
        return self

    def plan_for(
        self, setting: Setting, model: Classifier, split: Split | None, *, labelled: bool = True
    ) -> Plan:
        """What stays the same through the rounds of one global model.

        Args:
            setting: what the stage finds.
            model: whose parameters are trained.
            split: what is evaluated after each round; None for nothing.
            labelled: whether only clients that hold labelled training pictures train.

        Raises:
            QuorumError: when the job demands more answers than there are clients.
        """
        clients = setting.census.holders("train", setting.places, labelled=labelled)
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
            prepare=self.objective.prepare,
        )

    def train(self, broadcast: Broadcast, client: Client) -> Update:
        """A client's half of the rounds: train, open the exchange, hand over what was kept, or prepare."""
        if broadcast.ask == FIT:
            return fit(broadcast, client, self.objective, self.sync, rounds=self.rounds, subgroup=None)
        if broadcast.ask == OPEN:
            return open_exchange(broadcast, client, self.objective, rounds=self.rounds)
        if broadcast.ask == COLLECT:
            return collect_kept(broadcast, client, self.sync)
        return self.objective.answer(broadcast, client)


def require_labels(objective: Objective) -> Objective:
    """The objective, which must learn the classes.

    Raises:
        ValueError: when it learns features alone.
    """
    if objective.self_supervised:
        raise ValueError(f"{objective.name} learns no classes; put it into a stage pretrain before this one")
    return objective


def divide(sync: Sync, model: Classifier) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names that travel and those that stay, in the model's order."""
    travels = sync.travels(model)
    return travels, tuple(name for name in float_state(model) if name not in travels)
