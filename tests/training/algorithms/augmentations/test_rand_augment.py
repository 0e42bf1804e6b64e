from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from training.algorithms.rand_augment import OPERATIONS, RandAugmentConfig, cut_out, draw_levels, rand_augment
from training.models.encoder_files import prepare_torchvision

prepare_torchvision()
from torchvision.transforms import InterpolationMode  # noqa: E402
from torchvision.transforms.v2 import functional as theirs  # noqa: E402

LEVELS = (-1.0, -0.7, -0.31, 0.05, 0.2, 0.6, 0.93)
WITHOUT_LEVEL = ("auto-contrast", "equalize")
BORDER = 40


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def pictures(count=8, height=17, width=23, seed=3):
    """Pictures of 8 bits, darker than bright, and nowhere black or white."""
    values = 10 + 220 * torch.rand(count, 3, height, width, generator=seeded(seed)) ** 2
    return values.round() / 255


def copies(count, seed=5):
    """One picture many times: what differs afterwards was drawn for each."""
    return torch.rand(1, 3, 7, 6, generator=seeded(seed)).expand(count, -1, -1, -1).clone()


def in_bytes(operation):
    """What torchvision makes of a picture of 8 bits."""
    return lambda picture, level: operation((picture * 255).round().to(torch.uint8), level) / 255


THEIR_COLOURS = {
    "identity": lambda picture, level: picture,
    "auto-contrast": lambda picture, level: theirs.autocontrast(picture),
    "equalize": in_bytes(lambda picture, level: theirs.equalize(picture)),
    "solarize": lambda picture, level: theirs.solarize(picture, 256 / 255 * (1 - abs(level))),
    "colour": lambda picture, level: theirs.adjust_saturation(picture, 1 + 0.9 * level),
    "posterize": in_bytes(lambda picture, level: theirs.posterize(picture, round(8 - 4 * abs(level)))),
    "contrast": lambda picture, level: theirs.adjust_contrast(picture, 1 + 0.9 * level),
    "brightness": lambda picture, level: theirs.adjust_brightness(picture, 1 + 0.9 * level),
    "sharpness": lambda picture, level: theirs.adjust_sharpness(picture, 1 + 0.9 * level),
}


def affine(picture, *, translate=(0, 0), shear=(0, 0), centre=None):
    """Shear in pixels a pixel; torchvision takes degrees."""
    degrees = [float(np.rad2deg(np.arctan(one))) for one in shear]
    return theirs.affine(
        picture, 0.0, list(translate), 1.0, degrees, InterpolationMode.BILINEAR, None, centre
    )


# Of pictures 17 pixels high and 23 wide, with BORDER pixels of their mirror images around them.
THEIR_GEOMETRY = {
    "rotate": lambda picture, level: theirs.rotate(picture, 30 * level, InterpolationMode.BILINEAR),
    "shear x": lambda picture, level: affine(picture, shear=(0.3 * level, 0), centre=[BORDER, BORDER]),
    "shear y": lambda picture, level: affine(picture, shear=(0, 0.3 * level), centre=[BORDER, BORDER]),
    "translate x": lambda picture, level: affine(picture, translate=(150 / 331 * 23 * level, 0)),
    "translate y": lambda picture, level: affine(picture, translate=(0, 150 / 331 * 17 * level)),
}


@pytest.mark.parametrize("name", THEIR_COLOURS)
def test_colours_are_torchvisions(name):
    images = pictures(len(LEVELS))
    ours = OPERATIONS[name](images, torch.tensor(LEVELS))
    expected = torch.stack(
        [THEIR_COLOURS[name](one, level) for one, level in zip(images, LEVELS, strict=True)]
    )
    # Their weights of red, green and blue do not add up to 1 by 0.0001.
    torch.testing.assert_close(ours, expected, atol=2e-4, rtol=0)
    far = torch.tensor(LEVELS).abs() > 0.3
    assert name == "identity" or (ours - images)[far].abs().amax(dim=(1, 2, 3)).min() > 0.003


@pytest.mark.parametrize("name", THEIR_GEOMETRY)
def test_geometry_is_torchvisions_on_pictures_that_go_on_as_their_mirror_images(name):
    images = pictures(len(LEVELS))
    around = ((0, 0), (0, 0), (BORDER, BORDER), (BORDER, BORDER))
    wide = torch.from_numpy(np.pad(images.numpy(), around, mode="symmetric"))
    changed = [THEIR_GEOMETRY[name](one, level) for one, level in zip(wide, LEVELS, strict=True)]
    expected = torch.stack(changed)[:, :, BORDER:-BORDER, BORDER:-BORDER]
    ours = OPERATIONS[name](images, torch.tensor(LEVELS))
    torch.testing.assert_close(ours, expected, atol=1e-4, rtol=0)
    assert (ours - images).abs().amax(dim=(1, 2, 3)).min() > 1e-2


def test_equalize_by_hand():
    # Red has 255 pixels at 10, 256 at 20 and 257 at 200: s = (768 - 257) // 255 = 2, so that 10 becomes
    # (0 + 1) // 2 = 0, 20 becomes (255 + 1) // 2 = 128 and 200 becomes (511 + 1) // 2 = 256, at most 255.
    # Green has one pixel below its highest value and blue none: s = 0, and both stay.
    red = torch.tensor([10.0] * 255 + [20.0] * 256 + [200.0] * 257)
    green = torch.tensor([7.0] + [90.0] * 767)
    blue = torch.full((768,), 33.0)
    images = torch.stack([red, green, blue]).view(1, 3, 24, 32) / 255
    expected = torch.stack([torch.tensor([0.0] * 255 + [128.0] * 256 + [255.0] * 257), green, blue])
    ours = OPERATIONS["equalize"](images, torch.zeros(1))
    torch.testing.assert_close(ours, expected.view(1, 3, 24, 32) / 255)


