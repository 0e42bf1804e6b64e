"""The stage `finetune`: every client trains a model of its own on its labels; nothing travels.

"Each device independently fine-tunes its model with its limited labeled data after pre-training" (Wu et al.
2022, section V-A). Each client's model is judged on that client's own test pictures, and the figures are
means over clients, as in their Tables I and III. The models stay where they are: what the stage leaves for
the next one is the model that it found.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from pydantic import Field, PrivateAttr, field_validator

from training.algorithms.aggregators import FedAvg
from training.algorithms.client import Client
from training.algorithms.exchanges import NoExchange
from training.algorithms.objectives import OBJECTIVES, Objective
from training.algorithms.sync import SyncNone
from training.data.dataset import Split
from training.errors import JobError
from training.jobs.stages.base import PlannedStage, Stage, StageContext, StageResult
from training.jobs.stages.final_test import client_facts, final_request
from training.jobs.stages.rounds import RoundsStage, divide, require_labels
from training.messages import GLOBAL, Broadcast, Update, unknown_request
from training.models.classifier import float_state
from training.rounds.census import CensusBounds
from training.rounds.client.evaluate import evaluate
from training.rounds.client.fit import fit, load_merged, own_weights
from training.rounds.requests import EVALUATE, FIT, TEST, Blocks, add_blocks, unpack_blocks
from training.rounds.server.ask import Traffic, ask_all
from training.rounds.server.plan import Plan, Track, TrackState


class Finetune(Stage):
    """Local fine-tuning, from the model that the stage before left.

    Attributes:
        epochs: how many; after each the clients' models are evaluated.
        objective: what a client minimises. The optimizer's state is kept from epoch to epoch.
        start: `global` begins with the model that the stage before left; `own` puts a client's own share
            of it in place: what stayed at the client through all rounds of that stage.
        evaluate_on: the split evaluated after each epoch, for the learning curves; null leaves it out.
    """

    stage: Literal["finetune"] = "finetune"
    needs_everyone: ClassVar[bool] = True
    epochs: int = Field(ge=1)
    objective: Annotated[Objective, OBJECTIVES]
    start: Literal["global", "own"] = "global"
    evaluate_on: Split | None = "validation"
    _before: tuple[str, int] = PrivateAttr(("", 0))  # the key and the rounds of the stage before

    @field_validator("objective")
    @classmethod
    def _learns_the_classes(cls, objective: Objective) -> Objective:
        objective.fit_with(NoExchange())
        return require_labels(objective)

    def inherit(self, earlier: Sequence[Stage]) -> "Finetune":
        """The stage, knowing where its clients find what they kept.

        Raises:
            ValueError: when it begins with what clients kept, and no stage before it let them keep anything.
        """
        if self.start == "global":
            return self
        last = next(
            (stage for stage in earlier[-1:] if isinstance(stage, RoundsStage) and not stage.keeps_model),
            None,
        )
        if last is None:
            raise ValueError("start: own needs a stage of rounds right before it; use start: global")
        stage = self.model_copy()
        stage._before = (f"{len(earlier) - 1}-{last.stage}", last.rounds)
        return stage

    @property
    def num_rounds(self) -> int:
        """One an epoch."""
        return self.epochs

    @property
    def one_encoder(self) -> bool:
        """All of a model trains."""
        return True

    @property
    def without_cases(self) -> str | None:
        """The objective, if it takes single pictures."""
        return None if self.objective.takes_cases else f"objective {self.objective.name}"

    def local_objective(self) -> Objective:
        """One epoch of the objective, with an optimizer that goes on where it was."""
        optimizer = self.objective.optimizer.model_copy(update={"state": "keep"})
        return self.objective.model_copy(update={"epochs": 1, "optimizer": optimizer})

    def run(self, context: StageContext, before: StageResult) -> StageResult:
        """Train every client's model, and judge each on its client's test pictures."""
        initial = TrackState(before.models[GLOBAL], {})
        plan = self.plan(context)
        _, traffic = context.run_rounds(plan, {GLOBAL: initial})
        by_client = self.judge(context, plan.tracks[0].trainers, traffic)
        return StageResult(
            before.models,
            rounds=self.epochs,
            traffic=traffic,
            test=add_blocks(by_client.values()),
            facts=client_facts(context, by_client),
        )

    def plan_ahead(self, context: StageContext) -> PlannedStage:
        """Plan the epochs."""
        plan, state = self.plan(context), float_state(context.model)
        return PlannedStage(plan, state, 1, self.objective.batch_size, whole=True)

    @property
    def needs_client_figures(self) -> bool:
        """Every model is judged at its own client."""
        return True

    def plan(self, context: StageContext) -> Plan:
        """One model per client that has labels, and nothing that travels.

        Raises:
            JobError: when no client has a labelled training picture.
        """
        clients = context.census.hospitals("train", context.all_subgroups)
        if not clients:
            raise JobError("finetune needs labelled training pictures, and no client has any")
        judges = context.census.hospitals(self.evaluate_on, context.all_subgroups) if self.evaluate_on else ()
        shared, local = divide(SyncNone(), context.model)
        return Plan(
            stage=context.key,
            rounds=self.epochs,
            tracks=(
                Track(
                    GLOBAL, clients, tuple(name for name in judges if name in clients), context.all_subgroups
                ),
            ),
            shared=shared,
            local=local,
            exchange=NoExchange(),
            aggregator=FedAvg(),
            participation=1.0,
            min_clients=None,
            average_at_end=False,
            split=self.evaluate_on,
            seed=context.job.seed,
            dismissed=context.dismissed,
            masks=context.job.privacy.secure_aggregation,
            masked_counts=context.job.privacy.masked_counts,
            bounds=CensusBounds(context.census, self.objective.least_loss),
            canary=context.canary,
        )

    def judge(self, context: StageContext, trained: Sequence[str], traffic: Traffic) -> dict[str, Blocks]:
        """Counts on the test split by client and subgroup; clients without test pictures have none."""
        request = final_request(context, context.all_subgroups)
        judges = [name for name in context.census.hospitals("test", context.all_subgroups) if name in trained]
        broadcasts = [
            Broadcast(client, context.key, self.epochs, TEST, GLOBAL, {}, request) for client in judges
        ]
        updates = ask_all(context.engine, broadcasts, traffic) if broadcasts else []
        return {update.client: unpack_blocks(update) for update in updates}

    def answer(self, broadcast: Broadcast, client: Client) -> Update:
        """Train an epoch, or evaluate the client's own model."""
        if broadcast.ask == FIT:
            if self.start == "own" and broadcast.tensors:
                own = own_weights(client, *self._before)
                broadcast = replace(broadcast, tensors={**broadcast.tensors, **own})
            return fit(
                broadcast, client, self.local_objective(), SyncNone(), rounds=self.epochs, subgroup=None
            )
        if broadcast.ask in (EVALUATE, TEST):
            load_merged(broadcast, client, SyncNone())
            return evaluate(broadcast, client)
        raise unknown_request(broadcast)
