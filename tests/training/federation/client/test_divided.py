"""The parts of a batch, as several processes would have them, against the whole batch in one."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from tests.closeness import assert_close_in_norm
from training.algorithms.local_model import LocalModel
from training.algorithms.objectives import OBJECTIVES
from training.algorithms.objectives.base import LocalRound
from training.algorithms.objectives.rotation import Rotation
from training.algorithms.objectives.simclr import SimCLR
from training.algorithms.objectives.supervised import Supervised
from training.algorithms.share import Share
from training.data.cells import Cells, CellWeights
from training.errors import JobError
from training.federation.client.divided import LossOfPart, divided
from training.models import build_model
from training.models.case_batch import CaseBatch, part_of

WITHOUT_STATISTICS = {"name": "resnet18", "options": {"channels": [4, 8, 16, 32], "norm_layer": "groupnorm1"}}


def supervised(**settings):
    return Supervised.model_validate({"sampling": "uniform", "batch_size": 7, **settings})


DIVISIBLE = {
    "supervised": supervised(),
    "weights and smoothing": supervised(class_weights="inverse-frequency", label_smoothing=0.1),
    "mixup": supervised(mixup=0.4),
    "cells": supervised(),
    "rotation": Rotation(batch_size=7),
}


@pytest.fixture
def begun(make_client, make_job, dataset):
    """`begun(objective)`: a task at `north`, what it trains, and its first batch."""

    def begin(objective, name=""):
        client = make_client()
        model = build_model(make_job(model=WITHOUT_STATISTICS).model, 2, seed=1)
        network = LocalModel(model, "cpu").with_heads(objective).model.train()
        work = LocalRound(
            client=client.id,
            stage="0-federate",
            track="global",
            round=1,
            rounds=1,
            seed=client.seed,
            examples=client.examples("train"),
            subgroups=client.subgroups,
            received={},
            kept={},
            device=torch.device("cpu"),
        )
        if name == "cells":
            cells = Cells.of("class", dataset.labels, client.subgroups)
            weights = {cell: 1.0 + number for number, cell in enumerate(cells.names)}
            work = replace(work, cell_weights=CellWeights(cells, weights))
        task = objective.begin(network, work)
        return network, task, next(iter(task.batches(0)))

    return begin


def gradients(network, losses):
    """The mean of the gradients of several losses, by name; what gets none is left out."""
    total = {}
    for loss in losses:
        network.zero_grad(set_to_none=True)
        loss.backward()
        for name, parameter in network.named_parameters():
            if parameter.grad is not None:
                total[name] = total.get(name, 0) + parameter.grad / len(losses)
    return total


@pytest.mark.parametrize("processes", [2, 3, 10])  # of ten, three have none of seven pictures
@pytest.mark.parametrize("name", DIVISIBLE)
def test_the_mean_gradient_of_all_parts_is_that_of_the_batch(begun, name, processes):
    network, task, batch = begun(DIVISIBLE[name], name)
    shares = [Share(rank, processes) for rank in range(processes)]
    whole = gradients(network, [task.loss(batch)])
    losses = [LossOfPart(network, task, share)(batch) for share in shares]
    assert torch.isfinite(torch.stack(losses)).all()
    assert_close_in_norm(gradients(network, losses), whole, 1e-5)


def test_a_mean_of_means_would_count_the_pictures_of_a_short_part_more(begun):
    network, task, batch = begun(supervised())
    parts = [batch.part(Share(rank, 3)) for rank in range(3)]
    assert [len(part) for part in parts] == [2, 2, 3]
    whole = gradients(network, [task.loss(batch)])
    apart = gradients(network, [task.loss(part) for part in parts])
    with pytest.raises(AssertionError):
        assert_close_in_norm(apart, whole, 1e-3)


def test_a_loss_of_a_whole_batch_is_not_that_of_its_parts(begun, monkeypatch):
    network, task, batch = begun(SimCLR(batch_size=6))
    half = replace(batch, images=batch.images[[0, 1, 2, 6, 7, 8]], positions=batch.positions[:3])
    other = replace(batch, images=batch.images[[3, 4, 5, 9, 10, 11]], positions=batch.positions[3:])
    whole = gradients(network, [task.loss(batch)])
    parts = gradients(network, [task.loss(half), task.loss(other)])
    with pytest.raises(AssertionError):
        assert_close_in_norm(parts, whole, 1e-2)
    assert not SimCLR.mean_of_pictures


def test_whoever_claims_that_its_batches_can_be_divided_is_tried_here():
    claimed = {name for name, kind in OBJECTIVES.own.items() if kind.mean_of_pictures}
    assert claimed == {objective.name for objective in DIVISIBLE.values()}


@pytest.mark.parametrize("count", range(9))
@pytest.mark.parametrize("processes", [1, 2, 3, 5])
def test_every_picture_is_of_one_part_and_parts_are_as_equal_as_can_be(count, processes):
    pictures = np.arange(count)
    parts = [pictures[Share(rank, processes).part(count)] for rank in range(processes)]
    assert np.concatenate(parts).tolist() == pictures.tolist()
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


def test_a_part_of_cases_has_their_pictures_kinds_and_facts():
    cases = CaseBatch(
        torch.arange(12.0).view(4, 3, 1), torch.arange(12).view(4, 3), torch.arange(4.0).view(4, 1)
    )
    part = part_of(cases, Share(1, 2).part(4))
    assert part.images.flatten().tolist() == [6, 7, 8, 9, 10, 11]
    assert part.kinds.flatten().tolist() == [6, 7, 8, 9, 10, 11]
    assert part.context.flatten().tolist() == [2, 3]


def test_statistics_of_a_batch_are_refused_where_torch_cannot_gather_them_over_processes():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    with pytest.raises(JobError, match=r"1 \(BatchNorm1d\) gathers statistics of a batch.*on GPUs alone"):
        divided(model.train(), None, Share(0, 2))
