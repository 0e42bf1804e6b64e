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
