"""A coordinator that lies sends a graph and weights of its own choice, and asks how far their answers differ.

Beside a graph that answers every picture alike, the largest difference is what the weights answer for one
picture: the most suspicious one of a hospital, or one that the weights were made for.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.training.conftest import FEDERATE
from training.jobs.client_app import answer_privately
from training.jobs.stages import export
from training.jobs.stages.export import DIFFERENCE, PARITY, WEIGHTS
from training.messages import GLOBAL, Broadcast, prefixed
from training.models import build_model
from training.models.classifier import float_state
from training.models.export import GRAPH, as_tensor, export_graph
from training.rounds.client.evaluate import predict

LEAST = 3


@pytest.fixture
def asked(make_job, make_client):
    """A hospital, its job, the request, and what the weights answer for its patients beside a half."""
    job = make_job(stages=[FEDERATE, {"stage": "export"}], privacy={"min_count": LEAST})
    client = make_client("north", job=job)
    model = client.local_model.model
    weights = {name: tensor.clone() for name, tensor in float_state(model).items()}
    drawn = torch.Generator().manual_seed(2)
    for name in model.head_names:
        weights[name] = torch.randn(weights[name].shape, generator=drawn)
    client.local_model.load(weights)
    examples = client.examples("validation")
    firsts = np.sort(np.unique(examples.people, return_index=True)[1])
    apart = np.sort(np.abs(predict(client.local_model, examples)[firsts] - 0.5).max(axis=1))
    alike = build_model(job.model, 2, seed=1)
    alike.load_state_dict({name: float_state(alike)[name] * 0 for name in alike.head_names}, strict=False)
    graph = as_tensor(export_graph(alike, job.data.image_size))
    tensors = {GRAPH: graph, **prefixed(weights, WEIGHTS)}
    request = Broadcast("north", job.key(1), 0, PARITY, GLOBAL, tensors, {"split": "validation"})
    return job, client, request, apart


def told(job, request, client):
    return answer_privately(job, request, client).scalars.get(DIFFERENCE)


def test_it_is_told_what_enough_patients_reach_and_roughly(asked):
    job, client, request, apart = asked
    assert apart[-1] > apart[-LEAST] + 0.001
    assert told(job, request, client) == float(f"{apart[-LEAST]:.0e}")


def test_otherwise_it_is_told_what_one_picture_is_answered(asked, monkeypatch):
    """The control."""
    monkeypatch.setattr(export, "reached", lambda differences, least: float(differences.max()))
    job, client, request, apart = asked
    assert told(job, request, client) == pytest.approx(apart[-1], abs=1e-5)


def test_of_too_few_patients_nothing_is_told(asked):
    job, client, request, _ = asked
    assert told(job, request, replace(client, min_count=60)) is None
