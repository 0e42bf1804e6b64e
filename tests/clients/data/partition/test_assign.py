import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients.data.partition_rules import assign, ordered_components

PROPORTIONS = [0.6, 0.1, 0.1, 0.2]


@pytest.mark.parametrize(
    ("sizes", "settled", "receivers"),
    [
        pytest.param([1] * 10, None, [0, 3, 0, 0, 1, 0, 2, 0, 3, 0], id="ten equal ones"),
        pytest.param([6, 1, 1, 2], None, [0, 3, 1, 2], id="a large one is paid for by the next ones"),
        pytest.param([2, 1, 1, 1, 5], [3, *[None] * 4], [3, 0, 0, 0, 0], id="settled ones count as dealt"),
    ],
)
def test_items_by_hand(sizes, settled, receivers):
    assert assign(sizes, PROPORTIONS, settled).tolist() == receivers


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
