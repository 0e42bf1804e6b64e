import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, binom, binomtest

from registry.bundle.metrics.intervals import clopper_pearson, exact_limits


@given(st.integers(1, 20_000), st.floats(0, 1), st.sampled_from([0.9, 0.95, 0.99]))
def test_the_interval_is_scipys(n, share, level):
    right = round(share * n)
    expected = binomtest(right, n).proportion_ci(level, method="exact")
    assert clopper_pearson(right, n, level) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_all_right_is_not_certain():
    # The lower end solves p^20 = 0.025.
    assert clopper_pearson(20, 20) == (pytest.approx(0.025 ** (1 / 20)), 1.0)
    assert clopper_pearson(0, 20) == (0.0, pytest.approx(1 - 0.025 ** (1 / 20)))


@pytest.mark.parametrize(("n", "truth"), [(5, 0.5), (30, 0.9), (100, 0.97)])
def test_it_holds_the_truth_at_least_as_often_as_it_says(n, truth):
    """Over all that can be seen, weighted by how likely it is."""
    held = [x for x in range(n + 1) if clopper_pearson(x, n)[0] <= truth <= clopper_pearson(x, n)[1]]
    assert binom.pmf(held, n, truth).sum() >= 0.95


def test_an_array_has_the_limits_of_each_and_nothing_is_known_of_none():
    found = exact_limits(np.array([[3, 0], [4.5, np.nan]]), np.array([[5, 0], [7.5, 2]]))
    assert (found.low[0, 0], found.high[0, 0]) == pytest.approx(clopper_pearson(3, 5))
    assert (found.value[0, 1], found.low[0, 1], found.high[0, 1]) == (0, 0, 1)
    # Numbers that are not whole: quantiles of beta distributions.
    assert found.low[1, 0] == pytest.approx(beta.ppf(0.025, 4.5, 4))
    assert found.high[1, 0] == pytest.approx(beta.ppf(0.975, 5.5, 3))
    assert np.isnan(found.low[1, 1])
    assert np.isnan(found.high[1, 1])
