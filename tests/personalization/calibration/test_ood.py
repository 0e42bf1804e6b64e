"""Thresholds of distance against sorting, and the share called unfamiliar against the law it follows."""

from math import ceil

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import betabinom

from personalization.calibration.conformal import (
    OodDetector,
    OodThreshold,
    count_distances,
    fit_ood,
    no_distances,
    read_histogram,
)
from personalization.calibration.mahalanobis import class_sums, fit_gaussians
from registry.bundle.model import DISTANCE_BINS, distance_bin, upper_edge
from training.errors import MessageError
from training.messages.message import Update


def test_the_threshold_is_the_bin_of_the_ranked_distance():
    distances = np.array([3.0, 1.0, 40.0, 5.0, 2.0, 8.0, 700.0, 6.0, 9.0])

    threshold = fit_ood(count_distances(distances), 0.2)

    # ceil(10 · 0.8) = 8: the eighth smallest of nine is 40, in the bin from 10^(920/200 − 3) = 39.81 on.
    assert threshold.threshold_bin == 920
    assert threshold.value == pytest.approx(10 ** (921 / 200 - 3))
    assert threshold.n == 9
    assert threshold.flagged(count_distances(distances)) == pytest.approx(1 / 9)


@given(st.lists(st.floats(1e-2, 1e8), min_size=1, max_size=80), st.sampled_from([0.5, 0.25, 0.2, 0.1, 0.05]))
def test_the_threshold_equals_sorting_the_distances(distances, rate):
    threshold = fit_ood(count_distances(np.array(distances)), rate)
    rank = ceil(round((len(distances) + 1) * (1 - rate), 9))

    if rank > len(distances):
        assert threshold.threshold_bin is None
    else:
        exact = np.sort(distances)[rank - 1]
        assert threshold.threshold_bin == distance_bin(np.array(exact))
        assert exact <= threshold.value * (1 + 1e-12)
        above = distance_bin(np.array(distances)) > threshold.threshold_bin
        assert above.sum() <= len(distances) - rank


@pytest.mark.parametrize(("rate", "needed"), [(0.05, 19), (0.1, 9), (0.01, 99), (0.3, 3), (0.5, 1)])
def test_one_picture_fewer_than_needed_calls_nothing_unfamiliar(rate, needed):
    enough = fit_ood(count_distances(np.full(needed, 7.0)), rate)
    short = fit_ood(count_distances(np.full(needed - 1, 7.0)), rate)

    assert enough.threshold_bin == distance_bin(np.array(7.0))
    assert (short.threshold_bin, short.value) == (None, None)
    assert short.flagged(count_distances(np.full(5, 1e8))) is None
    assert fit_ood(no_distances(), rate).threshold_bin is None


def test_a_rank_in_the_last_bin_which_has_no_end_is_no_threshold():
    assert fit_ood(count_distances(np.full(50, 1e12)), 0.05).threshold_bin is None


def test_known_pictures_called_unfamiliar_are_beta_binomial():
    """50 calibration and 30 new pictures: BetaBinomial(30, n + 1 − rank, rank), or less by rounding."""
    rng = np.random.default_rng(0)
    flagged = []
    for _ in range(4000):
        histogram = count_distances(np.exp(rng.normal(4, 1, 50)))
        threshold = fit_ood(histogram, 0.1).threshold_bin
        flagged.append((distance_bin(np.exp(rng.normal(4, 1, 30))) > threshold).sum())

    law = betabinom(30, 51 - 46, 46)  # rank = ceil(51 · 0.9) = 46
    observed = np.bincount(flagged, minlength=31)[:12] / len(flagged)
    assert observed == pytest.approx(law.pmf(np.arange(12)), abs=0.03)
    error = np.std(flagged) / np.sqrt(len(flagged))
    # A bin spans 1.2 % of the distance, 0.0115 of a standard deviation: less than 0.3 % of pictures there.
    assert law.mean() - 30 * 0.003 - 3 * error <= np.mean(flagged) <= law.mean() + 3 * error
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
        threshold = fit_ood(count_distances(far), 0.05)
        new = count_distances(gaussians.distances(pictures(100, [0, 1, 2])[0]))
        shares.append(threshold.flagged(new))
        unseen.append(threshold.flagged(count_distances(gaussians.distances(pictures(50, [3])[0]))))

    law = betabinom(100, 201 - 191, 191)  # rank = ceil(201 · 0.95) = 191
    assert np.mean(shares) == pytest.approx(law.mean() / 100, abs=4 * law.std() / 100 / np.sqrt(60) + 0.003)
    assert law.ppf(0.0001) <= 100 * min(shares)
    assert 100 * max(shares) <= law.ppf(0.9999)
    assert min(unseen) > 0.9


def test_what_is_told():
    gaussians = fit_gaussians(class_sums(np.eye(4, 2) * 3 + np.ones((4, 2)), np.zeros(4, int), 1, 1))
    detector = OodDetector(gaussians, ("MEL",), 4, OodThreshold(600, 0.05, 19))
    test = count_distances(np.array([0.5, 0.5, 2.0, 1.0]))
    assert detector.facts(test) == {
        "threshold": upper_edge(600),
        "rate": 0.05,
        "n": 19,
        "trained_on": 4,
        "classes": ["MEL"],
        "flagged": 0.25,
    }
    entry = detector.entry()
    assert (entry.classes, entry.threshold_bin, entry.n, entry.trained_on) == (("MEL",), 600, 19, 4)
    nothing = OodDetector(None, (), 0, fit_ood(no_distances(), 0.05))
    assert nothing.entry() is None
    assert nothing.facts(no_distances())["flagged"] is None


@pytest.mark.parametrize(
    "tensors",
    [
        {},
        {"distances": torch.zeros(3, dtype=torch.int64)},
        {"distances": torch.zeros(DISTANCE_BINS)},
        {"distances": torch.full((DISTANCE_BINS,), -1)},
    ],
)
def test_what_is_no_histogram_is_refused(tensors):
    with pytest.raises(MessageError, match=r"north sent .* whole numbers from 0 on"):
        read_histogram(Update("north", "0-calibrate", 0, "distances", "global", tensors))
