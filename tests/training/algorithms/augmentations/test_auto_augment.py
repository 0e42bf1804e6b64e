from collections import Counter

import numpy as np
import pytest
import torch

from training.algorithms.auto_augment import IMAGENET, OPERATIONS, auto_augment, draw_steps
from training.models.encoder_files import prepare_torchvision

prepare_torchvision()
from torchvision.transforms import AutoAugment, AutoAugmentPolicy, InterpolationMode  # noqa: E402
from torchvision.transforms.autoaugment import _apply_op  # noqa: E402
from torchvision.transforms.v2 import functional as v2  # noqa: E402

HEIGHT, WIDTH, BORDER = 17, 23, 40
THEIR_NAMES = {
    "auto-contrast": "AutoContrast",
    "equalize": "Equalize",
    "invert": "Invert",
    "rotate": "Rotate",
    "solarize": "Solarize",
    "colour": "Color",
    "posterize": "Posterize",
    "contrast": "Contrast",
    "sharpness": "Sharpness",
    "shear x": "ShearX",
}
WITHOUT_MAGNITUDE = ("auto-contrast", "equalize", "invert")
OF_EIGHT_BITS = ("equalize", "posterize")
GEOMETRY = ("rotate", "shear x")
THEIRS = AutoAugment(AutoAugmentPolicy.IMAGENET)
SPACE = THEIRS._augmentation_space(10, (HEIGHT, WIDTH))


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def pictures(count=8, height=HEIGHT, width=WIDTH, seed=3):
    """Pictures of 8 bits, darker than bright, and nowhere black or white."""
    values = 10 + 220 * torch.rand(count, 3, height, width, generator=seeded(seed)) ** 2
    return values.round() / 255


def test_the_sub_policies_are_torchvisions():
    ours = [
        tuple(
            (THEIR_NAMES[step.operation], step.probability, step.magnitude)
            if step.operation not in WITHOUT_MAGNITUDE
            else (THEIR_NAMES[step.operation], step.probability, None)
            for step in pair
        )
        for pair in IMAGENET
    ]
    assert ours == THEIRS._get_policies(AutoAugmentPolicy.IMAGENET)
    assert len(IMAGENET) == 25


def theirs(name, picture, index, sign):
    """What torchvision makes of a picture at a magnitude's index, with mirror images beyond the border."""
    magnitudes, signed = SPACE[THEIR_NAMES[name]]
    magnitude = 0.0 if name in WITHOUT_MAGNITUDE else float(magnitudes[index]) * (sign if signed else 1)
    if name in OF_EIGHT_BITS:
        return told(name, (picture * 255).round().to(torch.uint8), magnitude) / 255
    if name == "solarize":
        # Their limits are 255 and down, Pillow's 256 and down; no picture here is white.
        return told(name, picture, min(magnitude / 255 * 256 / 255, 1.0))
    if name == "shear x":
        degrees = [float(np.rad2deg(np.arctan(magnitude))), 0.0]
        where = [BORDER, BORDER]
        return v2.affine(picture, 0.0, [0, 0], 1.0, degrees, InterpolationMode.BILINEAR, None, where)
    return told(name, picture, magnitude)


def told(name, picture, magnitude):
    return _apply_op(picture, THEIR_NAMES[name], magnitude, InterpolationMode.BILINEAR, None)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("name", THEIR_NAMES)
def test_an_operation_at_each_magnitude_is_torchvisions(name, sign):
    images = pictures(10)
    levels = sign * torch.arange(10) / 9
    ours = OPERATIONS[name](images, levels)
    wide = images
    if name in GEOMETRY:
        around = ((0, 0), (0, 0), (BORDER, BORDER), (BORDER, BORDER))
        wide = torch.from_numpy(np.pad(images.numpy(), around, mode="symmetric"))
    expected = torch.stack([theirs(name, one, index, sign) for index, one in enumerate(wide)])
    if name in GEOMETRY:
        expected = expected[:, :, BORDER:-BORDER, BORDER:-BORDER]
    # Their weights of red, green and blue do not add up to 1 by 0.0001.
    torch.testing.assert_close(ours, expected, atol=2e-4, rtol=0)
    assert (ours - images)[4:].abs().amax(dim=(1, 2, 3)).min() > 0.003


def drawn(count, seed):
    """The draws again: sub-policies, what says whether a step is spared, and signs."""
    random = seeded(seed)
    which = torch.randint(25, (count,), generator=random)
    chances = torch.rand(2, count, generator=random)
    return which, chances, torch.rand(2, count, generator=random) < 0.5


def test_a_picture_goes_through_what_torchvision_does_with_the_same_draws(monkeypatch):
    """On pictures that meet no border, whose every value torchvision rounds down to 8 bits in between."""
    images = pictures(300)
    which, chances, positive = drawn(300, 7)
    ours = auto_augment(images, IMAGENET, seeded(7))
    compared = 0
    for place, image in enumerate(images):
        steps = IMAGENET[which[place]]
        if any(step.operation in GEOMETRY for step in steps):
            continue
        draws = (int(which[place]), chances[:, place], positive[:, place].int())
        monkeypatch.setattr(THEIRS, "get_params", lambda number, draws=draws: draws)
        expected = THEIRS((image * 255).round().to(torch.uint8)) / 255
        near = (ours[place] - expected).abs() <= 2.5 / 255
        assert near.float().mean() > 0.97, steps
        compared += 1
    assert compared > 150


def test_sub_policies_are_drawn_uniformly_and_spare_as_many_as_their_probabilities_say():
    count = 20000
    steps = draw_steps(count, IMAGENET, seeded(11))
    names = list(OPERATIONS)
    for place, (kinds, levels) in enumerate(steps):
        expected = Counter()
        for pair in IMAGENET:
            step = pair[place]
            expected[step.operation] += count / 25 * step.probability
            expected["identity"] += count / 25 * (1 - step.probability)
        found = Counter(names[kind] for kind in kinds.tolist())
        assert set(found) == {name for name, times in expected.items() if times}
        # The quantile at 0.9999 of chi-square with 8 or 9 degrees of freedom is at most 34.
        assert sum((found[name] - times) ** 2 / times for name, times in expected.items() if times) < 34
        up, down = (levels > 0).sum().item(), (levels < 0).sum().item()
        assert up + down > count / 4
        assert abs(up - down) < 5 * (up + down) ** 0.5
