import numpy as np
import pytest

from registry.bundle.metrics.interval import interval


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


def test_rounding_does_not_make_an_interval():
    noisy = np.array([0.299, 0.299 + 1e-16, 0.29899999999999993, 0.29900000000000015] * 50)
    assert np.ptp(noisy) > 0
    assert interval(noisy) is None
    assert interval(np.append(noisy, 0.5)) is None  # one replicate in 201 is in neither end
    apart = np.linspace(0.299, 0.299 + 1e-6, 200)
    assert interval(apart) is not None
