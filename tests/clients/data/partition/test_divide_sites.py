from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients.data.errors import PartitionError
from clients.data.partition_roles import apportion, divide_sites
from clients.data.partition_rules import Partition, Rows, by_value

HAM10000 = {"rosendahl": 2259, "vidir_modern": 3363, "vidir_molemax": 3954, "vienna_dias": 439}


def test_the_clinics_of_ham10000_and_the_sources_of_skin_fl():
    assert apportion(list(HAM10000.values()), 10) == [2, 3, 4, 1]
    # ISIC 2019, HAM10000, Derm7pt and PAD-UFES-20: the paper's 5, 3, 1 and 1.
    assert apportion([12253, 8012, 784, 1839], 10) == [5, 3, 1, 1]


def test_the_next_client_counts_in_the_average_and_the_first_site_wins_a_tie():
    assert apportion([10, 6], 3) == [2, 1]
    assert apportion([10, 6], 4) == [3, 1]  # 10 / 3 > 6 / 2, although 6 / 1 > 10 / 2
    assert apportion([4, 8, 8], 4) == [1, 2, 1]
    assert apportion([0, 0], 3) == [2, 1]


@given(st.lists(st.integers(1, 500), min_size=1, max_size=6), st.integers(0, 12))
def test_no_further_client_would_have_been_larger_elsewhere(pictures, further):
    """D'Hondt: every n_s / k_s of a divided site is at least every n_t / (k_t + 1)."""
    parts = apportion(pictures, len(pictures) + further)
    assert sum(parts) == len(pictures) + further
    taken = [Fraction(held, part) for held, part in zip(pictures, parts, strict=True) if part > 1]
    refused = [Fraction(held, part + 1) for held, part in zip(pictures, parts, strict=True)]
    assert min(parts) >= 1
    assert not taken or min(taken) >= max(refused)


def divided(
    values: list[str], count: int, component_ids: np.ndarray, labels: list[str], splits: list[str]
) -> Partition:
    names = [f"lesion {number}" for number in component_ids]
    rows = Rows(component_ids, names, labels, splits)
    return divide_sites(by_value(values, column="clinic"), count, rows, seed=0)


def test_a_divided_site_is_numbered_and_the_others_keep_their_names():
    values = ["big"] * 40 + ["a"] * 2 + ["z"] * 2
    partition = divided(values, 13, np.arange(44), ["NV"] * 44, ["train"] * 44)
    assert partition.clients == ("a", *(f"big-{number:02d}" for number in range(11)), "z")
    assert set(partition.holders[:40].tolist()) == set(range(1, 12))
    assert partition.holders[40:].tolist() == [0, 0, 12, 12]


def test_sites_are_measured_by_their_training_pictures():
    values = ["a"] * 10 + ["b"] * 6
    splits = ["train"] * 3 + ["test"] * 7 + ["train"] * 6
    assert divided(values, 3, np.arange(16), ["NV"] * 16, splits).clients == ("a", "b-0", "b-1")
    assert divided(values, 3, np.arange(16), ["NV"] * 16, [""] * 16).clients == ("a-0", "a-1", "b")


def test_single_pictures_are_dealt_evenly_in_every_split_and_class():
    random = np.random.default_rng(0)
    labels = random.choice(["NV", "MEL", "DF", ""], 900, p=[0.7, 0.2, 0.02, 0.08])
    splits = random.choice(["train", "test"], 900)
    partition = divided(["a"] * 900, 3, np.arange(900), labels.tolist(), splits.tolist())
    for split in ("train", "test"):
        held = np.bincount(partition.holders[splits == split], minlength=3)
        assert held.max() - held.min() <= 1
        for label in ("NV", "MEL", "DF", ""):
            held = np.bincount(partition.holders[(splits == split) & (labels == label)], minlength=3)
            assert held.max() - held.min() <= 2


@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.sampled_from("ab"), st.sampled_from(["NV", "MEL"])),
        min_size=40,
        max_size=80,
    ),
    st.integers(0, 5),
    st.integers(0, 1000),
)
def test_components_stay_whole_at_their_site_whatever_the_order_of_rows(lesions, seed, shuffle):
    component_ids = np.repeat(np.arange(len(lesions)), [size for size, _, _ in lesions])
    values = ["c" if number == 0 else lesions[number][1] for number in component_ids]
    labels = [lesions[number][2] for number in component_ids]
    splits = ["test" if number % 5 == 0 else "train" for number in component_ids]
    splits[0] = "train"  # so that site c, of one lesion, has something to train on

    def part(order: np.ndarray) -> Partition:
        chosen = [[column[row] for row in order] for column in (values, labels, splits)]
        names = [f"lesion {number}" for number in component_ids[order]]
        sites = by_value(chosen[0], column="clinic")
        count = len(sites.clients) + 2
        return divide_sites(sites, count, Rows(component_ids[order], names, *chosen[1:]), seed=seed)

    order = np.random.default_rng(shuffle).permutation(len(component_ids))
    plain, shuffled = part(np.arange(len(component_ids))), part(order)
    assert plain.clients == shuffled.clients
    assert (plain.holders[order] == shuffled.holders).all()
    for number in set(component_ids.tolist()):
        assert len(set(plain.holders[component_ids == number].tolist())) == 1
    sites = np.array([plain.clients[holder][0] for holder in plain.holders])
    assert (sites == np.array(values)).all()


def test_a_component_at_two_sites_stays_whole_at_each():
    values = ["a"] * 6 + ["b"] * 2
    component_ids = np.array([0, 0, 1, 2, 3, 4, 0, 0])
    partition = divided(values, 4, component_ids, ["NV"] * 8, ["train"] * 8)
    assert partition.clients == ("a-0", "a-1", "a-2", "b")
    assert partition.holders[0] == partition.holders[1]
    assert partition.holders[6:].tolist() == [3, 3]


def test_too_few_clients_twins_and_empty_clients_are_refused():
    one = ["NV"] * 6, ["train"] * 6
    with pytest.raises(
        PartitionError, match=r"2 clients are too few: the column has 3 values.*raise `count` to 3"
    ):
        divided(list("aabbcc"), 2, np.arange(6), *one)
    with pytest.raises(PartitionError, match=r"two clients would be called a-0: one is a value"):
        divided(["a"] * 5 + ["a-0"], 3, np.arange(6), *one)
    with pytest.raises(
        PartitionError, match=r"client a-1 of 2 would have no pictures; ask for fewer clients"
    ):
        divided(["a"] * 6, 2, np.zeros(6, dtype=np.int64), *one)
