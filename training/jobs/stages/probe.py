"""The stage `probe`: judges the encoder of the job's model on frozen features, and changes nothing.

Every client makes features of its pictures once (`training.rounds.client.embed`) and keeps them. Of these
come two figures, as those report them who learn without labels (Caron et al. 2021, section 4.1):

- `linear`: a linear classifier that all clients train together, in rounds (`training.models.probe`);
- `neighbours`: each client's test pictures classified by its own training pictures
  (`training.rounds.client.evaluate`).

Both are counts of test pictures, judged as those of a final test. The model leaves the stage as it came.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator

from registry.bundle.metrics.summary import summarise
from training.algorithms.aggregators import AGGREGATORS, Aggregator, FedAvg
from training.algorithms.augmentations import AugmentConfig
from training.algorithms.client import Client
from training.algorithms.exchanges import NoExchange
from training.algorithms.local_model import OptimizerConfig, ScheduleConfig
from training.algorithms.objectives.supervised import Supervised
from training.algorithms.sync import SyncAll
from training.jobs.stages.base import PlannedStage, StageContext, StageResult
from training.jobs.stages.features import make_features
from training.jobs.stages.federate import unseen_facts
from training.jobs.stages.final_test import answer_test, client_facts, figures_by_client
from training.jobs.stages.rounds import RoundsStage
from training.messages import GLOBAL, Broadcast, Update
from training.models.classifier import float_state
from training.models.probe import LinearProbe
from training.rounds.client.embed import answer_embed, with_features
from training.rounds.client.evaluate import answer_neighbours
from training.rounds.requests import EMBED, NEIGHBOURS, TEST, Blocks, add_blocks
from training.rounds.server.ask import Traffic
from training.rounds.server.plan import TrackState

FIGURES = ("linear", "neighbours")  # of an encoder, as the stage's facts name them
NOTHING: Mapping[str, Any] = {
    "n": 0,
    "intervals": {},
    "by_subgroup": {},
}  # as figures where no client told any

LEARNS_ONE_LAYER = ("layer_decay", "encoder_rate", "decay_norms")  # what an optimizer says of other layers


class Probe(RoundsStage):
    """A linear probe, and the nearest neighbours.

    Attributes:
        objective: how the linear probe learns; a local epoch sees each picture once unless it says otherwise.
        neighbours: k of Wu et al. 2018, where it is 200 of 1.3 million pictures; null leaves neighbours out.
        temperature: τ there.
    """

    summed: ClassVar[frozenset[str]] = frozenset({TEST, NEIGHBOURS})
    quorate: ClassVar[frozenset[str]] = summed
    keeps_model: ClassVar[bool] = True
    stage: Literal["probe"] = "probe"
    objective: Supervised = Supervised(
        sampling="uniform", optimizer=OptimizerConfig(lr=1e-3), schedule=ScheduleConfig(name="cosine")
    )
    sync: SyncAll = SyncAll()
    exchange: NoExchange = NoExchange()
    aggregator: Annotated[Aggregator, AGGREGATORS] = FedAvg()
    neighbours: int | None = Field(20, ge=1)
    temperature: float = Field(0.07, gt=0)

    @field_validator("objective")
    @classmethod
    def _is_of_one_layer_on_features(cls, objective: Supervised) -> Supervised:
        optimizer, usual = objective.optimizer, OptimizerConfig()
        others = [
            f"optimizer.{name}"
            for name in LEARNS_ONE_LAYER
            if getattr(optimizer, name) != getattr(usual, name)
        ]
        others += ["augment"] if objective.augment != AugmentConfig() else []
        others += ["mixup"] if objective.mixup else []
        if others:
            raise ValueError(
                f"a probe learns one layer on features of whole pictures as they are; {', '.join(others)} of "
                "the objective is for more layers or for pictures: remove it"
            )
        return objective

    def run(self, context: StageContext, before: StageResult) -> StageResult:
        """Judge the encoder; the model is handed on."""
        making = Traffic()
        make_features(context, before.models[GLOBAL], making)
        probe = LinearProbe(context.model)
        plan = self.plan_for(context, probe, None)
        initial = TrackState(float_state(probe), plan.aggregator.initial_state())
        states, traffic = context.run_rounds(plan, {GLOBAL: initial})
        traffic = Traffic(traffic.down + making.down, traffic.up + making.up)
        weights = states[GLOBAL].weights
        linear = figures_by_client(context, {GLOBAL: weights}, traffic)
        test = add_blocks(linear.values())
        found = {"linear": figures(context, test)}
        if self.neighbours is not None:
            near = figures_by_client(context, {GLOBAL: {}}, traffic, NEIGHBOURS)
            found["neighbours"] = figures(context, add_blocks(near.values()))
        apart = any(linear.values()) and context.job.privacy.masked_counts is None
        return replace(
            before,
            rounds=self.rounds,
            traffic=traffic,
            test=test,
            facts={
                **found,
                **(client_facts(context, linear) if apart else {}),
                **unseen_facts(context, weights, traffic),
            },
            tests_local_models=True,
        )

    def plan_ahead(self, context: StageContext) -> PlannedStage:
        """Plan the rounds of the linear probe."""
        probe = LinearProbe(context.model)
        return PlannedStage(
            self.plan_for(context, probe, None),
            float_state(probe),
            self.objective.epochs,
            self.objective.batch_size,
        )

    def answer(self, broadcast: Broadcast, client: Client) -> Update:
        """Make features, train the linear probe, or count answers of either kind."""
        if broadcast.ask == EMBED:
            return answer_embed(broadcast, client, self.objective.augment, views=0)
        client = with_features(client, broadcast.stage)
        if broadcast.ask == NEIGHBOURS and self.neighbours is not None:
            return answer_neighbours(broadcast, client, self.neighbours, self.temperature)
        client = replace(client, local_model=client.local_model.linear_probe())
        return answer_test(broadcast, client) if broadcast.ask == TEST else self.train(broadcast, client)


def figures(context: StageContext, blocks: Blocks) -> Mapping[str, Any] | None:
    """The metrics of one kind of answer, and what they leave out; None where no client reported any."""
    if not blocks:
        return None
    counted = {name: int(block.point.n) for name, block in blocks.items()}
    missing = context.census.not_counted("test", counted)
    found = summarise(blocks, context.labels, context.subgroups, traits=context.job.evaluation.traits)
    return {**found, **({"not_counted": missing} if missing else {})}
