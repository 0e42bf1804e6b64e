import numpy as np
import pytest

from registry.bundle.counts.counts import Confusion
from registry.bundle.metrics.fairness import fairness_limits
from registry.bundle.metrics.intervals import DesignEffect, Sample
from registry.bundle.metrics.summary import FAIRNESS

SIZES, DRAWS = (100, 230, 500), 250


def sample(right, n):
    """Subgroups of one class, `(draws,)`; the other class has no picture."""
    rows = np.stack([right, n - right], axis=-1)
    matrices = np.stack([rows, np.zeros_like(rows)], axis=-2)
    return Sample(Confusion(matrices), DesignEffect(np.zeros(len(right)), np.ones((len(right), 2))))


# 250 draws at a coverage of 0.93 give 0.88 or more in 99.8 % of cases.
@pytest.mark.parametrize("accuracies", [(0.75, 0.75, 0.75), (0.72, 0.75, 0.78), (0.6, 0.75, 0.85)])
def test_intervals_hold_the_truth(accuracies):
    rng = np.random.default_rng(5)
    of_each = list(zip(accuracies, SIZES, strict=True))
    drawn = {str(n): sample(rng.binomial(n, share, DRAWS), n) for share, n in of_each}
    whole = {str(n): sample(np.array([round(share * 1000) * n]), 1000 * n).counts for share, n in of_each}
    found = fairness_limits(drawn)
    assert set(found) == set(FAIRNESS)
    for name, figure in FAIRNESS.items():
        truth = float(figure(whole)[0])
        held = (found[name].low <= truth + 1e-9) & (truth <= found[name].high + 1e-9)
        assert held.mean() >= 0.88, name


def test_of_equal_subgroups_a_spread_of_nothing_is_compatible_and_of_far_ones_it_is_not():
    def spread(dark):
        of = fairness_limits({"dark": sample(np.array([dark]), 100), "light": sample(np.array([75]), 100)})
        return of["spread"]

    assert spread(73).low[0] == 0
    assert spread(40).low[0] > 0.1
    assert spread(40).value[0] == pytest.approx(0.35)


def test_one_subgroup_is_compared_with_nobody():
    assert fairness_limits({"dark": sample(np.array([4]), 5)}) == {}
