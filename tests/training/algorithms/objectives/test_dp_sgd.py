"""DP-SGD: gradients of single pictures, clipped and noised as in Algorithm 1, and each client's account."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.closeness import assert_close_in_norm
from training import randomness
from training.algorithms.client import Client
from training.algorithms.objectives.base import LocalRound
from training.algorithms.objectives.dp_sgd import DPSGD, gradients_of_each, private_optimizer
from training.errors import JobError
from training.models.classifier import to_model_input
from training.privacy.noisy_updates import epsilon
from training.rounds.client.fit import train_locally

GROUPED = {"name": "resnet18", "options": {"channels": [4, 8, 16, 32], "norm_layer": "groupnorm1"}}
SGD = {"name": "sgd", "lr": 0.5, "momentum": 0.0}
PRIVATE = {"name": "dp-sgd", "batch_size": 6, "noise_multiplier": 1.0, "optimizer": SGD}


@pytest.fixture
def at_work(make_client, make_job):
    """A client with a model without batch normalisation, and its round."""

    def build(**config):
        client: Client = make_client(job=make_job(model=GROUPED))
        work = LocalRound(
            "north",
            "0-federate",
            "global",
            1,
            2,
            7,
            client.examples("train"),
            client.subgroups,
            {},
            {},
            client.local_model.device,
        )
        return client.local_model, DPSGD.model_validate({**PRIVATE, **config}), work

    return build


def naive_gradients(model, images, labels):
    """One picture after another."""
    found = []
    for image, label in zip(images, labels, strict=True):
        model.zero_grad()
        F.cross_entropy(model(image[None]), label[None]).backward()
        found.append({name: p.grad.clone() for name, p in model.named_parameters()})
    model.zero_grad()
    return found


def test_gradients_are_those_of_single_pictures(at_work):
    local_model, _, work = at_work()
    model = local_model.model.train()
    images = to_model_input(work.examples.batch(np.arange(5)), local_model.device)
    labels = torch.from_numpy(work.examples.labels[:5])
    found, losses = gradients_of_each(model, dict(model.named_parameters()), images, labels)
    torch.testing.assert_close(losses, F.cross_entropy(model(images), labels, reduction="none").detach())
    for place, expected in enumerate(naive_gradients(model, images, labels)):
        for name, gradient in expected.items():
            assert_close_in_norm(found[name][place], gradient, 1e-4, name)


def test_a_step_is_that_of_the_algorithm(at_work):
    # Without noise to speak of: θ ← θ − η (1/L) Σ_i g_i / max(1, ‖g_i‖ / C).
    local_model, config, work = at_work(
        batch_size=1000, clip=0.7, noise_multiplier=1e-12, augment={"flip": False, "rotation": 0}
    )
    model = local_model.model.train()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    n = len(work.examples)
    images = to_model_input(work.examples.batch(np.arange(n)), local_model.device)
    each = naive_gradients(model, images, torch.from_numpy(work.examples.labels))
    train_locally(local_model, config, work, {})  # q = 1: one step over all pictures
    norms = [float(np.sqrt(sum(float(g.double().square().sum()) for g in of.values()))) for of in each]
    assert max(norms) > 0.7  # clipping has something to do
    found, expected = [], []
    for name, parameter in model.named_parameters():
        total = sum(of[name] / max(1.0, length / 0.7) for of, length in zip(each, norms, strict=True))
        found.append((parameter.detach().double() - before[name]).flatten())
        expected.append(-0.5 * total.double().flatten() / 1000)
    # The steps are small beside the weights, whose last digit is as much as 1e-4 of them.
    assert_close_in_norm(torch.cat(found), torch.cat(expected), 1e-3)


def test_noise_is_added_once_a_step_whatever_was_drawn(monkeypatch):
    monkeypatch.setattr(randomness, "fresh_key", lambda: bytes(range(32)))
    weight = torch.nn.Parameter(torch.zeros(100_000))
    config = DPSGD.model_validate({**PRIVATE, "clip": 2.0, "noise_multiplier": 3.0, "batch_size": 10})
    optimizer = private_optimizer(config, torch.optim.SGD([weight], lr=1.0))
    weight.grad_sample = torch.zeros(0, 100_000)  # nothing was drawn
    optimizer.step()
    assert float(weight.detach().std()) == pytest.approx(3.0 * 2.0 / 10, rel=0.02)


def test_runs_differ_and_tell_each_clients_account(run_job, make_job, tmp_path):
    job = make_job(model=GROUPED, federate={"objective": PRIVATE})
    runs = [run_job(job, out=tmp_path / name) for name in ("a", "b")]
    assert any(not torch.equal(runs[1].weights()[name], value) for name, value in runs[0].weights().items())
    told = runs[0].result.summary["privacy"]["picture_level"]
    expected = {
        client: epsilon([(1.0, min(1.0, 6 / n), 2 * steps)], 1e-5)
        for client, n, steps in (("north", 18, 3), ("south", 9, 2), ("west", 7, 2))
    }
    assert told["epsilon_by_client"] == pytest.approx(expected)
    assert told["epsilon"] == max(told["epsilon_by_client"].values())


def test_batch_normalisation_is_refused_with_the_way_out(run_job, make_job):
    with pytest.raises(
        JobError, match=r"\(BatchNorm.*\) mixes the pictures of a batch.*norm_layer: groupnorm"
    ):
        run_job(make_job(federate={"objective": PRIVATE}))


@pytest.mark.parametrize("change", [{"mu": 0.1}, {"clip_norm": 1.0}])
def test_nothing_else_touches_gradients(change):
    with pytest.raises(ValueError, match="leave mu and clip_norm out"):
        DPSGD.model_validate({**PRIVATE, **change})
