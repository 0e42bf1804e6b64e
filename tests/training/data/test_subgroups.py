import numpy as np
import pytest
import torch

from training.data.dataset import Examples
from training.data.subgroups import UNDECLARED, count_by_subgroup, in_subgroup, name_losses

NAMES = ("light", "medium", "dark")
MEMBERS = np.array([2, -1, 0, 2, 2, -1, 0])


@pytest.fixture
def examples():
    images = np.zeros((7, 2, 2, 3), dtype=np.uint8)
    return Examples(images, np.arange(7), np.arange(7) % 2, MEMBERS, np.arange(7))


def test_pictures_are_counted_by_name_and_absent_subgroups_are_left_out(examples):
    assert count_by_subgroup(examples, NAMES) == {"light": 2, "dark": 3, "undeclared": 2}
    assert count_by_subgroup(examples.where(MEMBERS == -2), NAMES) == {}
    assert count_by_subgroup(examples.where(MEMBERS == -1), ()) == {"undeclared": 2}


@pytest.mark.parametrize(
    ("name", "rows"), [("dark", [0, 3, 4]), ("light", [2, 6]), ("medium", []), (UNDECLARED, [1, 5])]
)
def test_the_examples_of_a_subgroup(examples, name, rows):
    assert in_subgroup(examples, NAMES, name).rows.tolist() == rows


def test_losses_are_means_and_what_was_not_drawn_has_none():
    sums, drawn = torch.tensor([3.0, 0.0, 1.0, 0.5]), torch.tensor([4.0, 0.0, 5.0, 1.0])
    assert name_losses(sums, drawn, NAMES) == pytest.approx({"light": 0.75, "dark": 0.2, "undeclared": 0.5})
