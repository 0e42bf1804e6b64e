"""The augment block, on pictures and cases, and progressive resizing."""

import math

import numpy as np
import pytest
import torch

from training.algorithms.augmentations import (
    AugmentConfig,
    ProgressiveResizing,
    augment,
    augment_inputs,
    blur,
    crop,
    flip,
    grey,
    jitter,
    rotate_and_scale,
    scale_down,
    turn_hue,
)
from training.models.classifier import CaseBatch
from training.models.encoder_files import prepare_torchvision


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def pictures(count=8, size=12, seed=3):
    return torch.rand(count, 3, size, size, generator=seeded(seed))


def copies(count):
    """One picture many times: what differs afterwards was drawn for each."""
    return pictures(1).expand(count, -1, -1, -1).clone()


@pytest.mark.parametrize(
    "config",
    [
        AugmentConfig(),
        AugmentConfig(flip=False, rotation=90),
        AugmentConfig(flip=False, scale=0.5),
        AugmentConfig(flip=False, brightness=0.5),
        AugmentConfig(flip=False, contrast=0.5),
        AugmentConfig(flip=False, saturation=0.5),
        AugmentConfig(flip=False, hue=0.2),
        AugmentConfig(flip=False, crop=(0.2, 1.0)),
        AugmentConfig(flip=False, blur_probability=1.0, blur=(5.0, 20.0)),
    ],
)
def test_every_picture_has_a_draw_of_its_own(config):
    changed = augment(copies(32), config, seeded())
    distinct = {picture.numpy().tobytes() for picture in changed}
    assert len(distinct) == 4 if config.flip else len(distinct) > 24


def test_flips_are_mirror_images_each_about_half_of_the_time():
    given = pictures(400, size=4)
    left_right, up_down = 0, 0
    for before, after in zip(given, flip(given, seeded()), strict=True):
        mirrors = {
            (a, b): before.flip([axis for axis, on in ((-1, a), (-2, b)) if on])
            for a in (0, 1)
            for b in (0, 1)
        }
        [(a, b)] = [key for key, mirror in mirrors.items() if torch.equal(after, mirror)]
        left_right, up_down = left_right + a, up_down + b
    # Binomial(400, 1/2): standard deviation 10.
    assert [left_right, up_down] == pytest.approx([200, 200], abs=40)


def angles(count, degrees, seed):
    return (torch.rand(count, generator=seeded(seed)) * 2 - 1) * math.radians(degrees)


def test_a_turned_blob_is_where_trigonometry_puts_it():
    size, count = 33, 16
    y, x = torch.meshgrid(torch.arange(size) - 16.0, torch.arange(size) - 16.0, indexing="ij")
    blob = torch.exp(-((x - 5) ** 2 + y**2) / 4)  # five pixels right of the centre
    turned = rotate_and_scale(blob.expand(count, 3, size, size), 60.0, 0.0, seeded(9))[:, 0]
    mass = turned.sum(dim=(1, 2))
    found = torch.stack([(turned * x).sum(dim=(1, 2)) / mass, (turned * y).sum(dim=(1, 2)) / mass], dim=1)
    expected = 5 * torch.stack([torch.cos(angles(count, 60, 9)), -torch.sin(angles(count, 60, 9))], dim=1)
    torch.testing.assert_close(found, expected, rtol=0, atol=0.05)


def test_a_zoomed_disc_has_the_area_that_the_factor_gives():
    size, count = 65, 16
    y, x = torch.meshgrid(torch.arange(size) - 32.0, torch.arange(size) - 32.0, indexing="ij")
    disc = (x**2 + y**2 < 15**2).float()
    random = seeded(4)
    zoomed = rotate_and_scale(disc.expand(count, 3, size, size), 0.0, 0.3, random)[:, 0]
    random = seeded(4)
    torch.rand(count, generator=random)  # the angles are drawn first
    factors = 1 + (torch.rand(count, generator=random) * 2 - 1) * 0.3
    areas = zoomed.sum(dim=(1, 2)) / disc.sum()
    torch.testing.assert_close(areas, factors**2, rtol=0.02, atol=0)


