"""The stage `federate`: clients train one global model together, in rounds."""

from typing import Annotated, Literal

from pydantic import Field

from training.aggregators import AGGREGATORS, Aggregator
from training.checkpoint import Checkpoints
from training.client import Client
from training.data import Split
from training.errors import QuorumError
from training.evaluation import evaluate
from training.exchanges import EXCHANGES, Exchange, NoExchange
from training.federation import COLLECT, EVALUATE, FIT, run_rounds
from training.final_figures import TEST, answer_test, figures_on_test
from training.fit import collect_kept, fit, load_merged
from training.messages import GLOBAL, Broadcast, Update, unknown_question
from training.models import Classifier
from training.models.groups import float_state
from training.objectives import OBJECTIVES, Objective
from training.plan import Plan, Track, TrackState
from training.stages.base import Outcome, Setting, Stage
from training.sync import SYNCS, Sync, SyncAll


class Federate(Stage):
    """Rounds of local training and aggregation.

    Attributes:
        participation: the share of clients asked each round.
        evaluate_on: the split evaluated after each round, for the learning curves; null leaves it out.
    """

    stage: Literal["federate"] = "federate"
    rounds: int = Field(ge=1)
    objective: Annotated[Objective, OBJECTIVES]
    sync: Annotated[Sync, SYNCS] = SyncAll()
    exchange: Annotated[Exchange, EXCHANGES] = NoExchange()
    aggregator: Annotated[Aggregator, AGGREGATORS]
    participation: float = Field(1.0, gt=0, le=1)
    evaluate_on: Split | None = "validation"

    def run(self, setting: Setting, before: Outcome) -> Outcome:
        """Train the global model."""
        initial = TrackState(before.models[GLOBAL], self.aggregator.initial_state())
        plan = self.plan(setting)
        checkpoints = Checkpoints(setting.folder, setting.job.digest)
        states, traffic = run_rounds(plan, {GLOBAL: initial}, setting.engine, setting.journal, checkpoints)
        models = {GLOBAL: states[GLOBAL].weights}
        test = figures_on_test(setting, models, traffic)
        return Outcome(models, rounds=self.rounds, traffic=traffic, test=test)

    def plan(self, setting: Setting) -> Plan:
        """What stays the same through the rounds.

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
        judges = setting.census.holders(self.evaluate_on, setting.places) if self.evaluate_on else ()
        travels, stays = divide(self.sync, setting.model)
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
            split=self.evaluate_on,
            seed=setting.job.seed,
        )

    def answer(self, broadcast: Broadcast, client: Client) -> Update:
        """Train, evaluate, or hand over what was kept."""
        if broadcast.ask == FIT:
            return fit(broadcast, client, self.objective, self.sync, rounds=self.rounds, subgroup=None)
        if broadcast.ask == EVALUATE:
            load_merged(broadcast, client, self.sync)
            return evaluate(broadcast, client)
        if broadcast.ask == COLLECT:
            return collect_kept(broadcast, client)
        if broadcast.ask == TEST:
            return answer_test(broadcast, client)
        raise unknown_question(broadcast)


def divide(sync: Sync, model: Classifier) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names that travel and those that stay, in the model's order."""
    travels = sync.travels(model)
    return travels, tuple(name for name in float_state(model) if name not in travels)
