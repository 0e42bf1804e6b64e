""""""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, binomtest

from registry.bundle.metrics.intervals import Moments, clopper_pearson, exact_limits, interval, mean_interval


@given(st.integers(1, 20_000), st.floats(0, 1), st.sampled_from([0.9, 0.95, 0.99]))
def test_the_interval_is_scipys(n, share, level):
    right = round(share * n)
    expected = binomtest(right, n).proportion_ci(level, method="exact")
    assert clopper_pearson(right, n, level) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_an_array_has_the_limits_of_each_and_nothing_is_known_of_none():
    found = exact_limits(np.array([[3, 0], [4.5, np.nan]]), np.array([[5, 0], [7.5, 2]]))
    assert (found.low[0, 0], found.high[0, 0]) == pytest.approx(clopper_pearson(3, 5))
    assert (found.value[0, 1], found.low[0, 1], found.high[0, 1]) == (0, 0, 1)
    # Numbers that are not whole: quantiles of beta distributions.
    assert found.low[1, 0] == pytest.approx(beta.ppf(0.025, 4.5, 4))
    assert found.high[1, 0] == pytest.approx(beta.ppf(0.975, 5.5, 3))
    assert np.isnan(found.low[1, 1])
    assert np.isnan(found.high[1, 1])


def test_the_middle_95_percent():
    low, high = interval(np.random.default_rng(0).permutation(np.arange(1001) / 1000))
    assert (low, high) == (pytest.approx(0.025), pytest.approx(0.975))


def test_undefined_replicates_are_left_out_unless_they_are_most():
    assert interval(np.array([0.1, 0.2, np.nan])) == (pytest.approx(0.1025), pytest.approx(0.1975))
    assert interval(np.array([0.1, np.nan, np.nan])) is None
    assert interval(np.array([])) is None


def test_replicates_that_are_all_equal_say_nothing():
    assert interval(np.ones(200)) is None
    assert interval(np.array([0.5, 0.5, np.nan])) is None


def moments(value, smooth, variance):
    of = np.array(value, dtype=float)
    return Moments(of, np.array(smooth), np.array(variance), of, of)


def test_a_figure_is_as_certain_as_a_proportion_of_its_variance():
    found = moments(0.8, 0.8, 0.8 * 0.2 / 40).limits()
    assert found.ends() == pytest.approx(clopper_pearson(32, 40))


def test_variances_of_a_mean_add_up_and_deviations_do_where_figures_go_together():
    each = moments([0.6, np.nan, 0.8], [0.6, 0.5, 0.8], [0.01, 9.0, 0.04])
    alone, together = each.mean(), each.mean(np.ones((3, 3)))
    assert alone.value == pytest.approx(0.7)
    assert alone.variance == pytest.approx((0.01 + 0.04) / 4)
    assert together.variance == pytest.approx((0.1 + 0.2) ** 2 / 4)


def test_what_is_undefined_has_no_limits_and_what_cannot_vary_has_the_widest():
    found = moments([np.nan, 1.0], [0.5, 1.0], [0.1, 0.0]).limits()
    assert found[0].ends() is None
    assert found[1].ends() == [0, 1]


def wilson(x, n):
    """SciPy's interval of one proportion."""
    found = binomtest(x, n).proportion_ci(method="wilson")
    return found.low, found.high


@pytest.mark.parametrize(("x", "n"), [(0, 3), (3, 3), (7, 10), (1, 1), (200, 400)])
def test_of_one_proportion_it_is_scipys(x, n):
    assert mean_interval(np.array([x]), np.array([n])) == pytest.approx(wilson(x, n))


def test_of_several_the_squared_distances_to_their_ends_add_up():
    """Recalls of 3 of 3 pictures and of 54 of 60; a class without pictures is left out."""
    rare, common = wilson(3, 3), wilson(54, 60)
    low = 0.95 - np.hypot(1 - rare[0], 0.9 - common[0]) / 2
    high = 0.95 + np.hypot(rare[1] - 1, common[1] - 0.9) / 2
    assert mean_interval(np.array([3, 0, 54]), np.array([3, 0, 60])) == pytest.approx((low, high))
