"""Working points against the binomial distribution, and against the scores where bins are merged."""

import numpy as np
import pytest
from scipy.stats import binom

from personalization.calibration.at_thresholds import (
    LEVEL,
    CountsAt,
    fit_working_point,
    propose_working_points,
)
from personalization.calibration.triage import count_malignancies
from registry.bundle.counts.score_bins import SCORE_BINS, score_bin

SIDES = np.array([-1, 0])


def histogram(scores):
    """Scores of malignant lesions, unmerged."""
    return np.bincount(score_bin(np.array(scores, dtype=float)), minlength=SCORE_BINS)


def fit(counted, target, exact=None):
    """The working point, from counts of a histogram at the thresholds that it proposes, or exact ones."""
    at = propose_working_points(counted, target)
    return fit_working_point(CountsAt.of((counted if exact is None else exact)[np.newaxis], at), target)


def spread(n):
    """n scores in as many bins."""
    return 1 / (1 + np.exp(-np.linspace(-6, 6, n)))


def may_be_missed(n, target):
    """The most of n that may be missed where the sensitivity is the target, by the binomial distribution."""
    return max((m for m in range(n + 1) if binom.cdf(m, n, 1 - target) <= 1 - LEVEL), default=None)


@pytest.mark.parametrize("target", [0.8, 0.95])
@pytest.mark.parametrize("n", [1, 13, 14, 58, 59, 92, 93, 150])
def test_the_threshold_is_the_score_of_the_rank_that_the_binomial_gives(n, target):
    point = fit(histogram(spread(n)), target)
    missed = may_be_missed(n, target)
    assert (point.n, point.target, point.level) == (n, target, 0.95)
    assert point.reached is (missed is not None)
    assert point.threshold_bin == score_bin(spread(n))[missed or 0]
    found = n - (missed or 0)
    # At its lower limit, so many or more are found in exactly one of twenty draws.
    assert binom.sf(found - 1, n, point.sensitivity_low) == pytest.approx(1 - LEVEL)


def test_59_malignant_lesions_are_the_fewest_for_95_of_100():
    assert not fit(histogram(spread(58)), 0.95).reached
    assert fit(histogram(spread(59)), 0.95).reached
    few = fit(histogram(spread(21)), 0.95)
    assert few.threshold_bin == score_bin(spread(21))[0], "none is missed"
    assert few.sensitivity_low == pytest.approx(0.05 ** (1 / 21))


def test_lesions_that_share_a_score_promise_no_more_than_their_number():
    """What is shown depends on n alone: of a limit that ties may choose, one in twenty would not hold."""
    alike, apart = (fit(histogram(scores), 0.95) for scores in ([0.3] * 40 + [0.9] * 80, spread(120)))
    assert alike.sensitivity_low == apart.sensitivity_low
    assert alike.threshold_bin == score_bin(np.array(0.3))


def test_exact_counts_take_back_what_merging_cost():
    """Where runs of eight hospitals count a few malignant lesions too low."""
    random = np.random.default_rng(4)
    labels, places = np.repeat([1, 0], [200, 800]), random.integers(0, 8, 1000)
    scores = 1 / (1 + np.exp(-random.normal(np.where(labels, 2, -2), 1.2)))
    exact, merged = histogram(scores[:200]), np.zeros(SCORE_BINS, dtype=np.int64)
    for at in (places == place for place in range(8)):
        both = np.stack([1 - scores[at], scores[at]], axis=1)
        merged += count_malignancies(both, labels[at], SIDES, np.arange(at.sum()), 5)[1]
    alone, counted, best = (
        fit(*each).threshold_bin for each in ((merged, 0.95), (merged, 0.95, exact), (exact, 0.95))
    )
    assert alone < counted <= best
    assert exact[:counted].sum() <= may_be_missed(200, 0.95)


def test_without_malignant_lesions_there_is_none():
    assert fit(histogram([]), 0.95) is None
