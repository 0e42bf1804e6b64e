"""Pictures scaled down: each pixel the mean of those beneath it, weighed by a triangle, in NumPy."""

import numpy as np
import pytest
import torch

from training.algorithms.augmentations.resizing import ProgressiveResizing, scale_down
from training.models.case_batch import CaseBatch


def weights(before, after):
    """Of each pixel of a row in each new one `(after, before)`: a triangle as wide as two new ones."""
    width = before / after
    centres = (np.arange(after) + 0.5) * width
    triangle = np.clip(1 - np.abs(np.arange(before) + 0.5 - centres[:, None]) / width, 0, None)
    return triangle / triangle.sum(axis=1, keepdims=True)


def scaled(images, size):
    by = weights(images.shape[-1], size)
    return np.einsum("ij,kl,...jl->...ik", by, by, images.numpy().astype(np.float64))


@pytest.fixture
def images():
    return torch.rand(6, 3, 16, 16, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("size", [8, 12, 13])
def test_pictures_are_scaled_with_a_triangle_as_wide_as_two_new_pixels(images, size):
    for given in (images, images.to(memory_format=torch.channels_last)):
        found = scale_down(given, size)
        np.testing.assert_allclose(found.numpy(), scaled(images, size), atol=1e-6)
        assert found.is_contiguous(memory_format=torch.channels_last) == (given is not images)


def test_every_picture_of_a_case_is_scaled_and_nothing_else(images):
    kinds = torch.tensor([[1, 2], [1, -1], [0, 2]])
    context = torch.tensor([[1.0], [2.0], [3.0]])
    found = scale_down(CaseBatch(images.view(3, 2, 3, 16, 16), kinds, context), 12)
    np.testing.assert_allclose(found.images.reshape(6, 3, 12, 12).numpy(), scaled(images, 12), atol=1e-6)
    assert torch.equal(found.kinds, kinds)
    assert torch.equal(found.context, context)


def test_the_first_rounds_are_small():
    config = ProgressiveResizing(rounds=2, image_size=96)
    assert [config.size_in(round_) for round_ in (1, 2, 3, 4)] == [96, 96, None, None]
