"""SimCLR's loss against naive loops, and the views that contrastive objectives show."""

import math

import numpy as np
import pytest
import torch

from training.algorithms.objectives.byol import BYOL
from training.algorithms.objectives.moco import MoCo
from training.algorithms.objectives.mocov3 import MoCoV3
from training.algorithms.objectives.simclr import SimCLR, nt_xent
from training.models.classifier import to_model_input


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


def colours(picture):
    """The colours of a picture wherever they are, the same however it is mirrored."""
    return picture.flatten(1).T.unique(dim=0)


@pytest.mark.parametrize("objective", [SimCLR(), MoCo(), MoCoV3(), BYOL()], ids=lambda one: one.name)
def test_the_views_of_a_picture_differ_in_more_than_mirroring(begin_followed, work_of, objective):
    task, *_ = begin_followed(objective)
    examples = work_of("north", "0-pretrain").examples
    for batch in task.batches(0):
        pictures = to_model_input(examples.batch(batch.positions), torch.device("cpu"))
        first, second = batch.images.chunk(2)
        for one, other, picture in zip(first, second, pictures, strict=True):
            sets = [colours(shown) for shown in (one, other, picture)]
            for place, left in enumerate(sets):
                assert not any(torch.equal(left, right) for right in sets[place + 1 :])
