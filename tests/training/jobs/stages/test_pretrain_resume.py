"""Pre-training in which clients keep much and miss rounds: kills change nothing, nor do workers."""

import random

import pytest
import torch

from training.models import ModelConfig

FOUR = {f"clinic {number}": {("light", "dark")[number % 2]: (5 + number, 2, 0, 2)} for number in range(4)}
VIT = ModelConfig(
    name="vit_tiny_patch16_224",
    options={"img_size": 16, "patch_size": 4, "depth": 1, "embed_dim": 16, "num_heads": 2},
)
ROUNDS = {"stage": "pretrain", "rounds": 5, "aggregator": {"name": "fedavg"}, "participation": 0.5}
KEPT = {"name": "adam", "lr": 0.01, "state": "keep"}
CONTRASTIVE = {
    **ROUNDS,
    "objective": {
        "name": "moco",
        "batch_size": 4,
        "features": 8,
        "momentum": 0.5,
        "momentum_encoder": "keep",
        "optimizer": KEPT,
    },
    "exchange": {"name": "features"},
}
MASKED = {
    **ROUNDS,
    "objective": {
        "name": "mae",
        "batch_size": 4,
        "decoder_width": 8,
        "decoder_depth": 1,
        "decoder_heads": 2,
        "optimizer": KEPT,
    },
    "sync": {"name": "except", "groups": ["class_token"]},
}


def left_by(ran):
    """Every tensor that a run leaves: the global model, and what each client keeps."""
    left = {("global", name): tensor for name, tensor in ran.weights("0-pretrain").items()}
    for client in FOUR:
        state = ran.store.load(client, "0-pretrain/global", ROUNDS["rounds"] + 1)
        left |= {(client, name): tensor for name, tensor in state.tensors.items()}
    return left


def log(ran):
    return [{**line, "seconds": 0} for line in ran.lines]


@pytest.mark.parametrize(
    ("stage", "model", "kept"),
    [
        (CONTRASTIVE, None, ("objective/features", "objective/momentum/encoder.conv1.weight")),
        (MASKED, VIT, ("weights/encoder.cls_token",)),
    ],
    ids=["contrastive", "masked"],
)
def test_a_run_cut_again_and_again_ends_as_one_that_never_was(
    stage, model, kept, make_job, run_job, make_dataset, cut_at, tmp_path
):
    job, data = make_job(stages=[stage]), make_dataset(FOUR)
    job = job.model_copy(update={"model": model}) if model else job
    writes = cut_at(0)
    whole = run_job(job, data, tmp_path / "whole")
    total, draw = len(writes), random.Random(11)
    reached = []
    for _ in range(3):
        cut_at(draw.randint(total // 6, total // 4))
        with pytest.raises(KeyboardInterrupt):
            run_job(job, data, tmp_path / "cut")
        reached.append(len((tmp_path / "cut" / "metrics.jsonl").read_text().splitlines()))
    assert 0 < reached[-1] < len(whole.lines)
    cut_at(0)
    ended = run_job(job, data, tmp_path / "cut")

    expected, found = left_by(whole), left_by(ended)
    for name in (*kept, "optimizer/0/exp_avg"):
        assert all((client, name) in expected for client in FOUR), name
    assert expected.keys() == found.keys()
    assert [name for name in expected if not torch.equal(expected[name], found[name])] == []
    assert log(whole) == log(ended)
    assert any(len(line["asked"]) == 2 for line in whole.lines)
