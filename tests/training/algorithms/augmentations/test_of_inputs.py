"""Pictures of cases are augmented one by one; features and empty slots stay."""

import torch

from training.algorithms.augmentations.batch import AugmentConfig, augment
from training.algorithms.augmentations.of_inputs import augment_inputs
from training.models.case_batch import CaseBatch

CONFIG = AugmentConfig(flip=True, brightness=0.3)
KINDS = torch.tensor([[1, 2], [1, -1], [0, 2]])


def draws():
    return torch.Generator().manual_seed(0)


def test_pictures_of_cases_change_as_pictures_do():
    images = torch.rand(3, 2, 3, 8, 8, generator=draws())
    batch = CaseBatch(images, KINDS, torch.zeros(3, 1))
    changed = augment_inputs(batch, CONFIG, draws())
    expected = augment(images[batch.present], CONFIG, draws())
    torch.testing.assert_close(changed.images[batch.present], expected)
    assert torch.equal(changed.images[1, 1], images[1, 1])
    assert torch.equal(changed.kinds, KINDS)


def test_pictures_by_themselves_change_as_before():
    images = torch.rand(3, 3, 8, 8, generator=draws())
    torch.testing.assert_close(augment_inputs(images, CONFIG, draws()), augment(images, CONFIG, draws()))


def test_features_stay():
    features = torch.rand(3, 5)
    assert augment_inputs(features, CONFIG, draws()) is features
    batch = CaseBatch(torch.rand(3, 2, 5), KINDS, torch.zeros(3, 1))
    assert augment_inputs(batch, CONFIG, draws()) is batch
