""""""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t as student

from registry.bundle.counts import Confusion, Counts
from registry.bundle.metrics import fairness
from registry.bundle.metrics.fairness import DIFFERENCES, difference, differences, fairness_limits, holm
from registry.bundle.metrics.intervals import DesignEffect, Sample
from registry.bundle.metrics.summary import FAIRNESS


def counts_of(*rows):
    """Counts with this confusion matrix."""
    counts = Counts.zeros(len(rows))
    counts.confusion[:] = rows
    return counts


def of_accuracy(right, n):
    return counts_of([right, n - right], [0, 0])


UNEQUAL = {"a": of_accuracy(45, 50), "b": of_accuracy(120, 200), "c": of_accuracy(7, 10)}


def test_table_ii_of_the_paper():
    """Paper 003, Table II, FedAvg: accuracies by skin type and the variance printed beside them."""
    accuracies = [0.611, 0.612, 0.658, 0.653, 0.535, 0.467]
    subgroups = {str(i): of_accuracy(round(1000 * value), 1000) for i, value in enumerate(accuracies)}
    assert round(float(fairness.variance(subgroups)), 5) == 0.00461


def test_by_hand_with_unequal_sizes():
    assert fairness.variance(UNEQUAL) == pytest.approx(np.var([0.9, 0.6, 0.7]))
    assert fairness.spread(UNEQUAL) == pytest.approx(0.3)
    others = [127 / 210, 52 / 60, 165 / 250]
    gaps = [abs(x - y) for x, y in zip([0.9, 0.6, 0.7], others, strict=True)]
    worsts = [min(x, y) for x, y in zip([0.9, 0.6, 0.7], others, strict=True)]
    assert fairness.gap(UNEQUAL) == pytest.approx(np.mean(gaps))
    assert fairness.worst(UNEQUAL) == pytest.approx(np.mean(worsts))


FIGURES = [
    fairness.variance,
    fairness.gap,
    fairness.worst,
    fairness.spread,
    fairness.spread_standardised,
]


@pytest.mark.parametrize("figure", FIGURES)
def test_a_subgroup_without_pictures_is_absent_and_not_zero(figure):
    assert figure({**UNEQUAL, "d": of_accuracy(0, 0)}) == pytest.approx(float(figure(UNEQUAL)))


@pytest.mark.parametrize("figure", FIGURES)
@pytest.mark.parametrize(
    "subgroups", [{}, {"a": of_accuracy(3, 5)}, {"a": of_accuracy(3, 5), "b": of_accuracy(0, 0)}]
)
def test_one_subgroup_is_neither_fair_nor_unfair(figure, subgroups):
    assert np.isnan(figure(subgroups)).all()


def test_standardising_takes_out_the_class_mix():
    """Both recognise class 0 in 9 of 10 and class 1 in 5 of 10; only the mix differs."""
    subgroups = {"a": counts_of([90, 10], [5, 5]), "b": counts_of([9, 1], [50, 50])}
    assert fairness.spread(subgroups) > 0.3
    assert fairness.spread_standardised(subgroups) == pytest.approx(0, abs=1e-12)


def test_standardising_by_hand_over_the_classes_that_all_have():
    subgroups = {
        "a": counts_of([8, 2, 0], [1, 3, 0], [0, 0, 5]),
        "b": counts_of([15, 5, 0], [4, 4, 0], [0, 0, 0]),
    }
    # Class 2 is absent in b; the mix of the others is 30 to 12.
    a = (30 * 0.8 + 12 * 0.75) / 42
    b = (30 * 0.75 + 12 * 0.5) / 42
    np.testing.assert_allclose(fairness.standardised(subgroups, by_pictures=True), [a, b])
    assert fairness.spread_standardised(subgroups) == pytest.approx(a - b)


@given(
    cells=st.lists(st.lists(st.integers(0, 30), min_size=4, max_size=4).filter(any), min_size=2, max_size=5)
)
@settings(max_examples=40)
def test_laws(cells):
    subgroups = {str(i): counts_of(row[:2], row[2:]) for i, row in enumerate(cells)}
    each = [(row[0] + row[3]) / sum(row) for row in cells]
    assert fairness.spread(subgroups) == pytest.approx(max(each) - min(each))
    assert fairness.variance(subgroups) <= fairness.spread(subgroups) ** 2 / 4 + 1e-12
    assert fairness.gap(subgroups) <= fairness.spread(subgroups) + 1e-12
    assert min(each) - 1e-12 <= fairness.worst(subgroups) <= max(each) + 1e-12


