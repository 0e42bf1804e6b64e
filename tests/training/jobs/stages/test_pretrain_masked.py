"""Masked image modelling through the real loop, and the syncs of Wu et al. 2022, Table V."""

import pytest
import torch
from safetensors.torch import save_file

from training.algorithms.objectives import beit, mae
from training.algorithms.objectives.codebook import Codebook
from training.messages import named
from training.models import ModelConfig

OPTIONS = {"img_size": 16, "patch_size": 4, "depth": 1, "embed_dim": 16, "num_heads": 2}
TWO = {
    "north": {"light": (8, 2, 2, 2), "dark": (5, 2, 2, 2)},
    "south": {"dark": (5, 2, 2, 2)},
}
MAE = {"name": "mae", "decoder_width": 8, "decoder_depth": 1, "decoder_heads": 2}
TOKEN_STAYS = {"name": "except", "groups": ["class_token"]}


def pretraining(objective, **changes):
    optimizer = {"name": "adamw", "lr": 0.01}
    objective = {"batch_size": 6, "optimizer": optimizer, **objective}
    return {
        "stage": "pretrain",
        "rounds": 2,
        "objective": objective,
        "aggregator": {"name": "fedavg"},
        **changes,
    }


@pytest.fixture
def two_clients(make_dataset):
    """Of 13 and 5 training pictures."""
    return make_dataset(TWO)


@pytest.fixture
def job_on_patches(make_job):
    """A job of these stages on a small vision transformer, whose settings replace the narrow resnet's."""

    def build(*stages, **options):
        model = ModelConfig(name="vit_tiny_patch16_224", options={**OPTIONS, **options})
        return make_job(stages=list(stages)).model_copy(update={"model": model})

    return build


def kept_by(ran, client, round_):
    """The weights that a client keeps after a round."""
    return named(ran.store.load(client, "0-pretrain/global", round_ + 1).tensors, "weights/")


def test_what_travels_is_the_same_for_all_at_the_start_of_every_round(
    run_job, job_on_patches, two_clients, monkeypatch
):
    """The class token is a client's own from the second round on; all else arrives averaged."""
    seen, begin = {}, mae.MAE.begin

    def watch(self, model, work):
        seen[work.round, work.client] = {n: v.clone() for n, v in model.state_dict().items()}
        return begin(self, model, work)

    monkeypatch.setattr(mae.MAE, "begin", watch)
    ran = run_job(job_on_patches(pretraining(MAE, sync=TOKEN_STAYS)), two_clients)
    for round_ in (1, 2):
        north, south = (seen[round_, client] for client in TWO)
        differ = {name for name in north if not torch.equal(north[name], south[name])}
        assert differ == (set() if round_ == 1 else {"encoder.cls_token"})
    for client in TWO:
        assert torch.equal(seen[2, client]["encoder.cls_token"], kept_by(ran, client, 1)["encoder.cls_token"])


def test_the_encoder_learns_and_is_where_training_starts(
    run_job, job_on_patches, two_clients, federate_block
):
    still = federate_block(rounds=1, objective={"optimizer": {"name": "sgd", "lr": 1e-12}})
    ran = run_job(job_on_patches(pretraining(MAE), still), two_clients)
    before, after = ran.weights("0-pretrain"), ran.weights("1-federate")
    assert not any(name.startswith("heads.") for name in before)
    torch.testing.assert_close(
        after["encoder.blocks.0.attn.qkv.weight"], before["encoder.blocks.0.attn.qkv.weight"]
    )
    start = ran.result.context.model.state_dict()
    assert not torch.equal(
        before["encoder.blocks.0.attn.qkv.weight"], start["encoder.blocks.0.attn.qkv.weight"]
    )
    assert torch.equal(before["encoder.head.weight"], start["encoder.head.weight"])


BEIT = {"name": "beit", "tokenizer": {"name": "codebook", "size": 6, "iterations": 2, "min_members": 3}}


def test_beit_learns_its_codebook_once_and_resumes_exactly_after_a_kill(
    run_job, run_killed, job_on_patches, two_clients, tmp_path, monkeypatch
):
    asked, answer = [], Codebook.answer

    def count(self, broadcast, client, grid):
        asked.append((broadcast.ask, broadcast.client))
        return answer(self, broadcast, client, grid)

    monkeypatch.setattr(Codebook, "answer", count)
    job = job_on_patches(pretraining(BEIT, rounds=3))
    whole = run_job(job, two_clients, out=tmp_path / "whole")
    once = [(ask, client) for ask in ("patch_moments", *["patch_cells"] * 2) for client in TWO]
    assert asked == once
    lines = [line for line in whole.lines if line["stage"] == "0-pretrain"]
    assert [line["round"] for line in lines] == [1, 2, 3]
    assert all(line["loss"] > 0 for line in lines)
    # The codebook goes down with the first round alone, and never up.
    assert lines[0]["bytes_down"] - lines[1]["bytes_down"] >= 2 * 6 * 48 * 4
    assert lines[1]["bytes_down"] == lines[2]["bytes_down"] == lines[1]["bytes_up"]
    weights = whole.weights("0-pretrain")
    assert not any(name.startswith("heads.") for name in weights)

    resumed = run_killed(job, two_clients).weights("0-pretrain")
    assert asked == once * 2, "a resumed run has its codebook"
    for name, tensor in weights.items():
        assert torch.equal(tensor, resumed[name])


def test_dalles_weights_never_travel(run_job, job_on_patches, two_clients, tmp_path, monkeypatch):
    """With a narrow encoder in place of the real one, whose names and sizes have a test of their own."""
    monkeypatch.setattr(beit, "WIDTH", 8)
    monkeypatch.setattr(beit, "VOCABULARY", 11)
    tensors = {name: torch.randn_like(b) * 0.1 for name, b in beit.DalleEncoder(8, 11).named_buffers()}
    save_file(tensors, tmp_path / "encoder.safetensors")
    tokenizer = {"name": "dalle", "weights": str(tmp_path / "encoder.safetensors")}
    ran = run_job(job_on_patches(pretraining({"name": "beit", "tokenizer": tokenizer})), two_clients)
    encoder = sum(tensor.numel() for tensor in ran.weights("0-pretrain").values())
    heads = 16 + 11 * 16 + 11
    assert [line["bytes_up"] for line in ran.lines if line["stage"] == "0-pretrain"] == [
        2 * 4 * (encoder + heads)
    ] * 2
