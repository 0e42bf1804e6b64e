"""The stage `pretrain`: clients learn features from their pictures together, in rounds, without labels.

The objective's heads train with the encoder and travel with it; what the stage leaves for the next one is
the encoder alone, with the classifier's linear head as it was.
"""

from copy import deepcopy
from dataclasses import replace
from typing import Literal

import torch
from pydantic import field_validator

from training.algorithms.client import Client
from training.algorithms.objectives import OBJECTIVES, Objective
from training.jobs.stages.base import PlannedStage, StageContext, StageResult
from training.jobs.stages.rounds import RoundsStage
from training.messages import GLOBAL, Broadcast, Update
from training.models.cases import Network
from training.models.classifier import float_state, group_names
from training.randomness import derive_seed
from training.rounds.server.plan import Plan, TrackState


class Pretrain(RoundsStage):
    """Rounds of self-supervised learning. Labels are not looked at, and nothing is evaluated."""

    stage: Literal["pretrain"] = "pretrain"

    @field_validator("objective")
    @classmethod
    def _needs_no_labels(cls, objective: Objective) -> Objective:
        if not objective.self_supervised:
            known = [name for name, kind in OBJECTIVES.own.items() if kind.self_supervised]
            raise ValueError(
                f"{objective.name} needs labels; pre-train with {', '.join(known)}, or use a stage federate"
            )
        return objective

    def run(self, context: StageContext, before: StageResult) -> StageResult:
        """Pre-train the encoder."""
        network = self.network(context)
        plan = self.plan(context, network)
        fresh = {name: tensor.clone() for name, tensor in float_state(network).items()}
        initial = {**fresh, **before.models[GLOBAL]}
        states, traffic = context.run_rounds(
            plan, {GLOBAL: TrackState(initial, self.aggregator.initial_state())}
        )
        untouched = group_names(context.model, "head")
        weights = {
            name: tensor if name in untouched else states[GLOBAL].weights[name]
            for name, tensor in before.models[GLOBAL].items()
        }
        return StageResult({GLOBAL: weights}, rounds=self.rounds, traffic=traffic)

    def plan(self, context: StageContext, network: Network) -> Plan:
        """What stays the same through the rounds."""
        return self.plan_for(context, network, None, labelled=False)

    def plan_ahead(self, context: StageContext) -> PlannedStage:
        """Plan the rounds."""
        network = self.network(context)
        return PlannedStage(
            self.plan(context, network),
            float_state(network),
            self.objective.epochs,
            self.objective.batch_size,
            all_pictures=True,
            whole=True,
        )

    def network(self, context: StageContext) -> Network:
        """The encoder with the objective's heads, whose initial weights follow from the job's seed."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(context.job.seed, context.key, "heads"))
            heads = self.objective.heads(context.model)
        assert heads is not None, "a self-supervised objective brings its heads"
        return Network(deepcopy(context.model), heads)

    def answer(self, broadcast: Broadcast, client: Client) -> Update:
        """What the rounds ask, on the encoder with the objective's heads."""
        return self.train(
            broadcast, replace(client, local_model=client.local_model.with_heads(self.objective))
        )
