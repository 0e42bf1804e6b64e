"""The stage `pretrain`: clients learn features from their pictures together, in rounds, without labels.

The objective's heads train with the encoder and travel with it; what the stage leaves for the next one is
the encoder alone, with the classifier's linear head as it was.
"""

from copy import deepcopy
from dataclasses import replace
from typing import Literal

import torch
from pydantic import field_validator

from training.checkpoint import Checkpoints
from training.client import Client
from training.federation import run_rounds
from training.messages import GLOBAL, Broadcast, Update
from training.models.groups import float_state, group_names
from training.models.network import Network
from training.objectives import OBJECTIVES, Objective
from training.plan import TrackState
from training.seeds import derive_seed
from training.stages.base import Outcome, Setting
from training.stages.rounds import RoundsStage


class Pretrain(RoundsStage):
    """Rounds of self-supervised learning. Labels are not looked at, and nothing is evaluated."""

    stage: Literal["pretrain"] = "pretrain"

    @field_validator("objective")
    @classmethod
    def _needs_no_labels(cls, objective: Objective) -> Objective:
        if not objective.self_supervised:
            known = [name for name, kind in OBJECTIVES.members.items() if kind.self_supervised]
            raise ValueError(
                f"{objective.name} needs labels; pre-train with {', '.join(known)}, or use a stage federate"
            )
        return objective

    def run(self, setting: Setting, before: Outcome) -> Outcome:
        """Pre-train the encoder."""
        network = self.network(setting)
        fresh = {name: tensor.clone() for name, tensor in float_state(network).items()}
        initial = {**fresh, **before.models[GLOBAL]}
        plan = self.plan_for(setting, network, None, labelled=False)
        states, traffic = run_rounds(
            plan,
            {GLOBAL: TrackState(initial, self.aggregator.initial_state())},
            setting.engine,
            setting.journal,
            Checkpoints(setting.folder, setting.job.digest),
        )
        untouched = group_names(setting.model, "head")
        weights = {
            name: tensor if name in untouched else states[GLOBAL].weights[name]
            for name, tensor in before.models[GLOBAL].items()
        }
        return Outcome({GLOBAL: weights}, rounds=self.rounds, traffic=traffic)

    def network(self, setting: Setting) -> Network:
        """The encoder with the objective's heads, whose initial weights follow from the job's seed."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(setting.job.seed, setting.key, "heads"))
            heads = self.objective.heads(setting.model)
        assert heads is not None, "a self-supervised objective brings its heads"
        return Network(deepcopy(setting.model), heads)

    def answer(self, broadcast: Broadcast, client: Client) -> Update:
        """What the rounds ask, on the encoder with the objective's heads."""
        return self.train(broadcast, replace(client, bench=client.bench.with_heads(self.objective)))
