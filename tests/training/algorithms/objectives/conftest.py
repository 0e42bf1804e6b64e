"""One client's round of any objective, on a model small enough to check by hand."""

from copy import deepcopy
from dataclasses import replace

import pytest
import torch

from training.algorithms.objectives.base import LocalRound
from training.models import build_model
from training.models.cases import Network


@pytest.fixture
def work_of(dataset):
    """A client's round: `work_of("north", stage="0-federate", round_=1, examples=None)`."""

    def make(client, stage, round_=1, examples=None):
        return LocalRound(
            client=client,
            stage=stage,
            track="global",
            round=round_,
            rounds=3,
            seed=5,
            examples=dataset.examples(client, "train") if examples is None else examples,
            subgroups=("light", "dark"),
            received={},
            kept={},
            device=torch.device("cpu"),
        )

    return make


@pytest.fixture
def begin_unlabelled(make_job, work_of):
    """Begin a client's round of a self-supervised objective; gives the task and its network."""

    def start(objective, client="north", round_=1, examples=None):
        model = build_model(make_job().model, 2, seed=1)
        torch.manual_seed(2)
        network = Network(model, objective.heads(model)).train()
        return objective.begin(network, work_of(client, "0-pretrain", round_, examples)), network

    return start


@pytest.fixture
def begin_followed(make_job, work_of):
    """As `begin_unlabelled`, with a twin that holds something else; `kept` and `received` as given."""

    def start(objective, client="north", round_=1, examples=None, kept=None, received=None):
        model = build_model(make_job().model, 2, seed=1)
        torch.manual_seed(2)
        network = Network(model, objective.heads(model)).train()
        frozen_copy = deepcopy(network).requires_grad_(False)
        with torch.no_grad():
            for parameter in frozen_copy.parameters():
                parameter.fill_(9)
        work = work_of(client, "0-pretrain", round_, examples)
        work = replace(
            work, kept=kept or {}, received=received or {}, frozen_copies=lambda count: [frozen_copy][:count]
        )
        return objective.begin(network, work), network, frozen_copy

    return start
