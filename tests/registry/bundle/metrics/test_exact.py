import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betainc
from scipy.stats import binom, binomtest

from registry.bundle.metrics.exact import clopper_pearson, exact_interval, incomplete_beta


# scipy loses digits where x is subnormal: its I(5e-324; 1/64, 1/2) is 8.680e-6, and x^a / (a B) is 8.692e-6.
@given(st.floats(0, 1, allow_subnormal=False), st.floats(0.01, 30_000), st.floats(0.01, 30_000))
def test_the_incomplete_beta_function_is_scipys(x, a, b):
    assert incomplete_beta(x, a, b) == pytest.approx(betainc(a, b, x), abs=1e-9)


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


def test_a_mean_of_proportions_averages_intervals_at_a_higher_level():
    found = exact_interval(np.array([10, 0, 3]), np.array([10, 0, 5]))
    first, second = clopper_pearson(10, 10, 0.975), clopper_pearson(3, 5, 0.975)
    assert found == pytest.approx(((first[0] + second[0]) / 2, (first[1] + second[1]) / 2))
    assert exact_interval(np.array([0, 0]), np.array([0, 0])) is None
