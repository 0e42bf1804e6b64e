"""Conformal thresholds against sorted scores by hand, and their coverage against the law it follows."""

from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta as beta_law
from scipy.stats import betabinom, kstest

from personalization.calibration.conformal import (
    count_truths,
    examples_needed,
    fit_threshold,
)
from registry.bundle.counts.score_bins import LOGIT_BINS, SCORE_BINS, lowest, merge, score_bin


def counts_of(of_truth):
    """The histogram of pictures whose true class has the given probabilities."""
    return np.bincount(score_bin(np.asarray(of_truth, dtype=np.float64)), minlength=SCORE_BINS)


def drawn(generator, n):
    """The histogram of n pictures whose true class has a uniform probability."""
    return counts_of(generator.random(n))


def test_threshold_is_the_bin_of_the_ranked_score():
    of_truth = [0.05, 0.31, 0.42, 0.55, 0.61, 0.70, 0.83, 0.90, 0.95, 0.99]

    threshold = fit_threshold(counts_of(of_truth), 0.8)

    assert threshold.rank == 9  # ceil(11 * 0.8)
    assert threshold.threshold_bin == score_bin(np.array(0.31))  # the ninth largest probability is 0.31
    assert threshold.n == 10
    assert threshold.guaranteed
    assert threshold.expected_coverage == pytest.approx(9 / 11)


@given(
    st.lists(st.floats(0.001, 0.999), min_size=1, max_size=60), st.sampled_from([0.5, 0.75, 0.8, 0.9, 0.95])
)
def test_threshold_equals_sorting_the_scores(of_truth, coverage):
    threshold = fit_threshold(counts_of(of_truth), coverage)
    rank = ceil(round((len(of_truth) + 1) * coverage, 9))

    assert threshold.rank == rank
    if rank > len(of_truth):
        assert threshold.threshold_bin == 0
        assert not threshold.guaranteed
    else:
        exact = 1 - np.sort(1 - np.array(of_truth))[rank - 1]
        assert LOGIT_BINS.lower(threshold.threshold_bin) <= exact + 1e-12
        in_set = score_bin(np.array(of_truth)) >= threshold.threshold_bin
        assert in_set.sum() >= rank  # the conservative edge
        assert (score_bin(np.array(of_truth)) > threshold.threshold_bin).sum() < rank  # and no lower


@pytest.mark.parametrize(
    ("coverage", "needed"), [(0.9, 9), (0.95, 19), (0.8, 4), (0.5, 1), (0.99, 99), (0.7, 3)]
)
def test_one_picture_fewer_than_needed_gives_no_guarantee(coverage, needed):
    config = coverage
    enough = fit_threshold(counts_of([0.6] * needed), config)
    short = fit_threshold(counts_of([0.6] * (needed - 1)), config)

    assert examples_needed(coverage) == needed
    assert enough.guaranteed
    assert enough.threshold_bin == score_bin(np.array(0.6))
    assert not short.guaranteed
    assert short.threshold_bin == 0
    assert short.expected_coverage == 1.0


def test_no_pictures_put_every_class_into_the_set():
    threshold = fit_threshold(counts_of([]), 0.9)

    assert (threshold.threshold_bin, threshold.n, threshold.guaranteed) == (0, 0, False)


def test_rounding_does_not_lift_the_rank():
    """In doubles 100 · 0.55 is 55.00000000000001, whose ceiling is 56."""
    assert fit_threshold(counts_of([0.5] * 99), 0.55).rank == 55
    assert fit_threshold(counts_of([0.5] * 9), 0.9).rank == 9


def test_expected_coverage_over_draws_of_the_calibration_split():
    """n = 25, α = 0.1: 24/26 = 0.923, and at most one bin more by rounding to the conservative edge."""
    generator = np.random.default_rng(0)
    bins = [fit_threshold(drawn(generator, 25), 0.9).threshold_bin for _ in range(4000)]
    coverages = 1 - LOGIT_BINS.edges[bins]  # of a new picture, whose p_y is uniform too
    widths = np.diff(LOGIT_BINS.edges)[bins]

    error = coverages.std() / np.sqrt(len(coverages))
    assert 24 / 26 - 3 * error <= coverages.mean() <= 24 / 26 + widths.mean() + 3 * error


def test_coverage_over_draws_follows_the_beta_law():
    generator = np.random.default_rng(1)
    bins = [fit_threshold(drawn(generator, 40), 0.8).threshold_bin for _ in range(2000)]
    spread_over_the_bin = (
        LOGIT_BINS.edges[bins] + generator.random(len(bins)) * np.diff(LOGIT_BINS.edges)[bins]
    )

    assert kstest(1 - spread_over_the_bin, beta_law(33, 8).cdf).pvalue > 0.01


def test_covered_pictures_of_a_finite_test_split_are_beta_binomial():
    """50 calibration and 30 test pictures: the number covered is BetaBinomial(30, rank, n + 1 − rank).

    A score within the threshold's bin is in the set with the exact threshold or not: a uniform draw decides.
    """
    generator = np.random.default_rng(2)
    covered = []
    for _ in range(3000):
        threshold_bin = fit_threshold(drawn(generator, 50), 0.9).threshold_bin
        low, high = LOGIT_BINS.edges[threshold_bin : threshold_bin + 2]
        covered.append((generator.random(30) >= generator.uniform(low, high)).sum())

    law = betabinom(30, 46, 5)
    observed = np.bincount(covered, minlength=31)[20:] / len(covered)
    assert observed == pytest.approx(law.pmf(np.arange(20, 31)), abs=0.04)
    assert np.mean(covered) == pytest.approx(law.mean(), abs=0.15)


@given(st.lists(st.floats(0.001, 0.999), min_size=10, max_size=80), st.integers(2, 8))
def test_merged_bins_never_promise_too_much(of_truth, smallest):
    """The threshold of a merged histogram covers at least as many calibration pictures as the exact one."""
    bins = score_bin(np.array(of_truth))
    merged = merge(bins, np.arange(len(bins)), smallest, lowest, from_below=True)
    exact = fit_threshold(counts_of(of_truth), 0.9)
    coarse = fit_threshold(np.bincount(merged, minlength=SCORE_BINS), 0.9)
    assert coarse.threshold_bin <= exact.threshold_bin
    assert (coarse.n, coarse.rank, coarse.guaranteed) == (exact.n, exact.rank, exact.guaranteed)


@given(st.integers(0, 2**32), st.integers(20, 60), st.integers(1, 3))
def test_what_leaves_is_of_several_patients_and_covers_no_fewer_than_it_says(seed, n, hospitals):
    random = np.random.default_rng(seed)
    probabilities, labels = random.dirichlet([1, 1, 1], n), random.integers(0, 3, n)
    places, patients = np.arange(n) % hospitals, np.arange(n)
    told = [
        count_truths(probabilities[at], labels[at], patients[at], 5)
        for at in (places == place for place in range(hospitals))
    ]
    assert all(each[each > 0].min() >= 5 for each in told)
    both, exact = sum(told), counts_of(probabilities[np.arange(n), labels])
    assert both.sum() == n
    covered, says = (of[::-1].cumsum()[::-1] for of in (exact, both))
    assert (covered >= says).all()
    alone = count_truths(probabilities, labels, patients, 1)
    np.testing.assert_array_equal(alone, exact, "the control: a patient a run")
