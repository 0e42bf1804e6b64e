import pytest
import torch

from tests.closeness import assert_close_in_norm
from training.algorithms.augmentation_operations import (
    apply_each,
    apply_in_turn,
    brightness,
    identity,
    invert,
    rotate,
)

OPERATIONS = (identity, invert, brightness, rotate)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def pictures(count=8, height=5, width=7):
    return torch.rand(count, 3, height, width, generator=seeded(3))


def draws(count, seed):
    random = seeded(seed)
    kinds = torch.randint(len(OPERATIONS), (count,), generator=random)
    return kinds, torch.rand(count, generator=random) * 2 - 1


@pytest.mark.parametrize("count", [1, 2, 40])
def test_each_picture_goes_through_its_own_operation_whoever_is_beside_it(count):
    images = pictures(count)
    kinds, levels = draws(count, 0)
    alone = [OPERATIONS[kinds[at]](images[at : at + 1], levels[at : at + 1]) for at in range(count)]
    made = apply_each(images, kinds, levels, OPERATIONS)
    assert_close_in_norm(made, torch.cat(alone))


def test_steps_follow_one_another():
    images, level = torch.full((1, 3, 2, 2), 0.2), torch.tensor([1.0])
    bright_then_inverted = [(torch.tensor([2]), level), (torch.tensor([1]), level)]
    # 1.9 times 0.2 is 0.38, which inverted is 0.62; the other way 0.8 times 1.9 is cut off at 1.
    for steps, expected in ((bright_then_inverted, 0.62), (bright_then_inverted[::-1], 1.0)):
        torch.testing.assert_close(
            apply_in_turn(images, steps, OPERATIONS), torch.full_like(images, expected)
        )


def test_a_step_is_asked_for_when_its_turn_comes():
    told = []
    watched = (lambda images, levels: told.append("applied") or images,)

    def steps():
        for _ in range(2):
            told.append("drawn")
            yield torch.zeros(1, dtype=torch.long), torch.zeros(1)

    apply_in_turn(pictures(1), steps(), watched)
    assert told == ["drawn", "applied", "drawn", "applied"]
