from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from clients.data.partition_roles import draw_labelled
from clients.data.partition_rules import NOBODY, Rows


def kept(
    fraction: float,
    component_ids: list[int],
    codes: list[str],
    *,
    holders: list[int] | None = None,
    splits: list[str] | None = None,
    seed: int = 0,
) -> NDArray[np.bool_]:
    names = [f"lesion {number}" for number in component_ids]
    rows = Rows(np.array(component_ids), names, codes, splits or ["train"] * len(codes))
    return draw_labelled(fraction, np.array(holders or [0] * len(codes)), rows, seed=seed)


def seats(votes: dict[str, int], count: int) -> dict[str, int]:
    """Sainte-Laguë: seats one by one to the party of the highest v / (2 s + 1); ties by name."""
    won = dict.fromkeys(votes, 0)
    for _ in range(count):
        best = min(votes, key=lambda party: (-Fraction(votes[party], 2 * won[party] + 1), party))
        won[best] += 1
    return won


def half_up(number: Fraction) -> int:
    return int(number + Fraction(1, 2))


@pytest.mark.parametrize("percent", [1, 10, 20, 30, 40, 70, 80, 100])
@pytest.mark.parametrize("votes", [{"A": 53, "B": 24, "C": 7}, {"A": 10, "B": 10}, {"A": 61, "B": 3, "C": 3}])
def test_single_pictures_are_labelled_as_sainte_lague_deals_seats(votes, percent):
    codes = [code for code, count in votes.items() for _ in range(count)]
    labelled = kept(percent / 100, list(range(len(codes))), codes)
    count = max(1, half_up(Fraction(percent, 100) * len(codes)))
    found = Counter(code for code, keeps in zip(codes, labelled, strict=True) if keeps)
    assert {code: found[code] for code in votes} == seats(votes, count)


@pytest.mark.parametrize(
    ("fraction", "lesion", "singles"), [(0.1, 0, 1), (0.4, 0, 1), (0.5, 3, 1), (0.8, 3, 1), (0.9, 3, 2)]
)
def test_a_lesion_of_three_between_two_single_pictures_by_hand(fraction, lesion, singles):
    # Places: B's first 0.5 / 2, A's lesion 1.5 / 3, B's second 1.5 / 2. Middles in that order, of N = 5
    # pictures: 0.5, 1 + 1.5 and 4 + 0.5.
    labelled = kept(fraction, [0, 0, 0, 1, 2], list("AAABB"))
    assert (labelled[:3].sum(), labelled[3:].sum()) == (lesion, singles)


def test_everything_is_kept_at_one_and_everything_but_training_always():
    codes, splits = ["A", "B", "", "A"] * 10, ["train", "validation", "calibration", "test"] * 10
    assert kept(1.0, list(range(40)), codes).all()
    labelled = kept(0.01, list(range(40)), codes, splits=splits)
    assert labelled[[split != "train" for split in splits]].all()
    assert labelled[[split == "train" for split in splits]].sum() == 1


def test_unlabelled_pictures_are_not_counted():
    codes = ["A"] * 10 + [""] * 90
    labelled = kept(0.2, list(range(100)), codes)
    assert labelled[:10].sum() == 2


def test_each_client_is_drawn_from_its_own_pictures_and_keeps_one():
    codes, holders = ["A", "B", "B"] * 20, [0] * 50 + [1] * 8 + [NOBODY] * 2
    component_ids = list(range(60))
    together = kept(0.05, component_ids, codes, holders=holders)
    alone = kept(0.05, component_ids[50:58], codes[50:58])
    assert (together[50:58] == alone).all()
    assert (together[:50].sum(), together[50:58].sum()) == (3, 1)


LESIONS = st.lists(st.tuples(st.integers(1, 4), st.sampled_from("AAABC")), min_size=1, max_size=60)


@given(LESIONS, st.floats(0.01, 1), st.floats(0.01, 1), st.integers(0, 5))
def test_draws_are_nested_whole_and_near_what_is_asked(lesions, first, second, seed):
    component_ids = [number for number, (size, _) in enumerate(lesions) for _ in range(size)]
    codes = [lesions[number][1] for number in component_ids]
    few, many = (kept(share, component_ids, codes, seed=seed) for share in sorted((first, second)))
    assert not (few & ~many).any()
    for share, labelled in zip(sorted((first, second)), (few, many), strict=True):
        assert all(
            len(set(labelled[np.array(component_ids) == number])) == 1 for number in set(component_ids)
        )
        largest = max(size for size, _ in lesions)
        assert abs(labelled.sum() - share * len(codes)) <= largest / 2 + 1e-6 or labelled.sum() <= largest
        assert labelled.any()


@given(LESIONS, st.floats(0.01, 1), st.integers(0, 5))
def test_all_classes_keep_the_same_share(lesions, share, seed):
    """One share t fits all classes: class c has t n_c labelled pictures, to within half a component."""
    component_ids = [number for number, (size, _) in enumerate(lesions) for _ in range(size)]
    codes = np.array([lesions[number][1] for number in component_ids])
    labelled = kept(share, component_ids, codes.tolist(), seed=seed)
    slack = max(size for size, _ in lesions) / 2
    totals = {code: int((codes == code).sum()) for code in set(codes.tolist())}
    found = {code: int(labelled[codes == code].sum()) for code in totals}
    low = max((found[code] - slack) / totals[code] for code in totals)
    high = min((found[code] + slack) / totals[code] for code in totals)
    assert low <= high + 1e-9
