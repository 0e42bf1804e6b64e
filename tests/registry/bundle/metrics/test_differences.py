import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student

from registry.bundle.metrics.fairness import DIFFERENCES, difference, differences, holm, student_tails

ACCURACY, BALANCED = DIFFERENCES.values()
P_VALUES = st.lists(st.none() | st.floats(0, 1), max_size=8)


def test_holm_by_hand():
    # Sorted: 0.005 · 4, 0.01 · 3, 0.03 · 2, 0.04 · 1, each at least the one before.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.6]) == [1.0, 1.0]
    assert holm([0.01, None, 0.04]) == pytest.approx([0.02, None, 0.04], nan_ok=True)
    assert holm([]) == []


@given(P_VALUES)
def test_holm_lies_between_the_p_value_and_bonferroni_and_keeps_their_order(p_values):
    adjusted = holm(p_values)
    known = [(p, q) for p, q in zip(p_values, adjusted, strict=True) if p is not None]
    assert [p is None for p in p_values] == [q is None for q in adjusted]
    assert all(p <= q <= min(1, len(known) * p) + 1e-12 for p, q in known)
    assert [q for _, q in sorted(known)] == sorted(q for _, q in known)


@given(st.floats(-60, 60), st.floats(1, 10_000))
def test_the_tails_are_those_of_students_distribution(t, freedom):
    assert student_tails(t, freedom) == pytest.approx(2 * student.sf(abs(t), freedom), abs=1e-8)


def test_values_by_hand(block_of):
    # Recalls: dark 0.5 and 0.8, light 0.75 and 0.9. Of 50 + 50 pictures 60 are of the first class.
    dark, light = block_of([[10, 10], [6, 24]]), block_of([[30, 10], [1, 9]])
    assert difference(dark, light, ACCURACY).value == pytest.approx(0.6 * -0.25 + 0.4 * -0.1)
    assert difference(dark, light, BALANCED).value == pytest.approx((-0.25 - 0.1) / 2)
    assert difference(light, dark, BALANCED).value == pytest.approx((0.25 + 0.1) / 2)


def test_pairs_in_order_with_interval_and_p(block_of):
    matrices = {"dark": [[30, 10], [8, 20]], "medium": [[50, 9], [8, 40]], "light": [[70, 8], [9, 50]]}
    told = differences({name: block_of(matrix) for name, matrix in matrices.items()})
    pairs = [["dark", "medium"], ["dark", "light"], ["medium", "light"]]
    assert [entry["between"] for entry in told] == pairs * 2
    assert [entry["figure"] for entry in told] == [name for name in DIFFERENCES for _ in pairs]
    for entry in told:
        low, high = entry["interval"]
        assert low < entry["value"] < high
        assert (low <= 0 <= high) == (entry["p"] >= 0.05)
        assert entry["p"] <= entry["p_adjusted"] <= 1


# Class sizes of both subgroups, and recalls: some classes are rare in one of them.
EQUAL = {
    "common": ([75, 25], [115, 115], [0.8, 0.6]),
    "rare": ([27, 3], [200, 30], [0.9, 0.5]),
    "five classes": ([40, 30, 20, 6, 4], [300, 100, 60, 30, 10], [0.85, 0.7, 0.6, 0.5, 0.4]),
}


@pytest.mark.long
@pytest.mark.parametrize(("small", "large", "recalls"), EQUAL.values(), ids=EQUAL)
def test_equal_subgroups_are_called_different_no_more_often_than_said(
    block_of, draw_confusion, small, large, recalls
):
    """At the level 0.05, 300 draws exceed 0.09 in less than one of 200 cases."""
    rng, rejected = np.random.default_rng(2), np.zeros(2)
    for _ in range(300):
        pair = [block_of(draw_confusion(rng, pictures, recalls)) for pictures in (small, large)]
        rejected += [difference(*pair, figure).p < 0.05 for figure in DIFFERENCES.values()]
    assert (rejected / 300 <= 0.09).all()
