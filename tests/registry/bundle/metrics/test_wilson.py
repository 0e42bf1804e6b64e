import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from registry.bundle.metrics import classification as of
from registry.bundle.metrics.estimate import ends
from registry.bundle.metrics.wilson import mean_interval, widened


def wilson(x, n):
    """SciPy's interval of one proportion."""
    found = binomtest(x, n).proportion_ci(method="wilson")
    return found.low, found.high


@pytest.mark.parametrize(("x", "n"), [(0, 3), (3, 3), (7, 10), (1, 1), (200, 400)])
def test_of_one_proportion_it_is_scipys(x, n):
    assert mean_interval(np.array([x]), np.array([n])) == pytest.approx(wilson(x, n))


def test_of_several_the_squared_distances_to_their_ends_add_up():
    """Recalls of 3 of 3 pictures and of 54 of 60; a class without pictures is left out."""
    rare, common = wilson(3, 3), wilson(54, 60)
    low = 0.95 - np.hypot(1 - rare[0], 0.9 - common[0]) / 2
    high = 0.95 + np.hypot(rare[1] - 1, common[1] - 0.9) / 2
    assert mean_interval(np.array([3, 0, 54]), np.array([3, 0, 60])) == pytest.approx((low, high))


PROPORTIONS = st.lists(st.integers(0, 50).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))


@given(PROPORTIONS, st.floats(0, 1), st.floats(0, 1))
def test_it_widens_and_never_narrows_and_stays_a_share(proportions, one, other):
    found = min(one, other), max(one, other)
    x, n = np.array(proportions, dtype=int).reshape(-1, 2).T
    low, high = widened(found, x, n)
    assert -1e-12 <= low <= found[0]
    assert found[1] <= high <= 1 + 1e-12
    if np.count_nonzero(n) < 2:
        assert (low, high) == found


FIGURES = {
    "balanced_accuracy": (of.balanced_accuracy, of.answers_by_class),
    "specificity": (of.specificity, of.other_answers_by_class),
}


@pytest.fixture
def measure(block_of, draw_confusion):
    """How often the interval of a figure holds the truth, and its mean width: of percentiles, and as told."""

    def run(name, pictures, recalls, trials=400):
        rng, (figure, tally) = np.random.default_rng(11), FIGURES[name]
        truth = np.mean(recalls)  # of two classes, also that of the specificities
        held, width = np.zeros(2), np.zeros(2)
        for _ in range(trials):
            block = block_of(draw_confusion(rng, pictures, recalls), rng)
            point, replicates, proportions = figure(block.point), figure(block.replicates), tally(block.point)
            percentiles = np.quantile(replicates[~np.isnan(replicates)], [0.025, 0.975])
            told = ends(name, point, replicates, proportions)
            for place, (low, high) in enumerate((percentiles, told)):
                held[place] += low - 1e-9 <= truth <= high + 1e-9
                width[place] += high - low
        return held / trials, width / trials

    return run


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize(("pictures", "recalls"), [((3, 60), (0.6, 0.9)), ((3, 60), (0.9, 0.9))])
def test_a_class_of_three_pictures_does_not_seem_certain(measure, name, pictures, recalls):
    held, _ = measure(name, pictures, recalls)
    assert held[0] < 0.85
    assert held[1] >= 0.93


@pytest.mark.parametrize("name", FIGURES)
def test_where_no_class_is_rare_it_is_hardly_wider(measure, name):
    held, width = measure(name, (50, 50), (0.6, 0.9))
    assert 0.93 <= held[1] <= 0.985
    assert width[1] / width[0] <= 1.1
