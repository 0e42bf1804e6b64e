"""The noise is normal, of the stated variance, and of nobody's seed.

The keystream is AES-256 in counter mode, whatever the sizes in which it is drawn.
"""

import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from training import randomness
from training.randomness import Keystream, NoiseSource, derive_seed, generator

purposes = st.lists(st.one_of(st.text("abc 0123", max_size=4), st.integers(-20, 20)), max_size=4)


def test_seeds_are_those_of_the_first_release():
    """63 bits of a SHA-256, as sha256sum gives it; a change here changes every run there ever was."""
    assert derive_seed(0, "initial weights") == 5343337840799183452
    assert derive_seed(7, "0-federate", 3, "clinic-a") == 8799052944033624091


@given(seed=st.integers(0, 2**40), purpose=purposes)
def test_a_seed_fits_into_63_bits(seed, purpose):
    assert 0 <= derive_seed(seed, *purpose) < 2**63


def test_purposes_are_kept_apart_wherever_they_are_cut():
    seeds = [
        derive_seed(1, "ab", "c"),
        derive_seed(1, "a", "bc"),
        derive_seed(1, "abc"),
        derive_seed(11, "bc"),
        derive_seed(1, "1", "bc"),
        derive_seed(1, "ab", "c", ""),
    ]
    assert len(set(seeds)) == len(seeds)


def test_draws_depend_on_what_they_are_for_and_not_on_what_was_drawn_before():
    first = generator(3, "stage", 1, "north").random(4)
    generator(3, "stage", 1, "south").random(100)
    np.testing.assert_array_equal(generator(3, "stage", 1, "north").random(4), first)
    assert (generator(3, "stage", 2, "north").random(4) != first).all()


COUNT = 400_000


@pytest.fixture
def known(monkeypatch):
    """Noise from a known key, so that a test does not fail by chance now and then."""
    monkeypatch.setattr(randomness, "fresh_key", lambda: bytes(range(32)))


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


@pytest.mark.parametrize("shape", [(0,), (0, 3), (), (5, 0, 2)])
def test_noise_has_the_shape_of_what_it_is_for_also_of_nothing(shape):
    assert NoiseSource().normal(torch.empty(shape), 1.0).shape == shape


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


KEY = bytes(range(32))


def test_it_is_the_cipher_of_the_counter():
    block = Cipher(AES(KEY), ECB()).encryptor()
    expected = b"".join(block.update(number.to_bytes(16, "big")) for number in range(100))
    assert Keystream(KEY).draw(1600, np.uint8).tobytes() == expected
