"""What thresholds do to test pictures, with intervals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.bundle.counting import count
from registry.bundle.counts import Concluded, Counts, Thresholds
from registry.bundle.metrics.selective import aurc, decided
from registry.bundle.score_bins import SCORE_BINS, score_bin


def counts_of(places, right):
    counts = Counts.zeros(2)
    for place, is_right in zip(places, right, strict=True):
        counts.confidence[int(is_right), place] += 1
        counts.confusion[0, 0 if is_right else 1] += 1
    return counts


def naive_area(wrong):
    """Mean over i of the risk among the first i, for pictures in order of confidence."""
    return np.mean([np.mean(wrong[: i + 1]) for i in range(len(wrong))])


@given(seed=st.integers(0, 2**32), n=st.integers(1, 60))
@settings(max_examples=25)
def test_area_of_distinct_confidences_is_the_definition(seed, n):
    rng = np.random.default_rng(seed)
    places = rng.choice(SCORE_BINS, size=n, replace=False)
    right = rng.random(n) < 0.7
    wrong = 1 - right[np.argsort(-places)].astype(int)
    assert aurc(counts_of(places, right)) == pytest.approx(naive_area(wrong))


def told(set_from, concluded_from, copies=1):
    """Of 40 lesions of the first class, 30 have probability 0.8 for it, 6 have 0.6, and 4 have 0.3.

    Args:
        set_from: the smallest probability of a class in the set.
        concluded_from: the smallest probability of a class that is concluded.
        copies: pictures of each lesion, all alike.
    """
    first = np.repeat([0.8, 0.6, 0.3], [30, 6, 4]).repeat(copies)
    probabilities = np.stack([first, 1 - first], axis=1)
    node = np.where(probabilities.max(axis=1) >= concluded_from, probabilities.argmax(axis=1), -1)
    block = count(
        probabilities,
        np.zeros(40 * copies, int),
        malignant=np.array([True, False]),
        lesions=np.arange(40).repeat(copies),
        thresholds=Thresholds(int(score_bin(np.array(set_from)))),
        concluded=Concluded(node, node == 1, 2),
    )
    return decided(block.decisions)


def test_by_hand():
    figures = told(0.5, 0.65)
    assert figures["coverage"] == pytest.approx(36 / 40)
    assert figures["set_size"] == 1
    assert figures["reported"] == pytest.approx(34 / 40)  # 0.8 right, and 0.7 wrong
    assert figures["reported_risk"] == pytest.approx(4 / 34)
    for name in ("coverage", "reported", "reported_risk"):
        low, high = figures["intervals"][name]
        assert 0 <= low < figures[name] < high <= 1


def test_sensitivity_and_specificity_are_those_at_the_working_point():
    """Ten malignant pictures, two of them below 0.3, and 20 others, five of them from there on."""
    malignant = np.repeat([0.2, 0.4, 0.1, 0.6], [2, 8, 15, 5])
    block = count(
        np.stack([malignant, 1 - malignant], axis=1),
        np.repeat([0, 1], [10, 20]),
        malignant=np.array([True, False]),
        thresholds=Thresholds(0, int(score_bin(np.array(0.3)))),
    )
    figures = decided(block.decisions)
    assert figures["sensitivity_at_threshold"] == pytest.approx(0.8)
    assert figures["specificity_at_threshold"] == pytest.approx(0.75)
    assert figures["intervals"]["sensitivity_at_threshold"] == pytest.approx([0.4439, 0.9748], abs=1e-4)


@pytest.mark.parametrize("thresholds", [(0.5, 0.65), (0, 0), (0.7, 0.75)])
def test_pictures_of_a_lesion_that_are_all_alike_tell_no_more_than_one(thresholds):
    once, thrice = told(*thresholds)["intervals"], told(*thresholds, copies=3)["intervals"]
    for name, ends in once.items():
        assert thrice[name] == pytest.approx(ends, abs=1e-9)
