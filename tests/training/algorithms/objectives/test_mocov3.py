"""MoCo v3: its loss against a double loop over the batch, its heads, and what stays frozen."""

import math

import numpy as np
import pytest
import torch

from training.algorithms.objectives.mocov3 import MoCoV3, contrast
from training.models import ModelConfig

SMALL = {"batch_size": 6, "features": 8, "hidden": 12}
VIT = {
    "name": "vit_tiny_patch16_224",
    "options": {"img_size": 16, "patch_size": 8, "depth": 1, "embed_dim": 12, "num_heads": 2},
}


def unit(row):
    return row / np.linalg.norm(row)


def naive(queries, keys, temperature):
    """Algorithm 1's ctr: 2τ times the cross-entropy of each row, key by key."""
    losses = []
    for i, q in enumerate(queries):
        others = 0.0
        for k in keys:
            others += math.exp(float(unit(q) @ unit(k)) / temperature)
        own = math.exp(float(unit(q) @ unit(keys[i])) / temperature)
        losses.append(-2 * temperature * math.log(own / others))
    return np.array(losses)


@pytest.mark.parametrize("pictures", [1, 2, 5])
@pytest.mark.parametrize("temperature", [0.1, 0.2, 1.0])
def test_the_contrast_is_the_double_loop(pictures, temperature):
    random = np.random.default_rng(pictures)
    queries, keys = random.normal(size=(2, pictures, 7)) * 3
    ours = contrast(torch.from_numpy(queries).float(), torch.from_numpy(keys).float(), temperature)
    np.testing.assert_allclose(ours, naive(queries, keys, temperature), rtol=2e-4, atol=1e-6)


def test_the_loss_takes_queries_of_each_view_to_the_followers_keys_of_the_other(begin_followed):
    task, network, frozen_copy = begin_followed(MoCoV3(**SMALL, momentum=0.5))

    def keys_and_queries(view):
        with torch.no_grad():
            keys = frozen_copy.heads["projector"](frozen_copy.embed(view))
            queries = network.heads["predictor"](network.heads["projector"](network.embed(view)))
        return keys.double().numpy(), queries.double().numpy()

    for batch in task.batches(0):
        (first_keys, first), (second_keys, second) = map(keys_and_queries, batch.images.chunk(2))
        expected = naive(first, second_keys, 0.2) + naive(second, first_keys, 0.2)
        assert task.loss(batch).item() == pytest.approx(expected.mean(), rel=1e-4)
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.mul_(1.1).add_(0.01)
        task.after_step()  # From here on the two networks differ.


def test_projector_and_predictor_are_normalised_to_their_end(begin_followed):
    _, network, _ = begin_followed(MoCoV3(**SMALL))
    layers = {name: [type(layer).__name__ for layer in network.heads[name]] for name in network.heads}
    hidden = ["Linear", "BatchNorm1d", "ReLU"]
    assert layers == {
        "projector": [*hidden, *hidden, "Linear", "BatchNorm1d"],
        "predictor": [*hidden, "Linear", "BatchNorm1d"],
    }


def block(**objective):
    optimizer = {"name": "adamw", "lr": 0.01, "weight_decay": 0.1}
    return {
        "stage": "pretrain",
        "rounds": 2,
        "objective": {"name": "mocov3", **SMALL, "optimizer": optimizer, **objective},
        "aggregator": {"name": "fedavg"},
    }


@pytest.mark.parametrize("frozen", [True, False])
def test_a_transformers_patch_projection_stays_where_asked_through_the_real_loop(run_job, make_job, frozen):
    job = make_job(stages=[block(frozen_patch_projection=frozen)])
    # A vit's settings replace the narrow resnet's.
    ran = run_job(job.model_copy(update={"model": ModelConfig.model_validate(VIT)}))
    start, weights = ran.result.context.model.state_dict(), ran.weights("0-pretrain")
    for part in ("weight", "bias"):
        name = f"encoder.patch_embed.proj.{part}"
        # The mean of equal weights is rounded.
        assert torch.allclose(weights[name], start[name], rtol=1e-6, atol=1e-7) == frozen
    assert not torch.equal(
        weights["encoder.blocks.0.mlp.fc1.weight"], start["encoder.blocks.0.mlp.fc1.weight"]
    )
