import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.bundle.counts.counts import Counts
from registry.bundle.metrics import fairness


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
    np.testing.assert_allclose(fairness.standardised_accuracies(subgroups), [a, b])
    assert fairness.spread_standardised(subgroups) == pytest.approx(a - b)


def test_no_class_in_common_leaves_nothing_to_standardise_to():
    subgroups = {"a": counts_of([3, 1], [0, 0]), "b": counts_of([0, 0], [2, 2])}
    assert np.isnan(fairness.spread_standardised(subgroups))
    assert fairness.spread(subgroups) == pytest.approx(0.25)


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
