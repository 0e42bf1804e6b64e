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

from training.aggregators import FedAvg
from training.checkpoint import Checkpoints
from training.client import Client
from training.data import Split
from training.errors import JobError
from training.evaluation import Blocks, add_blocks, evaluate, unpack_blocks
from training.exchanges import NoExchange
from training.federation import EVALUATE, FIT, run_rounds
from training.final_figures import TEST, final_question, told_of_clients
from training.fit import fit, load_merged, own_weights
from training.messages import GLOBAL, Broadcast, Update, unknown_question
from training.objectives import OBJECTIVES, Objective
from training.plan import Plan, Track, TrackState
from training.polling import Traffic, ask_all
from training.stages.base import Outcome, Setting, Stage
from training.stages.rounds import RoundsStage, divide, require_labels
from training.sync import SyncNone


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
        last = next((stage for stage in earlier[-1:] if isinstance(stage, RoundsStage)), None)
        if last is None:
            raise ValueError("start: own needs a stage of rounds right before it; use start: global")
        stage = self.model_copy()
        stage._before = (f"{len(earlier) - 1}-{last.stage}", last.rounds)
        return stage

    def local_objective(self) -> Objective:
        """One epoch of the objective, with an optimizer that goes on where it was."""
        optimizer = self.objective.optimizer.model_copy(update={"state": "keep"})
        return self.objective.model_copy(update={"epochs": 1, "optimizer": optimizer})

    def run(self, setting: Setting, before: Outcome) -> Outcome:
        """Train every client's model, and judge each on its client's test pictures."""
        initial = TrackState(before.models[GLOBAL], {})
        plan = self.plan(setting)
        _, traffic = run_rounds(
            plan,
            {GLOBAL: initial},
            setting.engine,
            setting.journal,
            Checkpoints(setting.folder, setting.job.digest),
        )
        by_client = self.judge(setting, plan.tracks[0].trainers, traffic)
        return Outcome(
            before.models,
            rounds=self.epochs,
            traffic=traffic,
            test=add_blocks(by_client.values()),
            facts=told_of_clients(setting, by_client),
        )

    @property
    def tells_of_clients(self) -> bool:
        """Every model is judged at its own client."""
        return True

    def plan(self, setting: Setting) -> Plan:
        """One model per client that has labels, and nothing that travels.

        Raises:
            JobError: when no client has a labelled training picture.
        """
        clients = setting.census.hospitals("train", setting.places)
        if not clients:
            raise JobError("finetune needs labelled training pictures, and no client has any")
        judges = setting.census.hospitals(self.evaluate_on, setting.places) if self.evaluate_on else ()
        travels, stays = divide(SyncNone(), setting.model)
        return Plan(
            stage=setting.key,
            rounds=self.epochs,
            tracks=(
                Track(GLOBAL, clients, tuple(name for name in judges if name in clients), setting.places),
            ),
            travels=travels,
            stays=stays,
            exchange=NoExchange(),
            aggregator=FedAvg(),
            participation=1.0,
            min_clients=None,
            average_at_end=False,
            split=self.evaluate_on,
            seed=setting.job.seed,
            dismissed=setting.dismissed,
            masks=setting.job.privacy.secure_aggregation,
            masked_counts=setting.job.privacy.masked_counts,
            canary=setting.canary,
        )

    def judge(self, setting: Setting, trained: Sequence[str], traffic: Traffic) -> dict[str, Blocks]:
        """Counts on the test split by client and subgroup; clients without test pictures have none."""
        question = final_question(setting, setting.places)
        judges = [name for name in setting.census.hospitals("test", setting.places) if name in trained]
        broadcasts = [
            Broadcast(client, setting.key, self.epochs, TEST, GLOBAL, {}, question) for client in judges
        ]
        updates = ask_all(setting.engine, broadcasts, traffic) if broadcasts else []
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
        raise unknown_question(broadcast)
