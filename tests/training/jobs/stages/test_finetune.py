"""The stage `finetune`, through the real loop."""

import pytest
import torch

from training.models.classifier import float_state

SUPERVISED = {"name": "supervised", "batch_size": 8, "optimizer": {"name": "adam", "lr": 0.01}}
PRETRAIN = {
    "stage": "pretrain",
    "rounds": 2,
    "objective": {"name": "simclr", "batch_size": 6, "features": 8, "optimizer": {"name": "sgd", "lr": 0.05}},
    "sync": {"name": "none"},
    "aggregator": {"name": "fedavg"},
}
FINETUNE = {"stage": "finetune", "epochs": 3, "objective": SUPERVISED}


CLIENTS = ("north", "south", "west")


def kept(ran, client, stage, round_):
    state = ran.store.load(client, f"{stage}/global", round_ + 1)
    return {n.removeprefix("weights/"): t for n, t in state.tensors.items() if n.startswith("weights/")}


def test_every_client_has_a_model_and_figures_of_its_own_and_the_global_one_stays(run_job, make_job):
    ran = run_job(make_job(stages=[FINETUNE]))
    start = float_state(ran.result.context.model)
    models = {client: kept(ran, client, "0-finetune", 3) for client in CLIENTS}
    name = "encoder.conv1.weight"
    first, second = [models[client][name] for client in CLIENTS[:2]]
    assert not torch.equal(first, second)
    assert not torch.equal(first, start[name])
    assert all(torch.equal(ran.weights("0-finetune")[name], start[name]) for name in start)
    stage = ran.result.summary["stages"][0]
    own = stage["facts"]["by_client"]
    assert set(own) == set(CLIENTS)
    assert sum(row["n"] for row in own.values()) == stage["test"]["n"]
    mean = sum(row["balanced_accuracy"] for row in own.values()) / len(CLIENTS)
    assert stage["facts"]["over_clients"]["balanced_accuracy"]["mean"] == pytest.approx(mean)


def test_nothing_travels_but_the_first_model_and_the_counts(run_job, make_job):
    ran = run_job(make_job(stages=[{**FINETUNE, "evaluate_on": None}]))
    size = sum(tensor.numel() * 4 for tensor in float_state(ran.result.context.model).values())
    assert ran.lines[0]["bytes_down"] == size * len(CLIENTS)
    assert [line["bytes_down"] for line in ran.lines[1:]] == [0, 0]
    assert [line["bytes_up"] for line in ran.lines] == [0, 0, 0]


def test_it_begins_with_what_stayed_at_the_client(run_job, make_job):
    still = {**SUPERVISED, "optimizer": {"name": "sgd", "lr": 1e-12, "momentum": 0}}
    tune = {**FINETUNE, "epochs": 1, "objective": still}
    ran = run_job(make_job(stages=[PRETRAIN, {**tune, "start": "own"}]))
    name = "encoder.conv1.weight"
    for client in CLIENTS:
        own = kept(ran, client, "0-pretrain", 2)[name]
        torch.testing.assert_close(kept(ran, client, "1-finetune", 1)[name], own)
    averaged = ran.weights("0-pretrain")[name]
    assert not torch.allclose(kept(ran, CLIENTS[0], "1-finetune", 1)[name], averaged, atol=1e-6)


def test_it_begins_with_the_average_unless_asked(run_job, make_job):
    still = {**SUPERVISED, "optimizer": {"name": "sgd", "lr": 1e-12, "momentum": 0}}
    ran = run_job(make_job(stages=[PRETRAIN, {**FINETUNE, "epochs": 1, "objective": still}]))
    name = "encoder.conv1.weight"
    for client in CLIENTS:
        torch.testing.assert_close(kept(ran, client, "1-finetune", 1)[name], ran.weights("0-pretrain")[name])
