import numpy as np
import pytest

from registry.bundle.metrics.intervals import interval


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
