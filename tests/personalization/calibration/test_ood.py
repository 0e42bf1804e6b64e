"""Thresholds of distance against sorting, and the share called unfamiliar against the law it follows."""

from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import betabinom

from personalization.calibration.conformal import (
    count_distances,
    flagged,
    no_distances,
    ood_detector,
    ood_facts,
    ood_threshold,
)
from personalization.calibration.mahalanobis import class_sums, fit_gaussians
from registry.bundle.model import distance_bin, upper_edge


def test_the_threshold_is_the_bin_of_the_ranked_distance():
    distances = np.array([3.0, 1.0, 40.0, 5.0, 2.0, 8.0, 700.0, 6.0, 9.0])

    threshold = ood_threshold(count_distances(distances), 0.2)

    # ceil(10 · 0.8) = 8: the eighth smallest of nine is 40, in the bin from 10^(920/200 − 3) = 39.81 on.
    assert threshold == 920
    assert upper_edge(threshold) == pytest.approx(10 ** (921 / 200 - 3))
    assert flagged(count_distances(distances), threshold) == pytest.approx(1 / 9)


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
