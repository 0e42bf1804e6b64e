"""`trainable: head`: rounds on features, which end where rounds on pictures with a frozen encoder would."""

import numpy as np
import pytest
import torch

from registry.bundle.model import Graph
from training.algorithms.augmentations import AugmentConfig
from training.algorithms.client import KEPT, weights_digest
from training.errors import QuorumError
from training.messages import Broadcast
from training.models import initial_model
from training.models.classifier import float_state
from training.rounds.client import embed
from training.rounds.server import loop

HEAD = {"rounds": 3, "trainable": {"name": "head"}}


@pytest.fixture
def make_job(begun_job):
    """Jobs whose encoder begins with weights from a file."""
    return begun_job


class StoppedError(Exception):
    """The run is ended from outside."""


def plain(weights):
    return {name: tensor.numpy() for name, tensor in weights.items()}


def test_the_encoder_stays_and_the_head_learns(make_job, run_job):
    job = make_job(federate=HEAD)
    weights = run_job(job).weights()
    initial = float_state(initial_model(job.model, job.seed, 16, 2))
    assert weights.keys() == initial.keys()
    moved = {name for name in initial if not torch.equal(weights[name], initial[name])}
    assert moved == {"encoder.fc.weight", "encoder.fc.bias"}


def test_it_is_gradient_descent_on_the_features(make_job, run_job, dataset):
    """One client of all, full batches: each round is one step of softmax regression, computed by NumPy."""
    job = make_job(
        federate={
            "rounds": 2,
            "trainable": {"name": "head"},
            "evaluate_on": None,
            "objective": {
                "name": "supervised",
                "sampling": "uniform",
                "batch_size": 100,
                "optimizer": {"name": "sgd", "lr": 0.5, "momentum": 0.0},
                "augment": {"flip": False},
            },
        }
    )
    weights = run_job(job).weights()
    model = initial_model(job.model, job.seed, 16, 2).eval()
    held = {}
    for client in dataset.clients:
        examples = dataset.examples(client, "train")
        pixels = torch.from_numpy(examples.images[examples.rows].astype(np.float32) / 255).permute(0, 3, 1, 2)
        with torch.no_grad():
            features = model.features(pixels.contiguous(memory_format=torch.channels_last))
        held[client] = features.numpy().astype(np.float16).astype(np.float64), examples.labels
    weight = model.encoder.fc.weight.detach().numpy().astype(np.float64)
    bias = model.encoder.fc.bias.detach().numpy().astype(np.float64)
    total = sum(len(labels) for _, labels in held.values())
    for _ in range(2):
        steps = []
        for features, labels in held.values():
            logits = features @ weight.T + bias
            raised = np.exp(logits - logits.max(axis=1, keepdims=True))
            error = (raised / raised.sum(axis=1, keepdims=True) - np.eye(2)[labels]) / len(labels)
            share = len(labels) / total
            steps.append((share * error.T @ features, share * error.sum(axis=0)))
        weight = weight - 0.5 * sum(step for step, _ in steps)
        bias = bias - 0.5 * sum(step for _, step in steps)
    np.testing.assert_allclose(weights["encoder.fc.weight"].numpy(), weight, atol=1e-5)
    np.testing.assert_allclose(weights["encoder.fc.bias"].numpy(), bias, atol=1e-5)


def test_only_the_head_travels(make_job, run_job):
    ran = run_job(make_job(federate={**HEAD, "evaluate_on": None}))
    head = 4 * (2 * 32 + 2)
    for line in ran.lines:
        assert line["bytes_up"] == 3 * head
        assert line["bytes_down"] == 3 * head