@pytest.mark.parametrize("name", ["equalize", "posterize"])
def test_a_value_counts_as_the_nearest_of_eight_bits(name):
    exact, levels = pictures(), torch.ones(8)
    beside = exact + 0.4 / 255 * torch.where(torch.rand(exact.shape, generator=seeded()) < 0.5, 1, -1)
    torch.testing.assert_close(OPERATIONS[name](beside, levels), OPERATIONS[name](exact, levels))


def test_auto_contrast_keeps_a_channel_of_one_value():
    images = pictures()
    images[:, 1] = 0.4
    ours = OPERATIONS["auto-contrast"](images, torch.zeros(8))
    assert torch.equal(ours[:, 1], images[:, 1])
    assert torch.equal(ours[:, 0].amin(dim=(1, 2)), torch.zeros(8))
    assert torch.equal(ours[:, 0].amax(dim=(1, 2)), torch.ones(8))


def operations_drawn(images, changed, level):
    """The name of what changed each of the copies by one operation, and its sign where it matters."""
    found = {}
    for name, operation in OPERATIONS.items():
        for sign in (1.0, -1.0):
            made = operation(images[:1], torch.tensor([sign * level]))
            same = (changed - made).abs().amax(dim=(1, 2, 3)) < 1e-6
            for place in same.nonzero().flatten().tolist():
                assert found.get(place, (name,))[0] == name
                found[place] = (name, sign) if place not in found else (name, 0.0)
    assert len(found) == len(images)
    return [found[place] for place in range(len(images))]


def chi_square(counts, cells):
    """The statistic of counts against an equal share for each of `cells` cells."""
    expected = sum(counts.values()) / cells
    return sum((counts.get(cell, 0) - expected) ** 2 for cell in counts) / expected + expected * (
        cells - len(counts)
    )


def test_operations_are_drawn_uniformly_with_either_sign_and_independently_of_neighbours():
    images = copies(5600)
    changed = rand_augment(images, RandAugmentConfig(operations=1, magnitude=15), seeded())
    drawn = operations_drawn(images, changed, 0.5)
    names = [name for name, _ in drawn]
    # Quantiles at 0.9999 of chi-square with 13 and 195 degrees of freedom: 42 and 278.
    assert chi_square(Counter(names), 14) < 42
    assert chi_square(Counter(zip(names[::2], names[1::2], strict=True)), 196) < 278
    signs = Counter(drawn)
    signed = {name for name, sign in drawn if sign}
    assert signed == set(OPERATIONS) - {"identity", "solarize", "posterize", *WITHOUT_LEVEL}
    # Binomial(400, 1/2) about: standard deviation 10.
    for name in signed:
        assert abs(signs[name, 1.0] - signs[name, -1.0]) < 90


def test_a_level_is_the_magnitudes_share_of_thirty_with_a_random_sign():
    levels = draw_levels(1000, RandAugmentConfig(magnitude=12), seeded())
    assert set(levels.tolist()) == {float(torch.tensor(0.4)), -float(torch.tensor(0.4))}
    assert (levels > 0).sum().item() == pytest.approx(500, abs=80)


def test_a_random_level_is_uniform_up_to_the_magnitudes_share():
    levels = draw_levels(4000, RandAugmentConfig(magnitude=12, random_magnitude=True), seeded()).numpy()
    assert np.abs(levels).max() <= 0.4
    np.testing.assert_allclose(
        np.quantile(levels, [0.1, 0.25, 0.5, 0.75, 0.9]), [-0.32, -0.2, 0, 0.2, 0.32], atol=0.03
    )


def test_cutout_is_a_grey_square_cut_off_at_the_border():
    images = torch.ones(4000, 3, 20, 30)
    cut = cut_out(images, 0.5, seeded()) == 0.5
    rows, columns = cut.any(dim=3, keepdim=True), cut.any(dim=2, keepdim=True)
    assert torch.equal(cut, rows & columns)
    assert torch.equal(cut[:, :1].expand_as(cut), cut)
    heights, widths = (some[:, 0].flatten(1).sum(dim=1) for some in (rows, columns))
    assert (heights.max(), widths.max()) == (10, 10)
    assert heights.min() >= 4
    # A side a of a picture's side 1 covers a - a^2 / 4 of it on the average.
    assert heights.float().mean().item() == pytest.approx(20 * (0.5 - 0.25 / 4), abs=0.2)
    assert widths.float().mean().item() == pytest.approx(30 * (1 / 3 - 1 / 36), abs=0.2)
    inside = (heights == 10) & (widths == 10)
    # The centre may come half a pixel nearer to the border before a pixel is lost.
    assert inside.float().mean().item() == pytest.approx(11 / 20 * 21 / 30, abs=0.03)


@given(
    shape=st.tuples(st.integers(1, 20), st.just(3), st.integers(1, 9), st.integers(1, 9)),
    magnitude=st.floats(0, 30),
    random_magnitude=st.booleans(),
    cutout=st.floats(0, 1),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    seed=st.integers(0, 2**32),
)
def test_any_batch_keeps_its_shape_its_kind_and_its_range(
    shape, magnitude, random_magnitude, cutout, dtype, seed
):
    config = RandAugmentConfig(
        operations=3, magnitude=magnitude, random_magnitude=random_magnitude, cutout=cutout
    )
    images = torch.rand(shape, generator=seeded(seed), dtype=dtype)
    changed = rand_augment(images, config, seeded(seed + 1))
    assert (changed.shape, changed.dtype) == (images.shape, dtype)
    assert changed.isfinite().all()
    assert changed.min() >= 0
    assert changed.max() <= 1
