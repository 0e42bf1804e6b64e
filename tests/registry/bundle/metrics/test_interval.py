import numpy as np
import pytest

from registry.bundle.counts.count import count
from registry.bundle.metrics.calibration import ece
from registry.bundle.metrics.classification import accuracy
from registry.bundle.metrics.interval import NOISE, interval
from registry.bundle.metrics.summary import FAIRNESS


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


def test_replicates_that_are_all_equal_say_nothing():
    assert interval(np.ones(200)) is None
    assert interval(np.array([0.5, 0.5, np.nan])) is None


@pytest.mark.parametrize("noise", [None, "raises", "lowers"])
def test_rounding_does_not_make_an_interval(noise):
    noisy = np.array([0.299, 0.299 + 1e-16, 0.29899999999999993, 0.29900000000000015] * 50)
    assert np.ptp(noisy) > 0
    assert interval(noisy, 0.299, noise) is None
    assert interval(np.append(noisy, 0.5), 0.299, noise) is None  # one replicate in 201 is in neither end
    apart = np.linspace(0.299, 0.299 + 1e-6, 200)
    assert interval(apart, 0.299, noise) is not None


def test_the_lower_end_of_a_distance_has_its_noise_taken_off():
    replicates = np.linspace(0.1, 0.3, 201)  # median 0.2, 97.5th percentile 0.295
    low, high = interval(replicates, 0.18, "raises")
    assert high == pytest.approx(0.295)
    assert low == pytest.approx(0.18 - (1 + 2**0.5) * 0.02 - 0.095)
    # A median below the figure shows no noise, and nothing is under 0.
    assert interval(replicates, 0.25, "raises")[0] == pytest.approx(0.25 - 0.095)
    assert interval(replicates, 0.12, "raises")[0] == 0


def test_what_noise_lowers_is_a_distance_turned_round():
    replicates = np.linspace(0.1, 0.3, 201)
    low, high = interval(1 - replicates, 1 - 0.18, "lowers")
    turned = interval(replicates, 0.18, "raises")
    assert (low, high) == pytest.approx((1 - turned[1], 1 - turned[0]))


SIZES = (100, 230, 500)


@pytest.fixture
def coverage(block_of, of_confusion):
    """How often the interval of a fairness figure holds the true one, and how often percentiles do."""

    def measure(name, accuracies, trials=250):
        rng, figure = np.random.default_rng(5), FAIRNESS[name]

        def matrix(right, n):
            return np.array([[right, n - right], [0, 0]])

        of_each = tuple(zip(accuracies, SIZES, strict=True))
        truth = figure({n: of_confusion(matrix(round(share * 1000) * n, 1000 * n)) for share, n in of_each})
        held = np.zeros(2)
        for _ in range(trials):
            blocks = {n: block_of(matrix(rng.binomial(n, share), n), rng) for share, n in of_each}
            point = figure({n: each.point for n, each in blocks.items()})
            replicates = figure({n: each.replicates for n, each in blocks.items()})
            ends = interval(replicates, point, NOISE[name]), interval(replicates)
            held += [low - 1e-9 <= truth <= high + 1e-9 for low, high in ends]
        return held / trials

    return measure


# 250 trials at a coverage of 0.93 give 0.88 or more in 99.8 % of cases.
@pytest.mark.parametrize("name", ["spread", "gap", "worst", "variance"])
@pytest.mark.parametrize("accuracies", [(0.75, 0.75, 0.75), (0.72, 0.75, 0.78), (0.6, 0.75, 0.85)])
def test_intervals_of_what_noise_pushes_hold_the_truth(coverage, name, accuracies):
    assert coverage(name, accuracies)[0] >= 0.88


def test_percentiles_of_a_distance_do_not_hold_a_truth_of_nothing(coverage):
    assert coverage("spread", (0.75, 0.75, 0.75), trials=60)[1] == 0


def test_intervals_of_the_calibration_error_hold_the_truth():
    """Confidence 0.05 too high everywhere: 150 samples of 230 pictures."""
    rng, held, percentiles = np.random.default_rng(6), 0, 0
    for trial in range(150):
        confidence = rng.uniform(0.6, 1, 230)
        right = rng.random(230) < confidence - 0.05
        probabilities = np.where(right[:, None], [1, 0], [0, 1]) * (2 * confidence - 1)[:, None]
        probabilities += (1 - confidence)[:, None]
        counts = count(
            probabilities, np.zeros(230, int), malignant=np.array([True, False]), replicates=100, seed=trial
        )
        replicates = ece(counts.replicates)
        low, high = interval(replicates, ece(counts.point), NOISE["ece"])
        held += low <= 0.05 <= high
        low, high = interval(replicates)
        percentiles += low <= 0.05 <= high
    assert held / 150 >= 0.9
    assert percentiles / 150 <= 0.5
