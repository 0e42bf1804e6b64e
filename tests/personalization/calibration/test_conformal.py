"""Conformal thresholds against sorted scores by hand, and their coverage against the law it follows.

Thresholds of distance against sorting, and the share called unfamiliar against the law it follows.
"""

from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import betabinom

from personalization.calibration.conformal import (
    count_distances,
    count_truths,
    examples_needed,
    fit_threshold,
    flagged,
    no_distances,
    ood_detector,
    ood_facts,
    ood_threshold,
)
from personalization.calibration.mahalanobis import class_sums, fit_gaussians
from registry.bundle.model import distance_bin, upper_edge
from registry.bundle.score_bins import LOGIT_BINS, SCORE_BINS, lowest, merge, score_bin


def counts_of(of_truth):
    """The histogram of pictures whose true class has the given probabilities."""
    return np.bincount(score_bin(np.asarray(of_truth, dtype=np.float64)), minlength=SCORE_BINS)


def drawn(generator, n):
    """The histogram of n pictures whose true class has a uniform probability."""
    return counts_of(generator.random(n))


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
        assert threshold.n == len(of_truth)
        assert threshold.expected_coverage == pytest.approx(rank / (len(of_truth) + 1))
        exact = 1 - np.sort(1 - np.array(of_truth))[rank - 1]
        assert LOGIT_BINS.lower(threshold.threshold_bin) <= exact + 1e-12
        in_set = score_bin(np.array(of_truth)) >= threshold.threshold_bin
        assert in_set.sum() >= rank  # the conservative edge
        assert (score_bin(np.array(of_truth)) > threshold.threshold_bin).sum() < rank  # and no lower


@pytest.mark.parametrize(
    ("coverage", "needed"), [(0.9, 9), (0.95, 19), (0.8, 4), (0.5, 1), (0.99, 99), (0.7, 3)]
)
def test_one_picture_fewer_than_needed_gives_no_guarantee(coverage, needed):
    enough, short = (fit_threshold(counts_of([0.6] * n), coverage) for n in (needed, needed - 1))

    assert examples_needed(coverage) == needed
    assert enough.guaranteed
    assert enough.threshold_bin == score_bin(np.array(0.6))
    for few in (short, fit_threshold(counts_of([]), coverage)):
        assert (few.guaranteed, few.threshold_bin, few.expected_coverage) == (False, 0, 1.0)


def test_rounding_does_not_lift_the_rank():
    """In doubles 100 · 0.55 is 55.00000000000001, whose ceiling is 56."""
    assert fit_threshold(counts_of([0.5] * 99), 0.55).rank == 55
    assert fit_threshold(counts_of([0.5] * 9), 0.9).rank == 9


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


@given(st.lists(st.floats(1e-2, 1e8), min_size=1, max_size=80), st.sampled_from([0.5, 0.25, 0.2, 0.1, 0.05]))
def test_the_threshold_equals_sorting_the_distances(distances, rate):
    threshold = ood_threshold(count_distances(np.array(distances)), rate)
    rank = ceil(round((len(distances) + 1) * (1 - rate), 9))

    if rank > len(distances):
        assert threshold is None
    else:
        exact = np.sort(distances)[rank - 1]
        assert threshold == distance_bin(np.array(exact))
        assert exact <= upper_edge(threshold) * (1 + 1e-12)
        above = distance_bin(np.array(distances)) > threshold
        assert above.sum() <= len(distances) - rank
        assert flagged(count_distances(np.array(distances)), threshold) == pytest.approx(above.mean())


@pytest.mark.parametrize(("rate", "needed"), [(0.05, 19), (0.1, 9), (0.01, 99), (0.3, 3), (0.5, 1)])
def test_one_picture_fewer_than_needed_calls_nothing_unfamiliar(rate, needed):
    enough = ood_threshold(count_distances(np.full(needed, 7.0)), rate)
    short = ood_threshold(count_distances(np.full(needed - 1, 7.0)), rate)

    assert enough == distance_bin(np.array(7.0))
    assert short is None
    assert flagged(count_distances(np.full(5, 1e8)), short) is None
    assert ood_threshold(no_distances(), rate) is None


