"""The stage `pretrain`, through the real loop."""

import pytest
import torch

from training.models.classifier import float_state

PRETRAIN = {
    "stage": "pretrain",
    "rounds": 2,
    "objective": {
        "name": "simclr",
        "batch_size": 6,
        "features": 8,
        "optimizer": {"name": "sgd", "lr": 0.05, "momentum": 0.9},
    },
    "aggregator": {"name": "fedavg"},
}


def pretraining(name="simclr", **changes):
    objective = {**PRETRAIN["objective"], "name": name}
    if name == "rotation":
        objective.pop("features")
    return {**PRETRAIN, "objective": objective, **changes}


@pytest.mark.parametrize("name", ["simclr", "rotation"])
def test_the_encoder_is_trained_and_nothing_else_is_left(run_job, make_job, federate_block, name):
    ran = run_job(make_job(stages=[pretraining(name), federate_block(rounds=1)]))
    start = float_state(ran.result.context.model)
    weights = ran.weights("0-pretrain")
    assert set(weights) == set(start)
    assert not torch.equal(weights["encoder.conv1.weight"], start["encoder.conv1.weight"])
    assert torch.equal(weights["encoder.fc.weight"], start["encoder.fc.weight"])
    summary = ran.result.summary
    assert [stage["name"] for stage in summary["stages"]] == ["pretrain", "federate"]
    assert summary["stages"][0]["test"] is None
    assert summary["test"] is not None
    lines = [line for line in ran.lines if line["stage"] == "0-pretrain"]
    assert [line["round"] for line in lines] == [1, 2]
    assert all(line["loss"] > 0 for line in lines)
    encoder = 4 * sum(tensor.numel() for tensor in weights.values())
    assert lines[0]["bytes_up"] > 3 * encoder, "the heads travel with it"
