import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients.data.errors import PartitionError
from clients.data.partition_rules import NOBODY, Rows, by_name, by_value, dirichlet, iid


def lesions(count: int, seed: int = 0) -> np.ndarray:
    """`count` components of one to three rows: the component of each row."""
    return np.repeat(np.arange(count), np.random.default_rng(seed).integers(1, 4, count))


def whole(component_ids: np.ndarray, holders: np.ndarray) -> bool:
    return all(len(set(holders[component_ids == number])) == 1 for number in set(component_ids.tolist()))


def test_by_value_sorts_the_clients():
    partition = by_value(["b", "a", "b"], column="clinic")
    assert partition.clients == ("a", "b")
    assert partition.holders.tolist() == [1, 0, 1]


def test_by_value_refuses_rows_that_nobody_would_hold():
    with pytest.raises(PartitionError, match="2 of 3 pictures have no clinic"):
        by_value(["b", "", ""], column="clinic")


def test_by_name_keeps_the_order_and_leaves_others_to_nobody():
    partition = by_name(["b", "c", "a"], ["b", "a"])
    assert partition.holders.tolist() == [0, NOBODY, 1]


def test_by_name_refuses_a_client_without_pictures():
    with pytest.raises(PartitionError, match="client b, d of 3 would have no pictures"):
        by_name(["a"], ["a", "b", "d"])


def test_iid_shares_every_split_equally_and_keeps_components_whole():
    component_ids = lesions(600)
    splits = np.where(component_ids % 5 == 0, "test", "train")
    partition = iid(4, Rows(component_ids, component_ids.astype(str), [""] * 1200, splits.tolist()), seed=0)
    assert whole(component_ids, partition.holders)
    assert partition.clients == ("client-0", "client-1", "client-2", "client-3")
    for name in ("train", "test"):
        held = np.bincount(partition.holders[splits == name])
        assert held.max() - held.min() <= 6


def test_a_client_with_nothing_to_train_on_is_refused():
    component_ids, names = np.arange(4), list("abcd")
    with pytest.raises(PartitionError, match="would have no pictures to train on; ask for fewer clients"):
        iid(3, Rows(component_ids, names, [""] * 4, ["train", "train", "test", "test"]), seed=0)
    with pytest.raises(PartitionError, match="would have no pictures; raise `alpha`"):
        dirichlet(5, 0.5, Rows(component_ids, names, ["NV"] * 4, [""] * 4), seed=0)


@given(
    st.sampled_from([100.0, 1.0, 0.5]),
    st.integers(0, 5),
    st.integers(0, 1000),
    st.lists(st.tuples(st.integers(1, 4), st.sampled_from("ABC"), st.sampled_from(["train", "test"])),
             min_size=60, max_size=120),
)  # fmt: skip
def test_dirichlet_parts_each_class_by_its_own_draw(alpha, seed, shuffle, lesions):
    """p_j ~ Dir_N(alpha) for each class j and N = 5 clients, as paper 004 asks of alpha 100, 1.0 and 0.5."""
    component_ids = np.repeat(np.arange(len(lesions)), [size for size, _, _ in lesions])
    names = [f"lesion {number}" for number in component_ids]
    labels = np.array([lesions[number][1] for number in component_ids])
    splits = np.array([lesions[number][2] for number in component_ids])

    def part(order: np.ndarray) -> np.ndarray | None:
        shuffled = [[column[row] for row in order] for column in (names, labels, splits)]
        try:
            return dirichlet(5, alpha, Rows(component_ids[order], *shuffled), seed=seed).holders
        except PartitionError:
            return None

    order = np.random.default_rng(shuffle).permutation(len(names))
    holders, again = part(np.arange(len(names))), part(order)
    if holders is None:
        assert again is None
        return
    assert (holders[order] == again).all()
    assert whole(component_ids, holders)
    for label in set(labels.tolist()):
        key = hashlib.sha256(f"{seed}/dirichlet/{label}".encode()).digest()
        proportions = np.random.default_rng(int.from_bytes(key)).dirichlet([alpha] * 5)
        for split in set(splits[labels == label].tolist()):
            held = holders[(labels == label) & (splits == split)]
            missing = proportions * len(held) - np.bincount(held, minlength=5)
            assert missing.min() >= -4
            assert missing.max() <= 4 * 4


@pytest.mark.parametrize("alpha", [100.0, 1.0, 0.5])
def test_shares_vary_over_seeds_as_a_dirichlet_does(alpha):
    """Var p_k = (1/N)(1 - 1/N) / (N alpha + 1), over 80 draws of five clients' shares of one class."""
    count = 400
    component_ids = np.arange(count)
    rows = Rows(component_ids, component_ids.astype(str), ["NV"] * count, ["train"] * count)
    proportions = []
    for seed in range(80):
        try:
            holders = dirichlet(5, alpha, rows, seed=seed).holders
        except PartitionError:  # a share below one picture: a client without pictures is refused
            continue
        proportions.append(np.bincount(holders, minlength=5) / count)
    told = float(np.var(proportions))
    expected = (1 / 5) * (4 / 5) / (5 * alpha + 1)
    assert 0.7 * expected < told < 1.3 * expected
