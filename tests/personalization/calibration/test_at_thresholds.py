"""Thresholds from counts against the binomial distribution, also where labels chose the threshold.

Working points against the binomial distribution, and against the scores where bins are merged.
"""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from personalization.calibration.at_thresholds import (
    LEVEL,
    STEPS,
    UNUSED,
    CountsAt,
    fewest_needed,
    fit_working_point,
    largest_shown,
    most_allowed,
    propose,
    propose_working_points,
    read_thresholds,
    to_tensor,
)
from personalization.calibration.triage import count_malignancies
from registry.bundle.metrics.intervals import clopper_pearson
from registry.bundle.score_bins import SCORE_BINS, lowest, merge, score_bin
from training.errors import MessageError

kinds_and_scores = st.lists(st.tuples(st.integers(0, 1), st.integers(0, SCORE_BINS - 1)), max_size=80)


def histogram(kind, scores):
    """Lesions of two kinds by score bin."""
    found = np.zeros((2, SCORE_BINS), dtype=np.int64)
    np.add.at(found, (kind, scores), 1)
    return found


@pytest.mark.parametrize("beta", [0.05, 0.1, 0.3])
@pytest.mark.parametrize("n", [0, 1, 28, 29, 58, 59, 92, 93, 400])
def test_as_many_misses_are_allowed_as_the_binomial_distribution_says(n, beta):
    expected = [m for m in range(n) if binom.cdf(m, n, beta) <= 1 - LEVEL]
    assert most_allowed(n, beta) == max(expected, default=-1)
    assert (fewest_needed(beta) <= n) is bool(expected)


@given(kinds_and_scores, st.lists(st.integers(0, SCORE_BINS), max_size=STEPS).map(sorted))
def test_counts_at_thresholds_are_those_of_the_lesions(lesions, thresholds):
    kind, scores = np.array(lesions, dtype=int).reshape(-1, 2).T
    counts = CountsAt.of(histogram(kind, scores), thresholds)
    for place, threshold in enumerate(thresholds):
        for row in (0, 1):
            assert counts.below[row, place] == ((scores < threshold) & (kind == row)).sum()
            assert counts.from_here[row, place] == ((scores >= threshold) & (kind == row)).sum()
    assert counts.n.tolist() == [(kind == 0).sum(), (kind == 1).sum()]
    filled = to_tensor([thresholds], STEPS)[0].tolist()
    sent = CountsAt.of(histogram(kind, scores), filled).between
    np.testing.assert_array_equal(CountsAt.up_to(thresholds, sent).between, counts.between)


@given(kinds_and_scores, st.integers(-1, 5), st.integers(-1, 5))
def test_the_largest_is_the_last_below_which_no_kind_is_missed_too_often(lesions, one, other):
    kind, scores = np.array(lesions, dtype=int).reshape(-1, 2).T
    counted, allowed = histogram(kind, scores), [one, other]
    may = [
        t
        for t in range(SCORE_BINS)
        if all(((scores < t) & (kind == row)).sum() <= allowed[row] for row in (0, 1))
    ]
    every = CountsAt.of(counted, range(SCORE_BINS))
    assert largest_shown(every, allowed) == max(may, default=None)
    proposed = propose(counted, allowed)
    assert len(proposed) <= STEPS
    assert largest_shown(CountsAt.of(counted, proposed), allowed) == max(may, default=None)


def adversary(scores, allowed):
    """Of all thresholds, knowing every label, the one that misses most and passes."""
    return largest_shown(CountsAt.of(scores[None], range(SCORE_BINS)), [allowed])


def by_runs(scores, allowed):
    """That of `calibrate`: proposed by the merged histogram with labels, counted exactly."""
    pictures = np.repeat(np.arange(SCORE_BINS), scores)
    merged = merge(pictures, np.arange(len(pictures)), 5, lowest, from_below=True)
    told = np.bincount(merged, minlength=SCORE_BINS)[None]
    return largest_shown(CountsAt.of(scores[None], propose(told, [allowed])), [allowed])