def test_a_resumed_run_makes_no_feature_twice_and_ends_with_the_same_bytes(
    make_job, run_job, tmp_path, monkeypatch
):
    whole = run_job(make_job(federate=HEAD), out=tmp_path / "whole")
    made = []
    monkeypatch.setattr(
        embed, "make_features", lambda *given, inner=embed.make_features: made.append(1) or inner(*given)
    )
    stopped = make_job(federate=HEAD)
    out = tmp_path / "stopped"

    def stop_after_the_first(*given, inner=loop.save):
        inner(*given)
        raise StoppedError

    with monkeypatch.context() as patch:
        patch.setattr(loop, "save", stop_after_the_first)
        with pytest.raises(StoppedError):
            run_job(stopped, out=out)
    first = len(made)
    assert first == 12  # three clients, four splits
    resumed = run_job(stopped, out=out)
    assert len(made) == first
    before, after = plain(whole.weights()), plain(resumed.weights())
    assert all(before[name].tobytes() == after[name].tobytes() for name in before)


def test_views_are_drawn_anew_and_judge_nothing(make_job, run_job, tmp_path):
    once, drawn = (
        run_job(
            make_job(federate={**HEAD, "trainable": {"name": "head", "views": views}}),
            out=tmp_path / f"{views}",
        )
        for views in (0, 3)
    )
    assert not torch.equal(once.weights()["encoder.fc.weight"], drawn.weights()["encoder.fc.weight"])
    shapes = {}
    for ran in (once, drawn):
        for client, split in (("north", "train"), ("north", "test")):
            state = ran.store.load(client, f"{KEPT}/0-federate/{split}", 1)
            shapes.setdefault(split, []).append(tuple(state.tensors["features"].shape))
    assert shapes == {"train": [(18, 32), (72, 32)], "test": [(10, 32), (10, 32)]}


def test_a_site_with_another_encoder_is_refused(make_job, run_job, monkeypatch):
    monkeypatch.setattr(embed, "encoder_digest", lambda local_model: "0" * 64)
    with pytest.raises(QuorumError, match="other weights of the encoder than the coordinator"):
        run_job(make_job(federate=HEAD))


def test_features_are_of_both_sides_where_answers_are(make_job, federate_block, run_job, dataset):
    """What is judged, on cached features, is the model that is served, on pictures."""
    stages = [federate_block(**HEAD), {"stage": "export"}]
    job = make_job(stages=stages, model={"weights": make_job().model.weights, "flips": True})
    ran = run_job(job)
    held = ran.store.load("north", f"{KEPT}/0-federate/test", 1).tensors["features"]
    model = initial_model(job.model, job.seed, 16, 2).eval()
    examples = dataset.examples("north", "test")
    pixels = torch.from_numpy(examples.images.astype(np.float32) / 255).permute(0, 3, 1, 2)
    plain = initial_model(job.model.model_copy(update={"flips": False}), job.seed, 16, 2).eval()
    with torch.no_grad():
        mean = (plain.features(pixels) + plain.features(pixels.flip(-1))) / 2
    np.testing.assert_allclose(held.float().numpy(), mean.numpy(), atol=1e-3)
    model.load_state_dict(ran.weights(), strict=False)
    graph = Graph(ran.result.stages["1-export"].outcome.bundles["global"].graph)
    right = 0
    for client in dataset.clients:
        examples = dataset.examples(client, "test")
        right += int((graph.run(examples.images).probabilities.argmax(axis=1) == examples.labels).sum())
    test = ran.result.summary["test"]
    assert round(test["accuracy"] * test["n"]) == right


def test_features_of_one_side_are_not_taken_for_those_of_both(make_client, make_job, dataset):
    made = {}
    for flips in (False, True, False):
        client = make_client(job=make_job(model={"flips": flips}))
        weights = client.local_model.take(client.local_model.names)
        head = client.local_model.model.head_names
        encoder = weights_digest({name: each for name, each in weights.items() if name not in head})
        request = Broadcast("north", "0-federate", 0, "embed", "global", {}, {"encoder": encoder})
        embed.answer_embed(request, client, AugmentConfig(), 0)
        state = client.store.load("north", f"{KEPT}/0-federate/test", 1)
        made.setdefault(flips, []).append(state.tensors["features"].numpy().tobytes())
    assert made[False][0] == made[False][1] != made[True][0]
