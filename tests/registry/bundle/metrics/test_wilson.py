import numpy as np
import pytest
from scipy.stats import binomtest

from registry.bundle.metrics.intervals import mean_interval


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