def test_brightness_contrast_and_saturation_by_hand():
    given = pictures(5) * 0.5 + 0.25
    config = AugmentConfig(flip=False, brightness=0.2, contrast=0.3, saturation=0.4)
    random = seeded(2)
    draws = [(torch.rand(5, generator=random).numpy() * 2 - 1) * reach for reach in (0.2, 0.3, 0.4)]
    brightness, contrast, saturation = (1 + draw[:, None, None, None] for draw in draws)
    luma = np.array([0.299, 0.587, 0.114])[None, :, None, None]

    expected = given.numpy() * brightness
    mean = (expected * luma).sum(axis=1, keepdims=True).mean(axis=(2, 3), keepdims=True)
    expected = mean + (expected - mean) * contrast
    shade = (expected * luma).sum(axis=1, keepdims=True)
    expected = np.clip(shade + (expected - shade) * saturation, 0, 1)
    np.testing.assert_allclose(jitter(given, config, seeded(2)), expected, atol=1e-5)


def test_a_crop_is_the_part_around_its_centre_blown_up():
    images = pictures(1, size=16)
    cut = crop(images, (0.25, 0.25), 1.0, seeded(4))
    # The draws again: the centre of a part half as wide as the picture.
    random = seeded(4)
    torch.rand(1, generator=random)
    torch.rand(1, generator=random)
    x, y = ((torch.rand(1, generator=random).item() * 2 - 1) * 0.5 for _ in range(2))
    left, top = (x + 0.5) * 8, (y + 0.5) * 8
    for row in range(16):
        for column in range(16):
            expected = by_hand(images[0], top + (row + 0.5) / 2 - 0.5, left + (column + 0.5) / 2 - 0.5)
            torch.testing.assert_close(cut[0, :, row, column], expected, atol=1e-5, rtol=0)


def by_hand(picture, y, x):
    """Bilinear, with the border repeated."""
    size = picture.shape[-1] - 1
    top, left = math.floor(y), math.floor(x)
    total = torch.zeros(3)
    for row, tall in ((top, 1 - (y - top)), (top + 1, y - top)):
        for column, wide in ((left, 1 - (x - left)), (left + 1, x - left)):
            total += tall * wide * picture[:, min(max(row, 0), size), min(max(column, 0), size)]
    return total


def test_crops_take_the_shares_and_shapes_that_are_asked_for():
    """On a ramp the range of what is left is the width and the height of the part."""
    ramp = torch.linspace(0, 1, 64)
    across = ramp.expand(400, 3, 64, 64)
    down = ramp.view(64, 1).expand(400, 3, 64, 64)
    widths = np.ptp(crop(across, (0.2, 0.6), 2.0, seeded()).flatten(1).numpy(), axis=1) * 64 / 63
    heights = np.ptp(crop(down, (0.2, 0.6), 2.0, seeded()).flatten(1).numpy(), axis=1) * 64 / 63
    area, ratio = widths * heights, widths / heights
    assert area.min() > 0.17
    assert area.max() < 0.63
    assert np.quantile(area, 0.1) < 0.27
    assert np.quantile(area, 0.9) > 0.53
    assert 0.45 < ratio.min() < 0.6
    assert 1.7 < ratio.max() < 2.2


def test_blur_is_torchvisions():
    prepare_torchvision()
    from torchvision.transforms.v2.functional import gaussian_blur

    images = pictures(2, size=224)
    ours = blur(images, (1.5, 1.5), seeded())
    theirs = gaussian_blur(images, [11, 11], [1.5, 1.5])
    torch.testing.assert_close(ours, theirs, atol=2e-3, rtol=0)
    assert (ours - images).abs().max() > 0.2


