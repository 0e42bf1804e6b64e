"""Cells: confusion matrices of the pictures of a block that share a trait.

Paired counts of two models' answers, against counting one picture after another.
"""

import numpy as np
import pytest

from registry.bundle.counting import Block, count
from registry.bundle.counts import name_of_array
from registry.bundle.errors import CountsError
from registry.bundle.lesion_counts import PairedCounts

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
    np.testing.assert_array_equal(counted(predictions).cells[FEMALE].confusion, expected)


def test_cells_travel_with_their_block_and_add_up(predictions):
    first, second = counted(predictions), counted(predictions, 2, 20)
    del second.cells[MALE]
    arrays = first.to_arrays()
    assert all(array.dtype == np.int32 for array in arrays.values())
    total = Block.from_arrays(arrays) + Block.from_arrays(second.to_arrays())
    assert set(total.cells) == {FEMALE, MALE, ALL}
    for trait in (FEMALE, ALL):
        np.testing.assert_array_equal(
            total.cells[trait].confusion, first.cells[trait].confusion + second.cells[trait].confusion
        )
    np.testing.assert_array_equal(total.cells[MALE].confusion, first.cells[MALE].confusion)


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


PAIRED_MALIGNANT = np.array([True, False, True])


def drawn(n, seed):
    """Labels, two models' answers and lesions of n pictures."""
    random = np.random.default_rng(seed)
    labels, before, after = random.integers(0, 3, (3, n))
    return labels, before, after, random.integers(0, n // 2, n)


def one_by_one(labels, before, after, lesions):
    """The same counts, by loops."""
    rows = np.zeros((5, 4), dtype=int)
    of_lesion = {}
    for label, first, second, lesion in zip(labels, before, after, lesions, strict=True):
        malignant = PAIRED_MALIGNANT[label]
        right = {label: (first == label, second == label)}
        right[3 if malignant else 4] = (
            PAIRED_MALIGNANT[first] == malignant,
            PAIRED_MALIGNANT[second] == malignant,
        )
        for row, (was, is_) in right.items():
            rows[row] += (1, is_ and not was, was and not is_, 0)
            of_lesion[row, lesion] = of_lesion.get((row, lesion), 0) + 1
    for (row, _), n in of_lesion.items():
        rows[row, 3] += n**2
    return rows


def test_each_row_counts_what_changes():
    parts = [drawn(60, seed) for seed in (0, 1)]
    counted = [PairedCounts.count(*part, PAIRED_MALIGNANT) for part in parts]
    for part, found in zip(parts, counted, strict=True):
        assert (found.to_array() == one_by_one(*part)).all()
    together = counted[0] + counted[1]
    assert (together.to_array() == sum(one_by_one(*part) for part in parts)).all()
    assert (PairedCounts.zeros(3) + counted[0]).to_array().tolist() == counted[0].to_array().tolist()
    assert together.malignant == 3
    assert together.n[together.classes].sum() == 120


def test_what_was_sent_is_read_again_and_what_nobody_counts_is_refused():
    array = PairedCounts.count(*drawn(40, 2), PAIRED_MALIGNANT).to_array().astype(np.int32)
    assert (PairedCounts.from_array(array, 3).to_array() == array).all()
    for change, match in (
        ((0, 1, 10_000), "more changes than pictures"),
        ((0, 1, -1), "fewer than none"),
        ((0, 3, 0), "more changes than pictures"),
        ((3, 0, array[3, 0] + 1), "pictures by class and"),
    ):
        row, column, value = change
        broken = array.copy()
        broken[row, column] = value
        if column == 0:
            broken[row, 3] += 10
        with pytest.raises(CountsError, match=match):
            PairedCounts.from_array(broken, 3)
    with pytest.raises(CountsError, match="whole numbers of shape"):
        PairedCounts.from_array(array.astype(np.float32), 3)
    with pytest.raises(CountsError, match="whole numbers of shape"):
        PairedCounts.from_array(array, 4)
