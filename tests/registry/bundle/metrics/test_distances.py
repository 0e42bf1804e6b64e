"""Noise in the parts of a distance: as far to either side as their limits are."""

from dataclasses import replace

import numpy as np

from registry.bundle.metrics.calibration import Distance, drawn
from registry.bundle.metrics.intervals import Limits

PARTS = Limits(np.array([0.5, 0.9]), np.array([0.2, 0.85]), np.array([0.6, 1.0]))


def test_noise_has_the_limits_of_each_side_as_its_quantiles():
    noise = drawn(PARTS)
    low, high = np.quantile(noise, [0.025, 0.975], axis=0)
    np.testing.assert_allclose(low, PARTS.low - PARTS.value, rtol=0.1)
    np.testing.assert_allclose(high, PARTS.high - PARTS.value, rtol=0.1)


def test_the_lower_limit_takes_off_what_noise_alone_makes_and_is_never_below_its_floor():
    spread = Distance(lambda parts: np.ptp(parts, axis=-1), PARTS, np.array(0.7))
    alone = np.quantile(np.ptp(drawn(PARTS), axis=-1), 0.95)
    found = spread.limits()
    assert found.value == np.ptp(PARTS.value)
    assert found.low == max(0.0, found.value - alone)
    assert found.high == 0.7
    assert found.low < 0.39
    assert replace(spread, floor=0.39).limits().low == 0.39
