"""Nothing is told of a few pictures, nor does it follow from what is told."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from training.data.dataset import Examples
from training.data.small_cells import suppress_small_cells, unsuppressed

SIZES = st.lists(st.integers(0, 40), max_size=8).map(lambda sizes: np.array(sizes, dtype=np.int64))


def test_by_hand():
    assert suppress_small_cells(np.array([30, 12, 0, 9]), 10) == [0]  # 9 left over: 12 is kept back too
    assert suppress_small_cells(np.array([30, 12, 6, 9]), 10) == [0, 1]  # 15 are left over
    assert suppress_small_cells(np.array([30, 12]), 10) == [0, 1]
    assert suppress_small_cells(np.array([30, 1]), 10) == []
    assert suppress_small_cells(np.array([9, 9]), 10) == []


@given(SIZES, st.integers(1, 15))
def test_neither_a_part_nor_what_is_left_over_is_small(sizes, minimum):
    told = suppress_small_cells(sizes, minimum)
    assert all(sizes[number] >= minimum for number in told)
    rest = sizes.sum() - sizes[told].sum()
    assert rest == 0 or rest >= minimum or not told
    # No more than one is kept back beyond those that are too few.
    assert len(told) >= (sizes >= minimum).sum() - 1


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
