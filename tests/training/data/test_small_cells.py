"""Nothing is told of a few patients, nor does it follow from what is told."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from training.data.dataset import Examples
from training.data.small_cells import count_people, suppress_small_cells, unsuppressed

SIZES = st.lists(st.integers(0, 40), max_size=8).map(lambda sizes: np.array(sizes, dtype=np.int64))


def disclosed(sizes, minimum):
    """The values disclosed where each picture is of its own patient."""
    of_each = np.repeat(np.arange(len(sizes)), sizes)
    return suppress_small_cells(of_each, np.arange(len(of_each)), len(sizes), minimum)


def test_by_hand():
    assert disclosed(np.array([30, 12, 0, 9]), 10) == [0]  # 9 left over: 12 is kept back too
    assert disclosed(np.array([30, 12, 6, 9]), 10) == [0, 1]  # 15 are left over
    assert disclosed(np.array([30, 12]), 10) == [0, 1]
    assert disclosed(np.array([30, 1]), 10) == []
    assert disclosed(np.array([9, 9]), 10) == []


@given(SIZES, st.integers(1, 15))
def test_neither_a_part_nor_what_is_left_over_is_small(sizes, minimum):
    told = disclosed(sizes, minimum)
    assert all(sizes[number] >= minimum for number in told)
    rest = sizes.sum() - sizes[told].sum()
    assert rest == 0 or rest >= minimum or not told
    # No more than one is kept back beyond those that are too few.
    assert len(told) >= (sizes >= minimum).sum() - 1


def test_pictures_of_one_patient_count_once():
    of_each = np.array([0, 0, 0, 0, 1, 1, 1, 2])
    people = np.array([0, 0, 1, 2, 3, 4, 5, 5])
    assert count_people(of_each, people, 4).tolist() == [3, 3, 1, 0]
    assert suppress_small_cells(of_each, people, 4, 3) == [1]  # 0 is as small and kept back for 2's sake
    assert suppress_small_cells(of_each, people, 4, 4) == []
    nobody = np.array([], dtype=np.int64)
    assert count_people(nobody, nobody, 2).tolist() == [0, 0]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 20)), max_size=60), st.integers(1, 8))
def test_whoever_is_told_of_is_one_of_several_patients(drawn, minimum):
    of_each, people = np.array(drawn, dtype=np.int64).reshape(-1, 2).T
    told = suppress_small_cells(of_each, people, 5, minimum)
    assert all(len(set(people[of_each == value])) >= minimum for value in told)
    rest = len(set(people[~np.isin(of_each, told)]))
    assert rest == 0 or rest >= minimum or not told


def test_parts_are_the_examples_that_have_the_trait():
    n = 9
    traits = np.stack([np.arange(n) % 2, np.zeros(n, np.int64)], axis=1)
    index = np.arange(n)
    examples = Examples(np.zeros((n, 2, 2, 3), np.uint8), index, index % 2, index * 0, index, traits)
    columns = {"sex": ("female", "male"), "site": ("face",)}
    told = unsuppressed(examples, columns, min_count=4)
    assert set(told) == {("sex", "female"), ("sex", "male"), ("site", "face")}
    np.testing.assert_array_equal(told["sex", "male"], index % 2 == 1)
    some = examples.where(index > 3)  # three women are left and two men
    assert set(unsuppressed(some, columns, min_count=4)) == {("site", "face")}
    bare = Examples(
        *(getattr(examples, name) for name in ("images", "rows", "labels", "subgroups", "lesions"))
    )
    assert unsuppressed(bare, columns, min_count=4) == {}
