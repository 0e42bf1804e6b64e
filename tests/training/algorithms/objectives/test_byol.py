"""BYOL: its loss against a loop over pictures, and whom its gradient reaches."""

import numpy as np
import pytest
import torch

from training.algorithms.objectives.byol import BYOL, distance

SMALL = {"batch_size": 6, "features": 8, "hidden": 12}


def normed(rows, layer):
    """Batch norm as in training: by the mean and the biased variance of the batch."""
    scaled = (rows - rows.mean(axis=0)) / np.sqrt(rows.var(axis=0) + layer.eps)
    return scaled * layer.weight.detach().double().numpy() + layer.bias.detach().double().numpy()


def two_layers(rows, head):
    """`Linear, BatchNorm1d, ReLU, Linear` in NumPy."""
    rows = rows @ head[0].weight.detach().double().numpy().T
    rows = np.maximum(normed(rows, head[1]), 0)
    return rows @ head[3].weight.detach().double().numpy().T + head[3].bias.detach().double().numpy()


def squared_distance(p, z):
    """‖p̄ − z̄‖² as the first half of Eq. 2 has it."""
    return float(((p / np.linalg.norm(p) - z / np.linalg.norm(z)) ** 2).sum())


def naive(network, follower, views):
    losses = np.zeros(len(views[0]))
    for online, target in ((0, 1), (1, 0)):
        with torch.no_grad():
            mine = network.embed(views[online]).double().numpy()
            theirs = follower.embed(views[target]).double().numpy()
        predicted = two_layers(two_layers(mine, network.heads["projector"]), network.heads["predictor"])
        aims = two_layers(theirs, follower.heads["projector"])
        for place, (p, z) in enumerate(zip(predicted, aims, strict=True)):
            losses[place] += squared_distance(p, z)
    return losses


def test_the_loss_is_the_loop_over_pictures_and_views(begin_followed):
    task, network, frozen_copy = begin_followed(BYOL(**SMALL, momentum=0.5))
    for batch in task.batches(0):
        expected = naive(network, frozen_copy, batch.images.chunk(2))
        assert task.loss(batch).item() == pytest.approx(expected.mean(), rel=1e-3)
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.mul_(1.1).add_(0.01)
        task.after_step()  # From here on the two networks differ.
    told, counts = task.losses(), task.num_examples()
    assert counts == {"light": 13, "dark": 5}
    assert all(0 < loss < 8 for loss in told.values())


def test_the_distance_is_0_for_one_direction_4_for_opposite_ones_whatever_the_length():
    one, across = torch.tensor([[1.0, 2.0], [3.0, -1.0]]), torch.tensor([[-2.0, 1.0], [1.0, 3.0]])
    for other, expected in ((7 * one, 0.0), (-one, 4.0), (across, 2.0)):
        # However small the result, it is a difference of numbers around 2.
        assert distance(one, other).tolist() == pytest.approx([expected, expected], abs=1e-5)


def test_the_target_follows_each_step_and_is_kept_where_asked(begin_followed):
    task, network, frozen_copy = begin_followed(BYOL(**SMALL, momentum=0.75, momentum_encoder="keep"))
    task.loss(next(task.batches(0)))
    weight = network.get_parameter("heads.projector.0.weight")
    before = weight.detach().clone()
    with torch.no_grad():
        weight.add_(1)
    task.after_step()
    after = frozen_copy.get_parameter("heads.projector.0.weight")
    torch.testing.assert_close(after, before + 0.25)
    assert torch.equal(task.keep()["momentum/heads.projector.0.weight"], after)
    assert task.outgoing() == {}
    forgetful, _, _ = begin_followed(BYOL(**SMALL))
    assert forgetful.keep() == {}
