import numpy as np
import pytest

from registry.bundle.metrics.intervals import Moments, clopper_pearson


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
