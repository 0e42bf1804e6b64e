"""SimCLR: NT-Xent against a double loop, and what a round draws and reports."""

import math

import numpy as np
import pytest
import torch

from training.algorithms.objectives.simclr import SimCLR, nt_xent


def naive(projected, temperature):
    """Eq. 1 view by view, in plain floating point."""
    z = [row / np.linalg.norm(row) for row in projected]
    views, pictures = len(z), len(z) // 2
    losses = np.zeros(pictures)
    for i in range(views):
        j = (i + pictures) % views
        others = sum(math.exp(z[i] @ z[k] / temperature) for k in range(views) if k != i)
        losses[i % pictures] -= math.log(math.exp(z[i] @ z[j] / temperature) / others) / 2
    return losses


@pytest.mark.parametrize("pictures", [1, 2, 5])
@pytest.mark.parametrize("temperature", [0.1, 0.5, 2.0])
def test_nt_xent_is_the_double_loop(pictures, temperature):
    projected = np.random.default_rng(pictures).normal(size=(2 * pictures, 7)) * 3
    ours = nt_xent(torch.from_numpy(projected), temperature).numpy()
    np.testing.assert_allclose(ours, naive(projected, temperature), rtol=1e-10, atol=1e-12)


def test_equal_views_far_from_all_others_cost_nothing_and_swapped_partners_much():
    axes = torch.eye(4).repeat(2, 1)
    assert nt_xent(axes, 0.05).max() < 1e-6
    swapped = torch.cat([torch.eye(4), torch.eye(4).roll(1, 0)])
    assert nt_xent(swapped, 0.05).min() > 10


def test_losses_by_subgroup_are_means_over_the_pictures_of_the_last_epoch(begin_unlabelled, dataset):
    task, _ = begin_unlabelled(SimCLR(batch_size=6))
    examples = dataset.examples("north", "train")
    for epoch in range(2):
        seen, means = [], []
        for batch in task.batches(epoch):
            means.append(task.loss(batch).item() * len(batch.positions))
            seen += batch.positions.tolist()
        assert sorted(seen) == list(range(len(examples)))
    told, counts = task.losses(), task.num_examples()
    assert counts == {"light": 13, "dark": 5}
    assert sum(told[name] * counts[name] for name in counts) == pytest.approx(sum(means), rel=1e-5)


def test_rounds_and_clients_see_views_of_their_own_and_the_same_again(begin_unlabelled):
    def first_loss(**where):
        task, _ = begin_unlabelled(SimCLR(batch_size=4), **where)
        return task.loss(next(iter(task.batches(0)))).item()

    assert first_loss(round_=1) == first_loss(round_=1)
    assert first_loss(round_=1) != first_loss(round_=2)


def test_the_gradient_reaches_encoder_and_head_and_leaves_the_linear_head_alone(begin_unlabelled):
    task, network = begin_unlabelled(SimCLR(batch_size=6))
    task.loss(next(iter(task.batches(0)))).backward()
    grads = {name: parameter.grad for name, parameter in network.named_parameters()}
    assert grads["heads.projector.0.weight"].abs().sum() > 0
    assert grads["encoder.conv1.weight"].abs().sum() > 0
    assert grads["encoder.fc.weight"] is None


def test_a_client_with_fewer_pictures_than_a_batch_has_one_batch_of_all(begin_unlabelled):
    task, _ = begin_unlabelled(SimCLR(batch_size=500), client="west")
    (batch,) = task.batches(0)
    assert len(batch.positions) == 7
