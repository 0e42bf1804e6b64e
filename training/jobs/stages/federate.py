"""The stage `federate`: clients train one global model together, in rounds or to convergence."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field, field_validator, model_validator

from registry.bundle.labels import Label
from registry.bundle.metrics.summary import summarise
from training.algorithms.aggregators import AGGREGATORS, Aggregator, FedAvg
from training.algorithms.aggregators.base import RECEIVED_LOSSES
from training.algorithms.augmentations import ProgressiveResizing
from training.algorithms.client import Client
from training.algorithms.objectives import OBJECTIVES, Objective
from training.algorithms.objectives.supervised import Supervised
from training.algorithms.sync import Sync, SyncAll
from training.algorithms.trainable import TRAINABLE, Trainable, TrainableAll, TrainableHead, TrainableLora
from training.data.dataset import Split
from training.errors import JobError
from training.jobs.stages.base import PlannedStage, StageContext, StageResult
from training.jobs.stages.features import (
    HEAD_SUMS,
    REQUESTS,
    answer_sum,
    fit_converged,
    head_of,
    make_projected,
    require_sums,
)
from training.jobs.stages.final_test import (
    FOLDED_LABELS,
    answer_test,
    client_facts,
    figures_by_client,
    figures_on_unseen,
)
from training.jobs.stages.rounds import RoundsStage, require_labels
from training.messages import GLOBAL, Broadcast, Tensors, Update
from training.models import Classifier
from training.models.classifier import float_state
from training.privacy.settings import CountsConfig, PrivacyConfig
from training.randomness import derive_seed
from training.rounds.census import Census
from training.rounds.client.embed import answer_embed, answer_moments, on_features
from training.rounds.client.evaluate import evaluate
from training.rounds.client.fit import load_merged
from training.rounds.requests import EMBED, EVALUATE, MOMENTS, TEST, add_blocks
from training.rounds.server.ask import Traffic
from training.rounds.server.checkpoint import BestRound, MeanModel
from training.rounds.server.head_fit import KeptSums
from training.rounds.server.plan import Plan, TrackState

OF_CONVERGED = frozenset(
    {"stage", "fit", "penalty", "evaluations", "trainable"}
)  # settings of a converged head
OF_ROUNDS = ("rounds", "objective", "aggregator")  # settings that rounds cannot do without


class Federate(RoundsStage):
    """Rounds of local training and aggregation, or a head that is fitted to convergence.

    Attributes:
        fit: in `rounds` of local training, or the head `converged`: by L-BFGS on sums of gradients, which
            gives the head that pooled data would (`training.rounds.server.head_fit`).
        penalty: of a converged head: λ of λ ‖W‖² / 2, added to the mean loss.
        evaluations: how often its gradient is asked for, at most.
        evaluate_on: the split evaluated after each round, for the learning curves; null leaves it out.
        keep: the model of the `last` round, or of the one whose accuracy on that split was `best`, or the
            `average` of the models of all rounds.
        trainable: which part of the model learns.
        progressive_resizing: whether the first rounds train on small pictures; null for none.
    """

    summed: ClassVar[frozenset[str]] = frozenset({EVALUATE, TEST, *REQUESTS})
    quorate: ClassVar[frozenset[str]] = frozenset({TEST})
    stage: Literal["federate"] = "federate"
    rounds: int = Field(1, ge=1)
    objective: Annotated[Objective, OBJECTIVES] = Supervised()
    aggregator: Annotated[Aggregator, AGGREGATORS] = FedAvg()
    fit: Literal["rounds", "converged"] = "rounds"
    penalty: float = Field(0.1, gt=0)
    evaluations: int = Field(120, ge=1)
    evaluate_on: Split | None = "validation"
    keep: Literal["last", "best", "average"] = "last"
    trainable: Annotated[Trainable, TRAINABLE] = TrainableAll()
    progressive_resizing: ProgressiveResizing | None = None

    @field_validator("objective")
    @classmethod
    def _learns_the_classes(cls, objective: Objective) -> Objective:
        return require_labels(objective)

    @model_validator(mode="after")
    def _says_how_it_is_fitted(self) -> "Federate":
        if self.fit == "rounds":
            missing = [name for name in OF_ROUNDS if name not in self.model_fields_set]
            if missing:
                raise ValueError(
                    f"federate in rounds needs {', '.join(missing)}; or set fit: converged with trains: "
                    "{name: head}"
                )
            return self
        if not isinstance(self.trainable, TrainableHead) or self.trainable.views:
            raise ValueError(
                "fit: converged fits the head on features of whole pictures; set trainable: {name: head} "
                "without views, or fit: rounds"
            )
        usual = type(self).model_construct()
        of_rounds = [
            name
            for name in type(self).model_fields
            if name not in OF_CONVERGED and getattr(self, name) != getattr(usual, name)
        ]
        if of_rounds:
            raise ValueError(
                f"fit: converged has no rounds, and {', '.join(of_rounds)} is of them; remove it, or set "
                "fit: rounds"
            )
        return self

    @model_validator(mode="after")
    def _best_can_be_told(self) -> "Federate":
        if self.keep == "best" and self.evaluate_on is None:
            raise ValueError("keep: best needs evaluate_on; name a split, or keep the last")
        return self

    @model_validator(mode="after")
    def _learns_from_features(self) -> "Federate":
        if isinstance(self.trainable, TrainableHead) and not self.objective.takes_cases:
            raise ValueError(
                f"trainable: {self.trainable.name} trains on features, and the objective "
                f"{self.objective.name} needs pictures; use the objective supervised"
            )
        mixup = self.objective.mixup if isinstance(self.objective, Supervised) else 0
        if isinstance(self.trainable, TrainableHead) and mixup:
            raise ValueError(
                f"objective.mixup is {mixup:g} and mixes pictures, and trainable: {self.trainable.name} "
                "trains on features of whole ones; remove it, or set trainable: {name: all}"
            )
        if isinstance(self.trainable, TrainableLora) and self.objective.name != "supervised":
            raise ValueError(
                f"trainable: {self.trainable.name} trains adapters, and the objective {self.objective.name} "
                "looks at the model without them; use the objective supervised, or set trainable: {name: all}"
            )
        if isinstance(self.trainable, TrainableLora) and RECEIVED_LOSSES in self.aggregator.needs:
            raise ValueError(
                f"aggregator {self.aggregator.name} weighs by the received model's loss, which a client "
                f"computes without the adapters that trainable: {self.trainable.name} puts on it; use "
                "another aggregator, or set trainable: {name: all}"
            )
        return self

    @model_validator(mode="after")
    def _ends_at_its_own_size(self) -> "Federate":
        small = self.progressive_resizing
        if small is not None and isinstance(self.trainable, TrainableHead):
            raise ValueError(
                f"progressive_resizing scales pictures, and trainable: {self.trainable.name} trains on "
                "features that are made once; remove it, or set trainable: {name: all}"
            )
        if small is not None and small.rounds >= self.rounds:
            raise ValueError(
                f"progressive_resizing.rounds is {small.rounds} of {self.rounds} rounds, and the last ones "
                "have to be at data.image_size, at which the model is judged and served; lower it, or lower "
                "data.image_size"
            )
        return self

    @model_validator(mode="after")
    def _a_part_travels_by_itself(self) -> "Federate":
        fits = isinstance(self.trainable, TrainableAll) or (
            isinstance(self.sync, SyncAll) and self.sync.buffers == "average"
        )
        if not fits:
            raise ValueError(
                f"trainable: {self.trainable.name} says what travels, and so does sync {self.sync.name}; "
                "remove the sync, or set trainable: {name: all}"
            )
        return self

    @property
    def num_rounds(self) -> int | None:
        """All rounds; None of a converged head."""
        return self.rounds if self.fit == "rounds" else None

    @property
    def one_encoder(self) -> bool:
        """A head on features has any number."""
        return not isinstance(self.trainable, TrainableHead)

    @property
    def minimised(self) -> Objective:
        """The objective, over the part that learns."""
        return self.trainable.objective(self.objective)

    @property
    def sends(self) -> Sync:
        """The sync, of the part that learns."""
        return self.trainable.sync(self.sync)

    def image_size_in(self, round_: int) -> int | None:
        """A smaller one in the first rounds, where the job says so."""
        return None if self.progressive_resizing is None else self.progressive_resizing.size_in(round_)

    def run(self, context: StageContext, before: StageResult) -> StageResult:
        """Train the global model, and judge it at every client."""
        start = before.models[GLOBAL]
        network = self.network(context)
        plan = self.plan(context, network)
        making = Traffic()
        if isinstance(self.trainable, TrainableHead):
            start = {**start, **make_projected(context, start, making)}
        if self.fit == "converged":
            head, folds, facts = fit_converged(context, network, self.penalty, self.evaluations, making)
            fitted = self.judged(context, start, head, making, facts)
            return replace(fitted, folds={GLOBAL: folds} if folds else {})
        own = float_state(context.model)
        trained = {
            name: start[name] if name in own else value for name, value in float_state(network).items()
        }
        initial = TrackState(trained, plan.aggregator.initial_state())
        best = BestRound(context.folder, context.digest) if self.keep == "best" else None
        mean = MeanModel(context.folder, context.digest) if self.keep == "average" else None
        watching = best or mean
        states, traffic = context.run_rounds(
            plan, {GLOBAL: initial}, None if watching is None else watching.after_round
        )
        kept = states[GLOBAL].weights
        if best is not None:
            kept = best.weights()
        if mean is not None:
            kept = mean.weights(self.rounds, last=kept)
        traffic = Traffic(traffic.down + making.down, traffic.up + making.up)
        facts = {
            **self.exchange.facts(states[GLOBAL].memory),
            **plan.aggregator.facts(states[GLOBAL].server),
            **({} if best is None else {"kept_round": best.round}),
        }
        return self.judged(context, start, self.trainable.merged(kept), traffic, facts)

    def judged(
        self,
        context: StageContext,
        start: Tensors,
        trained: Tensors,
        traffic: Traffic,
        facts: Mapping[str, Any],
    ) -> StageResult:
        """The trained weights with their figures at every client."""
        by_client = figures_by_client(context, {GLOBAL: trained}, traffic)
        unseen = unseen_facts(context, trained, traffic)
        apart = any(by_client.values()) and context.job.privacy.masked_counts is None
        return StageResult(
            {GLOBAL: {**start, **trained}},
            rounds=self.num_rounds or 0,
            traffic=traffic,
            test=add_blocks(by_client.values()),
            facts={**(client_facts(context, by_client) if apart else {}), **unseen, **facts},
        )

    def network(self, context: StageContext) -> Classifier:
        """What learns, whose initial weights follow from the job's seed."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(context.job.seed, context.key, "trains"))
            return self.trainable.network(context.model)

    def plan_ahead(self, context: StageContext) -> PlannedStage:
        """Plan the rounds."""
        network = self.network(context)
        if self.fit == "converged":
            head_of(network)
        return PlannedStage(
            self.plan(context, network),
            float_state(network),
            self.objective.epochs if self.fit == "rounds" else 0,
            self.objective.batch_size,
            all_pictures=self.objective.uses_unlabelled,
            whole=isinstance(self.trainable, TrainableAll),
        )

    def require_data(self, census: Census, labels: Sequence[Label], privacy: PrivacyConfig) -> None:
        """Refuse data of which nothing could be learned, and sums that may not leave."""
        super().require_data(census, labels, privacy)
        if self.fit == "converged":
            require_sums(census, privacy)

    def evaluation_units(self, counts: CountsConfig) -> Mapping[Split, int]:
        """One matrix a round that is evaluated."""
        return (
            {}
            if self.evaluate_on is None or self.fit == "converged"
            else {self.evaluate_on: len(counts.evaluated(self.rounds))}
        )

    @property
    def test_units(self) -> int:
        """A matrix and a histogram."""
        return 2

    def tidy(self, folder: Path) -> None:
        """Remove the clients' uploads and the weights kept on the way: what is needed is in the outcome."""
        super().tidy(folder)
        BestRound(folder, "").forget()
        KeptSums(folder, "").forget()
        MeanModel(folder, "").forget()

    def plan(self, context: StageContext, network: Classifier | None = None) -> Plan:
        """What stays the same through the rounds.

        Args:
            context: what the stage finds.
            network: what learns; the job's model by default.

        Raises:
            QuorumError: when the job demands more answers than there are clients.
            JobError: when other than the last round is to be kept, and parts of the model stay at their
                clients.
        """
        labelled = not self.objective.uses_unlabelled
        plan = self.plan_for(context, network or context.model, self.evaluate_on, labelled=labelled)
        if self.keep == "best":
            require_judges(context.census, context.job.privacy, self.evaluate_on)
        if self.keep != "last" and plan.local and self.sends is self.sync:
            when = "the best round" if self.keep == "best" else "each round"
            raise JobError(
                f"keep: {self.keep} cannot tell what {len(plan.local)} tensors that stay at their clients "
                f"were in {when}; use keep: last, or sync all with buffers average"
            )
        return plan

    def answer(self, broadcast: Broadcast, client: Client) -> Update:
        """Train, evaluate, or hand over what was kept."""
        if isinstance(self.trainable, TrainableHead):
            if broadcast.ask == EMBED:
                return answer_embed(broadcast, client, self.objective.augment, self.trainable.views)
            if broadcast.ask == MOMENTS:
                return answer_moments(broadcast, client)
            client = on_features(client, broadcast.stage)
        if self.fit == "converged" and broadcast.ask in HEAD_SUMS:
            return answer_sum(broadcast, client)
        if broadcast.ask == TEST:
            return answer_test(broadcast, client)
        learner = replace(client, local_model=self.trainable.local_model(client.local_model))
        if broadcast.ask != EVALUATE:
            return self.train(broadcast, learner)
        load_merged(broadcast, learner, self.sends)
        if learner.local_model is not client.local_model:
            client.local_model.load(
                self.trainable.merged(learner.local_model.take(learner.local_model.names))
            )
        return evaluate(broadcast, client)


def require_judges(census: Census, privacy: PrivacyConfig, split: Split | None) -> None:
    """Refuse to look for the best round where no hospital may count its pictures.

    Raises:
        JobError: saying what to raise or lower.
    """
    assert split is not None, "the stage names a split where it keeps the best round"
    least = max(privacy.min_count, 1)
    if not census.can_disclose(split, census.all_subgroups, least):
        raise JobError(
            f"keep: best has nothing to go by: no hospital holds {least} labelled {split} pictures of any "
            f"subgroup (privacy.min_count); raise data.split.{split}, lower privacy.min_count, or keep the "
            "last"
        )


def unseen_facts(context: StageContext, weights: Tensors, traffic: Traffic) -> Mapping[str, Any]:
    """The model's figures of benign and malignant at clients that took no part, where there are any."""
    found = {
        client: summarise(blocks, FOLDED_LABELS, context.subgroups)
        for client, blocks in figures_on_unseen(context, weights, traffic).items()
        if blocks
    }
    return {"unseen": found} if found else {}
