"""Cells: confusion matrices of the pictures of a block that share a trait."""

import numpy as np
import pytest

from registry.bundle.counts.counting import Block, count
from registry.bundle.counts.counts import name_of_array
from registry.bundle.errors import CountsError

MALIGNANT = np.array([True, False, False])
FEMALE, MALE, ALL = ("sex", "female"), ("sex", "male"), ("site", "head/neck: left")


def counted(predictions, seed=1, n=50):
    probabilities, labels = predictions(seed, n, 3)
    women = np.arange(n) % 3 == 0
    parts = {FEMALE: women, MALE: ~women, ALL: np.ones(n, bool)}
    return count(
        probabilities,
        labels,
        malignant=MALIGNANT,
        lesions=np.arange(n) // 2,
        parts=parts,
    )


def test_a_cell_counts_its_pictures(predictions):
    probabilities, labels = predictions(1, 50, 3)
    expected = np.zeros((3, 3), int)
    for place in range(0, 50, 3):
        expected[labels[place], probabilities[place].argmax()] += 1
    np.testing.assert_array_equal(counted(predictions).cells[FEMALE].point.confusion, expected)


def test_cells_travel_with_their_block_and_add_up(predictions):
    first, second = counted(predictions), counted(predictions, 2, 20)
    del second.cells[MALE]
    arrays = first.to_arrays()
    assert all(array.dtype == np.int32 for array in arrays.values())
    total = Block.from_arrays(arrays) + Block.from_arrays(second.to_arrays())
    assert set(total.cells) == {FEMALE, MALE, ALL}
    for trait in (FEMALE, ALL):
        np.testing.assert_array_equal(
            total.cells[trait].to_array(), first.cells[trait].to_array() + second.cells[trait].to_array()
        )
    np.testing.assert_array_equal(total.cells[MALE].to_array(), first.cells[MALE].to_array())


def test_what_is_no_part_of_the_block_is_refused(predictions):
    arrays = counted(predictions).to_arrays()
    name = name_of_array(FEMALE)
    for spoilt in (
        arrays[name] + arrays["confusion"],
        arrays[name] - arrays["confusion"] - 1,
        arrays[name][1:],
        arrays[name].astype(float),
    ):
        with pytest.raises(CountsError, match="cell:sex:female"):
            Block.from_arrays({**arrays, name: spoilt})
    with pytest.raises(CountsError, match="should be `cell:<column>:<value>`"):
        Block.from_arrays({**arrays, "cell:sex": arrays[name]})
