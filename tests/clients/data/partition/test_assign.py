import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from clients.data.partition.rules import assign, ordered_components

PROPORTIONS = [0.6, 0.1, 0.1, 0.2]


def test_ten_equal_items_by_hand():
    assert assign([1] * 10, PROPORTIONS).tolist() == [0, 3, 0, 0, 1, 0, 2, 0, 3, 0]


def test_a_large_item_is_paid_for_by_the_next_ones():
    assert assign([6, 1, 1, 2], PROPORTIONS).tolist() == [0, 3, 1, 2]


def test_settled_items_count_as_dealt():
    assert assign([2, 1, 1, 1, 5], PROPORTIONS, [3, None, None, None, None]).tolist() == [3, 0, 0, 0, 0]


def test_nothing_goes_to_a_share_of_zero():
    assert 1 not in assign(list(range(1, 40)), [0.5, 0.0, 0.5])


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=80),
    st.lists(st.floats(0.01, 1), min_size=1, max_size=6),
)
def test_every_prefix_is_shared_to_within_a_few_items(sizes, raw):
    proportions = np.array(raw) / sum(raw)
    receivers = assign(sizes, proportions)
    assigned = np.cumsum(np.eye(len(proportions))[receivers] * np.array(sizes)[:, None], axis=0)
    wanted = np.cumsum(sizes)[:, None] * proportions
    # Nobody gets more than what was missing plus the item; so nobody lacks more than all those surpluses.
    assert (assigned - wanted).max() <= max(sizes)
    assert (wanted - assigned).max() <= max(sizes) * (len(proportions) - 1)


def test_seed_and_purpose_change_the_order():
    def names(seed: int, purpose: str) -> list[str]:
        rows = [f"row {row}" for row in range(20)]
        items = ordered_components(np.arange(20), rows, [("",)] * 20, seed=seed, purpose=purpose)
        return [item.name for item in items]

    assert names(0, "split") == names(0, "split")
    assert len({tuple(names(seed, purpose)) for seed in (0, 1) for purpose in ("split", "partition")}) == 4


def test_a_component_belongs_to_the_stratum_of_most_of_its_rows():
    items = ordered_components(np.zeros(5, dtype=np.int64), list("abcde"),
                   [("x",), ("y",), ("y",), ("x",), ("z",)],
                   seed=0, purpose="")  # fmt: skip
    assert [item.stratum for item in items] == [("x",)]
