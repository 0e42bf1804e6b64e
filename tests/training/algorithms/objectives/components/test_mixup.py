"""Mixup: mixtures of pictures and of the pictures of cases, as the equation has them, in NumPy."""

import numpy as np
import pytest
import torch

from training.algorithms.objectives.base import Batch
from training.algorithms.objectives.components.mixup import mix
from training.models.case_batch import CaseBatch

POSITIONS = np.array([11, 5, 7, 3, 2, 13])
SHARE = 0.75


class Drawn:
    """A generator that draws what a test says, and notes what it was asked for."""

    def __init__(self, share, order):
        self.share, self.order, self.asked = share, np.array(order), []

    def beta(self, a, b):
        self.asked.append((a, b))
        return self.share

    def permutation(self, count):
        assert count == len(self.order)
        return self.order


def pictures(*shape):
    return torch.rand(*shape, 3, 4, 4, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("share", [SHARE, 1 - SHARE])
def test_pictures_and_labels_are_mixed_with_those_of_a_permutation_by_one_draw(share):
    images = pictures(4)
    random = Drawn(share, [2, 0, 3, 1])
    before = images.clone()
    mixed = mix(Batch(images, POSITIONS[:4]), 0.4, random)
    assert random.asked == [(0.4, 0.4)]
    shown = images.numpy()
    expected = SHARE * shown + (1 - SHARE) * shown[[2, 0, 3, 1]]
    np.testing.assert_allclose(mixed.images.numpy(), expected, rtol=1e-6)
    np.testing.assert_array_equal(mixed.positions, POSITIONS[:4])
    np.testing.assert_array_equal(mixed.partners, POSITIONS[[2, 0, 3, 1]])
    assert mixed.shares.tolist() == [SHARE] * 4
    assert torch.equal(images, before)


def test_of_cases_only_those_of_the_same_kinds_in_the_same_slots_are_mixed():
    kinds = torch.tensor([[1, 2], [1, 2], [2, 1], [1, -1], [1, -1], [2, -1]])
    images = pictures(6, 2)
    context = torch.tensor([[70.0], [np.nan], [3.0], [4.0], [5.0], [6.0]])
    order = [1, 2, 0, 4, 3, 3]
    mixed = mix(Batch(CaseBatch(images, kinds, context), POSITIONS), 0.4, Drawn(SHARE, order))
    alike = np.array([True, False, False, True, True, False])
    np.testing.assert_array_equal(mixed.shares.numpy(), np.where(alike, SHARE, 1))
    shown = images.numpy()
    expected = np.where(alike[:, None, None, None, None], SHARE * shown + (1 - SHARE) * shown[order], shown)
    np.testing.assert_allclose(mixed.images.images.numpy(), expected, rtol=1e-6)
    assert torch.equal(mixed.images.images[~alike], images[~alike])
    assert torch.equal(mixed.images.kinds, kinds)
    np.testing.assert_array_equal(mixed.images.context.numpy(), context.numpy())
    np.testing.assert_array_equal(mixed.partners, POSITIONS[order])


def test_small_alphas_hardly_mix_and_large_ones_mix_evenly():
    def shares(alpha):
        random = np.random.default_rng(0)
        batch = Batch(pictures(2), POSITIONS[:2])
        return np.array([float(mix(batch, alpha, random).shares[0]) for _ in range(300)])

    little, one, much = shares(0.1), shares(1.0), shares(32.0)
    assert (little >= 0.5).all()
    assert (little > 0.99).mean() > 0.5
    assert one.mean() == pytest.approx(0.75, abs=0.03)  # of the larger of two parts of a stick
    assert much.mean() < 0.56
    assert np.isfinite(shares(1e-6)).all()