@pytest.mark.parametrize("choose", [adversary, by_runs])
@pytest.mark.parametrize("n", [20, 29, 60, 200])
@pytest.mark.parametrize("values", [1, 3, 40, SCORE_BINS], ids="{}-scores".format)
def test_whatever_labels_choose_misses_too_many_in_one_of_twenty_fits_at_most(choose, n, values):
    """Also where scores are tied or all the same, and of lesions of one class alone."""
    draws, beta = 1500, 0.1
    random = np.random.default_rng([n, values])
    places = np.linspace(100, 200, values).astype(int) if values < SCORE_BINS else np.arange(SCORE_BINS)
    chances = np.zeros(SCORE_BINS)
    chances[places] = 1 / values
    risk = np.concatenate([[0.0], chances.cumsum()])
    broken = 0
    for scores in random.multinomial(n, chances, draws):
        chosen = choose(scores, most_allowed(n, beta))
        broken += chosen is not None and risk[chosen] > beta + 1e-9
    assert clopper_pearson(broken, draws)[0] <= 1 - LEVEL


def test_the_control_a_share_among_answers_that_labels_choose_is_broken():
    """The denominator moves with the threshold: the best of many is no threshold that was fixed."""
    draws, target, broken = 1000, 0.1, 0
    random = np.random.default_rng(5)
    for _ in range(draws):
        wrong = random.random(300) < 0.105  # the same at every score
        answered = np.arange(1, 301)
        broken += bool((binom.cdf(wrong.cumsum(), answered, target) <= 1 - LEVEL).any())
    assert clopper_pearson(broken, draws)[0] > 1 - LEVEL


def test_thresholds_travel_and_arrive_the_same():
    np.testing.assert_array_equal(
        read_thresholds(to_tensor([(3, 7), ()], 5), 2, 5), [[3, 7, *[UNUSED] * 3], [UNUSED] * 5]
    )


@pytest.mark.parametrize(
    "sent",
    [
        None,
        torch.zeros(1, 5),
        torch.zeros(1, 6, dtype=torch.int32),
        torch.tensor([[5, 4, 9, 9, 9]], dtype=torch.int32),
        torch.tensor([[-1, 4, 9, 9, 9]], dtype=torch.int32),
        torch.tensor([[1, 4, 9, 9, UNUSED + 1]], dtype=torch.int32),
    ],
)
def test_what_are_no_thresholds_is_refused(sent):
    with pytest.raises(MessageError, match="asks at"):
        read_thresholds(sent, 1, STEPS)


SIDES = np.array([-1, 0])


def histogram_working_point(scores):
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
    point = fit(histogram_working_point(spread(n)), target)
    missed = may_be_missed(n, target)
    assert (point.n, point.target, point.level) == (n, target, 0.95)
    assert point.reached is (missed is not None)
    assert point.threshold_bin == score_bin(spread(n))[missed or 0]
    found = n - (missed or 0)
    # At its lower limit, so many or more are found in exactly one of twenty draws.
    assert binom.sf(found - 1, n, point.sensitivity_low) == pytest.approx(1 - LEVEL)
    assert fit(histogram_working_point([]), target) is None, "without malignant lesions"


def test_lesions_that_share_a_score_promise_no_more_than_their_number():
    """What is shown depends on n alone: of a limit that ties may choose, one in twenty would not hold."""
    alike, apart = (
        fit(histogram_working_point(scores), 0.95) for scores in ([0.3] * 40 + [0.9] * 80, spread(120))
    )
    assert alike.sensitivity_low == apart.sensitivity_low
    assert alike.threshold_bin == score_bin(np.array(0.3))


def test_exact_counts_take_back_what_merging_cost():
    """Where runs of eight hospitals count a few malignant lesions too low."""
    random = np.random.default_rng(4)
    labels, places = np.repeat([1, 0], [200, 800]), random.integers(0, 8, 1000)
    scores = 1 / (1 + np.exp(-random.normal(np.where(labels, 2, -2), 1.2)))
    exact, merged = histogram_working_point(scores[:200]), np.zeros(SCORE_BINS, dtype=np.int64)
    for at in (places == place for place in range(8)):
        both = np.stack([1 - scores[at], scores[at]], axis=1)
        merged += count_malignancies(both, labels[at], SIDES, np.arange(at.sum()), 5)[1]
    alone, counted, best = (
        fit(*each).threshold_bin for each in ((merged, 0.95), (merged, 0.95, exact), (exact, 0.95))
    )
    assert alone < counted <= best
    assert exact[:counted].sum() <= may_be_missed(200, 0.95)
