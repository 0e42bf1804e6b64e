"""ρ by hand; its (ε, δ) against the published bound, another library's, and the exact loss of the noise."""

from fractions import Fraction
from math import erfc, exp, log, sqrt

import numpy as np
import pytest

from training.privacy.dp.concentrated import (
    delta_of,
    epsilon_of,
    rho_of,
    rho_of_units,
    variance_for,
)


def test_rho_by_hand():
    # Δ² = 2: two cells change by 1. Three parts with noise of variance 12 cost 3 · 2 / (2 · 12).
    assert rho_of_units(3, 12.0) == pytest.approx(0.25)
    assert rho_of_units(3, 4.0, sharers=3) == pytest.approx(0.25)  # three hospitals add a third each
    assert rho_of_units(3, 4.0) == pytest.approx(0.75)  # and what one of them has alone


def test_epsilon_is_within_the_published_bound():
    """Bun and Steinke 2016, Proposition 1.3: ρ-zCDP is (ρ + 2 √(ρ log(1/δ)), δ)."""
    for rho in (0.001, 0.05, 0.5, 3.0):
        for delta in (1e-3, 1e-5, 1e-9):
            bound = rho + 2 * sqrt(rho * log(1 / delta))
            found = epsilon_of(rho, delta)
            assert 0.5 * bound < found < bound


@pytest.mark.parametrize("rho", [0.01, 0.2, 2.0])
def test_epsilon_is_that_of_another_library(rho):
    rdp = pytest.importorskip("opacus.accountants.analysis.rdp")
    orders = np.concatenate([1 + np.geomspace(0.01, 10, 400), np.arange(12, 2000, 0.5)])
    epsilon, _ = rdp.get_privacy_spent(orders=orders, rdp=rho * orders, delta=1e-5)
    assert epsilon_of(rho, 1e-5) == pytest.approx(epsilon, rel=1e-3)


def test_delta_covers_what_gaussian_noise_discloses():
    """Balle and Wang 2018, Theorem 8: the exact δ of normal noise, which no valid account is below."""

    def normal(x):
        return erfc(-x / sqrt(2)) / 2

    for rho in (0.05, 0.5, 2.0):
        change = sqrt(2 * rho)  # Δ / σ
        for epsilon in (0.5, 1.0, 4.0):
            exact = normal(change / 2 - epsilon / change) - exp(epsilon) * normal(
                -change / 2 - epsilon / change
            )
            assert exact <= delta_of(rho, epsilon) < max(30 * exact, 1e-6)


def discrete(variance, farthest=400):
    x = np.arange(-farthest, farthest + 1)
    weight = np.exp(-(x**2) / (2 * variance))
    return weight / weight.sum()


@pytest.mark.parametrize("sharers", [1, 3, 5])
@pytest.mark.parametrize("epsilon", [1.0, 4.0, 8.0])
def test_what_is_added_discloses_no_more_than_promised(sharers, epsilon):
    """The exact δ of the sum of shares: one count in two cells, whose change is seen in both."""
    delta = 1e-5
    variance = variance_for(1, epsilon, delta, sharers)
    one = discrete(float(variance))
    summed = one
    for _ in range(sharers - 1):
        summed = np.convolve(summed, one)
    changed = np.roll(summed, 1)
    both = np.outer(summed, summed), np.outer(changed, np.roll(summed, -1))
    disclosed = np.maximum(both[1] - exp(epsilon) * both[0], 0).sum()
    assert disclosed <= delta
    # And noise of a third of it would disclose more: the account is not idle.
    less = np.outer(*(2 * [discrete(float(variance) * sharers / 3)]))
    moved = np.roll(np.roll(less, 1, axis=0), -1, axis=1)
    assert np.maximum(moved - exp(epsilon) * less, 0).sum() > delta


def test_the_variance_is_the_least_in_sixteenths():
    variance = variance_for(6, 1.0, 1e-5)
    assert variance.denominator in (1, 2, 4, 8, 16)
    assert epsilon_of(rho_of_units(6, float(variance)), 1e-5) <= 1.0
    assert epsilon_of(rho_of_units(6, float(variance - Fraction(1, 16))), 1e-5) > 1.0
    assert rho_of(1.0, 1e-5) == pytest.approx(6 / float(variance), rel=1e-3)
