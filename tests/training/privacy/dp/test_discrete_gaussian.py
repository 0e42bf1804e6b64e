"""Draws against the probabilities themselves, summed on the whole numbers."""

from fractions import Fraction
from random import Random

import numpy as np
import pytest
from scipy import stats

from training.privacy.dp.discrete_gaussian import discrete_gaussian

COUNT = 20_000


def probabilities(variance, farthest):
    """P(x) of N_Z(0, σ²) for |x| ≤ farthest."""
    x = np.arange(-farthest, farthest + 1)
    weight = np.exp(-(x**2) / (2 * float(variance)))
    return x, weight / weight.sum()


@pytest.mark.parametrize(
    "variance", [Fraction(1, 16), Fraction(1, 2), Fraction(1), Fraction(43, 8), Fraction(100)]
)
def test_draws_have_the_probabilities(variance):
    drawn = discrete_gaussian(variance, COUNT, Random(3).randrange)
    x, exact = probabilities(variance, 60 + int(10 * float(variance) ** 0.5))
    expected = COUNT * exact
    inner = expected >= 5
    seen = np.array([(drawn == each).sum() for each in x[inner]])
    tail, rest = COUNT - seen.sum(), COUNT - expected[inner].sum()
    statistic = ((seen - expected[inner]) ** 2 / expected[inner]).sum() + (tail - rest) ** 2 / max(rest, 1.0)
    assert statistic < stats.chi2.ppf(0.999, inner.sum())


def test_another_variance_would_be_seen():
    """The control: draws of a variance a tenth too small do not pass for those of the right one."""
    drawn = discrete_gaussian(Fraction(9), COUNT, Random(3).randrange)
    x, exact = probabilities(Fraction(10), 80)
    expected = COUNT * exact
    inner = expected >= 5
    seen = np.array([(drawn == each).sum() for each in x[inner]])
    assert ((seen - expected[inner]) ** 2 / expected[inner]).sum() > stats.chi2.ppf(0.999, inner.sum())


def test_nobody_foresees_a_draw(monkeypatch):
    monkeypatch.setattr("random.random", None)
    monkeypatch.setattr("numpy.random.default_rng", None)
    first, second = (discrete_gaussian(Fraction(400), 200) for _ in range(2))
    assert (first != second).any()