def test_a_rank_in_the_last_bin_which_has_no_end_is_no_threshold():
    assert ood_threshold(count_distances(np.full(50, 1e12)), 0.05) is None


def test_known_pictures_called_unfamiliar_are_beta_binomial():
    """50 calibration and 30 new pictures: BetaBinomial(30, n + 1 − rank, rank), or less by rounding."""
    rng = np.random.default_rng(0)
    called = []
    for _ in range(4000):
        histogram = count_distances(np.exp(rng.normal(4, 1, 50)))
        threshold = ood_threshold(histogram, 0.1)
        called.append((distance_bin(np.exp(rng.normal(4, 1, 30))) > threshold).sum())

    law = betabinom(30, 51 - 46, 46)  # rank = ceil(51 · 0.9) = 46
    observed = np.bincount(called, minlength=31)[:12] / len(called)
    assert observed == pytest.approx(law.pmf(np.arange(12)), abs=0.03)
    error = np.std(called) / np.sqrt(len(called))
    # A bin spans 1.2 % of the distance, 0.0115 of a standard deviation: less than 0.3 % of pictures there.
    assert law.mean() - 30 * 0.003 - 3 * error <= np.mean(called) <= law.mean() + 3 * error
    assert law.mean() / 30 <= 0.1


def test_the_rate_holds_on_embeddings_from_sums_to_decision():
    """Fitted on 400, calibrated on 200: 5 % of known pictures are called so, and all of an unseen class."""
    rng = np.random.default_rng(1)
    means = rng.normal(0, 4, (4, 10))  # the last class is never trained on
    mixing = rng.normal(size=(10, 10)) / 2

    def pictures(n: int, classes: list[int]) -> tuple[np.ndarray, np.ndarray]:
        labels = rng.choice(classes, n)
        return means[labels] + rng.normal(size=(n, 10)) @ mixing, labels

    shares, unseen = [], []
    for _ in range(60):
        gaussians = fit_gaussians(class_sums(*pictures(400, [0, 1, 2]), 3, min_count=10))
        far = gaussians.distances(pictures(200, [0, 1, 2])[0])
        threshold = ood_threshold(count_distances(far), 0.05)
        new = count_distances(gaussians.distances(pictures(100, [0, 1, 2])[0]))
        shares.append(flagged(new, threshold))
        unseen.append(flagged(count_distances(gaussians.distances(pictures(50, [3])[0])), threshold))

    law = betabinom(100, 201 - 191, 191)  # rank = ceil(201 · 0.95) = 191
    assert np.mean(shares) == pytest.approx(law.mean() / 100, abs=4 * law.std() / 100 / np.sqrt(60) + 0.003)
    assert law.ppf(0.0001) <= 100 * min(shares)
    assert 100 * max(shares) <= law.ppf(0.9999)
    assert min(unseen) > 0.9


def test_what_is_told():
    gaussians = fit_gaussians(class_sums(np.eye(4, 2) * 3 + np.ones((4, 2)), np.zeros(4, int), 1, 1))
    calibration = count_distances(np.full(19, 0.99))
    found = ood_detector(gaussians, ("MEL",), 4, calibration, 0.05)
    place = int(distance_bin(np.array(0.99)))
    assert (found.classes, found.threshold_bin, found.n, found.trained_on) == (("MEL",), place, 19, 4)
    assert ood_facts(found, 0.05, count_distances(np.array([0.5, 0.5, 2.0, 0.99]))) == {
        "threshold": upper_edge(place),
        "rate": 0.05,
        "n": 19,
        "trained_on": 4,
        "classes": ["MEL"],
        "flagged": 0.25,
    }
    nothing = ood_facts(None, 0.05, no_distances())
    assert (nothing["threshold"], nothing["n"], nothing["classes"], nothing["flagged"]) == (None, 0, [], None)