SIZES, DRAWS = (100, 230, 500), 250


def sample(right, n):
    """Subgroups of one class, `(draws,)`; the other class has no picture."""
    rows = np.stack([right, n - right], axis=-1)
    matrices = np.stack([rows, np.zeros_like(rows)], axis=-2)
    return Sample(Confusion(matrices), DesignEffect(np.zeros(len(right)), np.ones((len(right), 2))))


# 250 draws at a coverage of 0.93 give 0.88 or more in 99.8 % of cases.
@pytest.mark.parametrize("accuracies", [(0.75, 0.75, 0.75), (0.72, 0.75, 0.78), (0.6, 0.75, 0.85)])
def test_intervals_hold_the_truth(accuracies):
    rng = np.random.default_rng(5)
    of_each = list(zip(accuracies, SIZES, strict=True))
    drawn = {str(n): sample(rng.binomial(n, share, DRAWS), n) for share, n in of_each}
    whole = {str(n): sample(np.array([round(share * 1000) * n]), 1000 * n).counts for share, n in of_each}
    found = fairness_limits(drawn)
    assert set(found) == set(FAIRNESS)
    for name, figure in FAIRNESS.items():
        truth = float(figure(whole)[0])
        held = (found[name].low <= truth + 1e-9) & (truth <= found[name].high + 1e-9)
        assert held.mean() >= 0.88, name


def test_one_subgroup_is_compared_with_nobody():
    assert fairness_limits({"dark": sample(np.array([4]), 5)}) == {}


P_VALUES = st.lists(st.floats(0, 1), max_size=8)


def test_holm_by_hand():
    # Sorted: 0.005 · 4, 0.01 · 3, 0.03 · 2, 0.04 · 1, each at least the one before.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.6]) == [1.0, 1.0]
    assert holm([]) == []


@given(P_VALUES)
def test_holm_lies_between_the_p_value_and_bonferroni_and_keeps_their_order(p_values):
    adjusted = holm(p_values)
    known = list(zip(p_values, adjusted, strict=True))
    assert all(p <= q <= min(1, len(known) * p) + 1e-12 for p, q in known)
    assert [q for _, q in sorted(known)] == sorted(q for _, q in known)


def test_values_by_hand(block_of):
    # Recalls: dark 0.5 and 0.8, light 0.75 and 0.9. Of 50 + 50 pictures 60 are of the first class.
    dark, light = block_of([[10, 10], [6, 24]]), block_of([[30, 10], [1, 9]])
    assert difference(dark, light, by_pictures=True).value == pytest.approx(0.6 * -0.25 + 0.4 * -0.1)
    assert difference(dark, light, by_pictures=False).value == pytest.approx((-0.25 - 0.1) / 2)
    assert difference(light, dark, by_pictures=False).value == pytest.approx((0.25 + 0.1) / 2)


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


def test_interval_and_p_are_those_of_satterthwaites_formula(block_of):
    """Of smoothed recalls, one class of one subgroup after another."""
    matrices, variances, freedoms = ([[10, 10], [6, 24]], [[30, 10], [1, 9]]), [], []
    found = difference(*map(block_of, matrices), by_pictures=False)
    for row, right in ((row, row[k]) for matrix in matrices for k, row in enumerate(matrix)):
        n, recall = sum(row), (right + 1 / 2) / (sum(row) + 1)
        variances.append(recall * (1 - recall) / n / 4)
        freedoms.append(n - 1)
    error = sum(variances) ** 0.5
    freedom = sum(variances) ** 2 / sum(v**2 / of for v, of in zip(variances, freedoms, strict=True))
    assert found.interval == pytest.approx(student.interval(0.95, freedom, found.value, error))
    assert found.p == pytest.approx(2 * student.sf(abs(found.value) / error, freedom))
