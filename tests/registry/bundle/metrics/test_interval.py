import numpy as np
import pytest

from registry.bundle.counts import count
from registry.bundle.metrics.classification import accuracy
from registry.bundle.metrics.interval import interval


def test_the_middle_95_percent():
    low, high = interval(np.random.default_rng(0).permutation(np.arange(1001) / 1000))
    assert (low, high) == (pytest.approx(0.025), pytest.approx(0.975))


def test_undefined_replicates_are_left_out_unless_they_are_most():
    assert interval(np.array([0.1, 0.2, np.nan])) == (pytest.approx(0.1025), pytest.approx(0.1975))
    assert interval(np.array([0.1, np.nan, np.nan])) is None
    assert interval(np.array([])) is None


def test_it_holds_the_true_accuracy_as_often_as_it_says():
    """300 samples of 150 lesions at a true accuracy of 0.8: 95 % of the intervals hold it, give or take."""
    rng = np.random.default_rng(1)
    held = 0
    for trial in range(300):
        right = rng.random(150) < 0.8
        probabilities = np.where(right[:, None], [0.9, 0.1], [0.1, 0.9])
        block = count(
            probabilities, np.zeros(150, int), malignant=np.array([True, False]), replicates=200, seed=trial
        )
        low, high = interval(accuracy(block.replicates))
        held += low <= 0.8 <= high
    assert 0.90 <= held / 300 <= 0.99


def test_pictures_of_one_lesion_widen_it(predictions):
    probabilities, labels = predictions(2, 50, 2)
    four_times = np.repeat(probabilities, 4, axis=0), np.repeat(labels, 4)

    def width(lesions):
        block = count(*four_times, malignant=np.array([True, False]), lesions=lesions, replicates=400)
        low, high = interval(accuracy(block.replicates))
        return high - low

    assert width(np.arange(200) // 4) / width(np.arange(200)) == pytest.approx(2, rel=0.25)
