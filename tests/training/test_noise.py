"""The noise is normal, of the stated variance, and of nobody's seed."""

import numpy as np
import pytest
import torch
from scipy import stats

from training import secure_random
from training.secure_random import NoiseSource

COUNT = 400_000


@pytest.fixture
def known(monkeypatch):
    """Noise from a known key, so that a test does not fail by chance now and then."""
    monkeypatch.setattr(secure_random, "fresh_key", lambda: bytes(range(32)))


@pytest.mark.usefixtures("known")
def test_variance_by_chi_square():
    drawn = NoiseSource().normal(torch.zeros(COUNT, dtype=torch.float64), 3.0).numpy()
    statistic = (drawn**2).sum() / 9.0
    assert stats.chi2.ppf(0.001, COUNT) < statistic < stats.chi2.ppf(0.999, COUNT)
    assert abs(drawn.mean()) < 4 * 3.0 / np.sqrt(COUNT)


@pytest.mark.usefixtures("known")
def test_it_is_normal_and_independent():
    drawn = NoiseSource().normal(torch.zeros(COUNT), 1.0).double().numpy()
    assert stats.kstest(drawn, "norm").pvalue > 0.001
    for lag in (1, 2, 3):
        assert abs(np.corrcoef(drawn[:-lag], drawn[lag:])[0, 1]) < 4 / np.sqrt(COUNT)


@pytest.mark.usefixtures("known")
def test_a_known_key_gives_the_same_noise():
    like = torch.zeros(3, 5)
    assert torch.equal(NoiseSource().normal(like, 1.0), NoiseSource().normal(like, 1.0))
    source = NoiseSource()
    assert not torch.equal(source.normal(like, 1.0), source.normal(like, 1.0))


def test_no_seed_foresees_it():
    like = torch.zeros(100)
    drawn = []
    for _ in range(2):
        torch.manual_seed(0)
        np.random.seed(0)
        drawn.append(NoiseSource().normal(like, 1.0))
    assert not torch.equal(*drawn)


@pytest.mark.usefixtures("known")
def test_each_is_drawn_by_itself_with_the_rate():
    source, n, times = NoiseSource(), 50, 2000
    drawn = np.zeros((times, n))
    for row in drawn:
        row[source.chosen(n, 0.2)] = 1
    # Sizes of Poisson samples vary as a binomial's: fixed sizes would not.
    sizes = drawn.sum(axis=1)
    assert stats.binomtest(int(drawn.sum()), times * n, 0.2).pvalue > 0.001
    statistic = ((sizes - sizes.mean()) ** 2).sum() / (n * 0.2 * 0.8)
    assert stats.chi2.ppf(0.001, times - 1) < statistic < stats.chi2.ppf(0.999, times - 1)
    assert len(source.chosen(7, 1.0)) == 7
