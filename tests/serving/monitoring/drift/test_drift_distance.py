import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon
from scipy.stats import chi2

from serving.monitoring.drift import FEWEST, compare


def by_hand(expected: list[float], observed: list[float]) -> tuple[float, float]:
    """PSI by its definition in a loop, and scipy's Jensen-Shannon distance squared."""
    p = [(one + 0.5) / (sum(expected) + 0.5 * len(expected)) for one in expected]
    q = [(one + 0.5) / (sum(observed) + 0.5 * len(observed)) for one in observed]
    psi = 0.0
    for of_p, of_q in zip(p, q, strict=True):
        psi += (of_q - of_p) * math.log(of_q / of_p)
    return psi, jensenshannon(p, q, base=2) ** 2


@pytest.mark.parametrize(
    ("expected", "observed"),
    [
        ([40, 30, 30], [20, 30, 60]),
        ([400, 100, 500], [50, 0, 50]),
        ([95, 5], [60, 40]),
        ([20.5, 30.25, 49.25], [70, 80, 50]),
    ],
)
def test_both_distances_are_those_of_the_definitions(expected, observed):
    found = compare(np.array(expected), np.array(observed), join=False)
    psi, bits = by_hand(expected, observed)
    assert found.psi == pytest.approx(psi, rel=1e-12)
    assert found.jensen_shannon == pytest.approx(bits, rel=1e-9)
    n, m = sum(observed), sum(expected)
    assert found.by_chance == pytest.approx(chi2.ppf(0.95, len(expected) - 1) * (1 / n + 1 / m), rel=1e-9)
    assert found.bins == len(expected)


def test_small_bins_are_joined_with_what_follows():
    expected = np.array([1, 1, 3, 45, 0, 0, 46, 2, 1, 1])
    found = compare(expected, np.array([10, 0, 0, 20, 5, 5, 20, 20, 10, 10]))
    psi, bits = by_hand([5, 45, 50], [10, 20, 70])
    assert found.bins == 3
    assert found.psi == pytest.approx(psi, rel=1e-12)
    assert found.jensen_shannon == pytest.approx(bits, rel=1e-9)


def test_too_few_pictures_say_nothing():
    many, few = np.array([60, 60]), np.array([FEWEST // 2, FEWEST // 2 - 1])
    assert compare(many, few) is None
    assert compare(few, many) is None
    assert compare(many, few + np.array([0, 1])) is not None
    assert compare(np.array([0, 200, 1]), many.repeat(2)[:3]) is None  # a single bin holds all but nothing


@given(
    st.lists(st.integers(0, 500), min_size=2, max_size=30).filter(lambda one: sum(one) >= FEWEST),
    st.integers(0, 2**32 - 1),
)
def test_what_is_the_same_is_not_apart_and_nothing_is_negative(counts, seed):
    same = np.array(counts)
    shuffled = np.random.default_rng(seed).permutation(same)
    if (found := compare(same, same)) is not None:
        assert found.psi == pytest.approx(0, abs=1e-12)
        assert found.jensen_shannon == pytest.approx(0, abs=1e-12)
        other = compare(same, shuffled)
        assert other.psi >= 0
        assert -1e-12 <= other.jensen_shannon <= 1
        assert other.bins == found.bins <= 20  # none holds less than a twentieth


def test_chance_exceeds_the_limit_once_in_twenty_times():
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.full(25, 0.7))
    beyond = []
    for _ in range(2000):
        expected, observed = rng.multinomial(2000, shares), rng.multinomial(400, shares)
        found = compare(expected, observed)
        beyond.append(found.psi > found.by_chance)
    assert 0.03 < np.mean(beyond) < 0.07
