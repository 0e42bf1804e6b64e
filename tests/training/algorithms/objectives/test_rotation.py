"""Rotation: the four turns, and the loss over them."""

import numpy as np
import pytest
import torch

from training.algorithms.objectives.rotation import Rotation


def test_the_loss_is_the_mean_cross_entropy_of_all_four_turns(begin_unlabelled):
    task, network = begin_unlabelled(Rotation(batch_size=6))
    network.eval()
    batch = next(iter(task.batches(0)))
    told = task.loss(batch).item()
    total = 0.0
    for turn in range(4):
        turned = np.rot90(batch.images.numpy(), turn, axes=(2, 3)).copy()
        with torch.no_grad():
            embedding = network.embed(torch.from_numpy(turned))
            logits = network.heads["turns"](embedding).double().numpy()
        shifted = logits - logits.max(axis=1, keepdims=True)
        total += (np.log(np.exp(shifted).sum(axis=1)) - shifted[:, turn]).mean() / 4
    assert told == pytest.approx(total, rel=1e-5)


def test_all_pictures_count_once_by_subgroup(begin_unlabelled):
    task, _ = begin_unlabelled(Rotation(batch_size=6))
    for batch in task.batches(0):
        task.loss(batch)
    assert task.num_examples() == {"light": 13, "dark": 5}
    assert set(task.losses()) == {"light", "dark"}
    assert all(loss > 0 for loss in task.losses().values())


def test_it_learns_which_way_up_a_picture_is(begin_unlabelled, dataset):
    """On pictures that are bright above and dark below; a loss of log 4 would be guessing."""
    given = dataset.examples("north", "train")
    images = np.zeros_like(given.images)
    images[:, : images.shape[1] // 2] = 220
    images += np.random.default_rng(0).integers(0, 30, images.shape, dtype=np.uint8)
    examples = type(given)(images, given.rows, given.labels, given.subgroups, given.lesions)
    task, network = begin_unlabelled(Rotation(batch_size=9), examples=examples)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    losses = []
    for epoch in range(15):
        for batch in task.batches(epoch):
            optimizer.zero_grad()
            loss = task.loss(batch)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert losses[0] > 1.0
    assert losses[-1] < 0.3