def test_hue_keeps_grey_and_luma_and_comes_round():
    images = pictures(4)
    turns = torch.tensor([0.1, 0.25, -0.4, 0.5])
    turned = turn_hue(images, turns)
    torch.testing.assert_close(grey(turned), grey(images), atol=1e-4, rtol=0)
    torch.testing.assert_close(turn_hue(turned, -turns), images, atol=1e-4, rtol=0)
    torch.testing.assert_close(turn_hue(images, torch.ones(4)), images, atol=1e-4, rtol=0)
    shades = grey(images).expand(-1, 3, -1, -1)
    torch.testing.assert_close(turn_hue(shades, turns), shades, atol=1e-3, rtol=0)
    assert (turned - images).abs().max() > 0.1


@pytest.mark.parametrize(
    ("config", "changed"),
    [
        (AugmentConfig(flip=False, brightness=0.9, colour_probability=0.25), 0.25),
        (AugmentConfig(flip=False, grey_probability=0.2), 0.2),
        (AugmentConfig(flip=False, blur_probability=0.5, blur=(5.0, 20.0)), 0.5),
    ],
)
def test_a_probability_is_the_share_of_pictures_that_change(config, changed):
    given = pictures(1500, size=8)
    share = ((augment(given, config, seeded()) - given).abs().amax(dim=(1, 2, 3)) > 0).float().mean().item()
    assert share == pytest.approx(changed, abs=0.05)


@pytest.mark.parametrize(
    "wrong", [{"crop": (0.9, 0.2)}, {"crop": (0, 1)}, {"blur": (2.0, 0.1)}, {"hue": 0.6}]
)
def test_ranges_that_are_none_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        AugmentConfig(**wrong)


CONFIG = AugmentConfig(flip=True, brightness=0.3)
KINDS = torch.tensor([[1, 2], [1, -1], [0, 2]])


def test_pictures_of_cases_change_as_pictures_do():
    images = torch.rand(3, 2, 3, 8, 8, generator=seeded())
    batch = CaseBatch(images, KINDS, torch.zeros(3, 1))
    changed = augment_inputs(batch, CONFIG, seeded())
    expected = augment(images[batch.present], CONFIG, seeded())
    torch.testing.assert_close(changed.images[batch.present], expected)
    assert torch.equal(changed.images[1, 1], images[1, 1])
    assert torch.equal(changed.kinds, KINDS)


def test_features_stay():
    features = torch.rand(3, 5)
    assert augment_inputs(features, CONFIG, seeded()) is features
    batch = CaseBatch(torch.rand(3, 2, 5), KINDS, torch.zeros(3, 1))
    assert augment_inputs(batch, CONFIG, seeded()) is batch


def weights(before, after):
    """Of each pixel of a row in each new one `(after, before)`: a triangle as wide as two new ones."""
    width = before / after
    centres = (np.arange(after) + 0.5) * width
    triangle = np.clip(1 - np.abs(np.arange(before) + 0.5 - centres[:, None]) / width, 0, None)
    return triangle / triangle.sum(axis=1, keepdims=True)


def scaled(images, size):
    by = weights(images.shape[-1], size)
    return np.einsum("ij,kl,...jl->...ik", by, by, images.numpy().astype(np.float64))


@pytest.mark.parametrize("size", [8, 12, 13])
def test_pictures_are_scaled_with_a_triangle_as_wide_as_two_new_pixels(size):
    images = pictures(6, size=16)
    for given in (images, images.to(memory_format=torch.channels_last)):
        found = scale_down(given, size)
        np.testing.assert_allclose(found.numpy(), scaled(images, size), atol=1e-6)
        assert found.is_contiguous(memory_format=torch.channels_last) == (given is not images)


def test_every_picture_of_a_case_is_scaled_and_nothing_else():
    images, context = pictures(6, size=16), torch.tensor([[1.0], [2.0], [3.0]])
    found = scale_down(CaseBatch(images.view(3, 2, 3, 16, 16), KINDS, context), 12)
    np.testing.assert_allclose(found.images.reshape(6, 3, 12, 12).numpy(), scaled(images, 12), atol=1e-6)
    assert torch.equal(found.kinds, KINDS)
    assert torch.equal(found.context, context)


def test_the_first_rounds_are_small():
    config = ProgressiveResizing(rounds=2, image_size=96)
    assert [config.size_in(round_) for round_ in (1, 2, 3, 4)] == [96, 96, None, None]
