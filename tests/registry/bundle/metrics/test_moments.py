import numpy as np
import pytest

from registry.bundle.metrics.exact import clopper_pearson
from registry.bundle.metrics.moments import Moments


def moments(value, smooth, variance):
    of = np.array(value, dtype=float)
    return Moments(of, np.array(smooth), np.array(variance), of, of)


def test_a_figure_is_as_certain_as_a_proportion_of_its_variance():
    found = moments(0.8, 0.8, 0.8 * 0.2 / 40).limits()
    assert found.ends() == pytest.approx(clopper_pearson(32, 40))


def test_a_figure_of_one_is_as_certain_as_what_it_is_smoothed_to():
    found = moments(1.0, 0.9, 0.9 * 0.1 / 12).limits()
    assert found.ends() == pytest.approx(clopper_pearson(12, 12))


def test_limits_start_where_they_are_told_to():
    half = np.array(0.5)
    found = Moments(half, half, np.array(0.25 / 20), np.array(0.4), np.array(0.7)).limits()
    assert found.value == 0.5
    assert found.ends() == pytest.approx([clopper_pearson(8, 20)[0], clopper_pearson(14, 20)[1]])


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


@pytest.mark.parametrize("figures", [1, 2, 3, 7, 64, 129, 1000])
def test_a_mean_of_independent_figures_is_that_of_a_correlation_of_one_to_the_last_bit(figures):
    value, deviation = np.random.default_rng(figures).random((2, figures))
    value[figures // 2 :][::5] = np.nan
    moments = Moments(value, value, deviation, value, value)
    alone, together = moments.mean(), moments.mean(np.eye(figures))
    for name in ("value", "smooth", "variance", "least", "most"):
        np.testing.assert_array_equal(getattr(alone, name), getattr(together, name))
