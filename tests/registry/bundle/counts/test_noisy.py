"""Counts with noise: what they become, what is refused, and intervals that hold the truth."""

from itertools import product

import numpy as np
import pytest

from registry.bundle.counts.counting import (
    GRAIN,
    HISTOGRAM,
    MATRIX,
    NOISE,
    PATIENTS,
    SIDES,
    Block,
    NoisyCounts,
    consistent_matrix,
    count,
    nearest,
    shifted,
)
from registry.bundle.counts.score_bins import COARSE_BINS
from registry.bundle.errors import CountsError
from registry.bundle.metrics import classification
from registry.bundle.metrics.estimate import limits_of
from registry.bundle.metrics.intervals import sample_of

CLASSES = 3
MALIGNANT = np.array([False, False, True])


def pictures(rng, n, classes=CLASSES):
    """Labels and probabilities of n patients that a model answers somewhat rightly."""
    labels = rng.integers(0, classes, n)
    logits = rng.normal(size=(n, classes))
    logits[np.arange(n), labels] += 1.2
    odds = np.exp(1.5 * logits)
    return labels, odds / odds.sum(axis=1, keepdims=True)


def counted(rng, n):
    labels, probabilities = pictures(rng, n)
    return count(
        labels=labels,
        probabilities=probabilities,
        malignant=MALIGNANT,
        lesions=np.arange(n),
        patients=np.arange(n),
        smallest_cell=1,
    ).point


def with_noise(exact, rng, variance):
    """As a client tells it, with normal noise that is rounded."""
    arrays = exact.to_arrays()
    for name in exact.parts:
        noise = np.rint(rng.normal(0, np.sqrt(variance), arrays[name].shape))
        arrays[name] = arrays[name] + noise.astype(np.int32)
    arrays[NOISE] = np.array([int(variance * GRAIN), exact.both_kinds], dtype=np.int32)
    return arrays


@pytest.fixture
def rng():
    return np.random.default_rng(5)


@pytest.fixture
def exact(rng):
    return NoisyCounts.of(counted(rng, 90), histogram=True, both_kinds=True)


def test_without_noise_they_are_the_counts(rng):
    counts = counted(rng, 90)
    block = Block.from_arrays(NoisyCounts.of(counts, histogram=True, both_kinds=True).to_arrays())
    assert (block.point.confusion == counts.confusion).all()
    assert classification.malignancy_auroc(block.point) == pytest.approx(
        classification.malignancy_auroc(counts), abs=0.02
    )
    assert np.isnan(classification.auroc(block.point))  # of one class among others nothing is told


def test_they_add_up_as_hospitals_tell_them(rng, exact):
    told = [with_noise(exact, rng, 4.0) for _ in range(3)]
    summed = sum((Block.from_arrays(each) for each in told[1:]), Block.from_arrays(told[0]))
    assert summed.noisy.variance == 12.0
    assert (summed.noisy.matrix == sum(each[MATRIX] for each in told)).all()
    assert (summed.point.confusion.sum(axis=-1) == 3 * exact.patients).all()
    again = Block.from_arrays(summed.to_arrays())
    assert (again.point.confusion == summed.point.confusion).all()


def test_blocks_with_noise_and_without_do_not_add_up(rng, exact):
    noisy = Block.from_arrays(with_noise(exact, rng, 4.0))
    plain = Block(counted(rng, 40))
    for pair in ((noisy, plain), (plain, noisy)):
        with pytest.raises(CountsError, match="one block has noise and the other has none"):
            pair[0] + pair[1]


def test_consistent_counts_are_counts(rng, exact):
    for variance in (0.5, 9.0, 400.0):
        point = Block.from_arrays(with_noise(exact, rng, variance)).point
        assert (point.confusion >= 0).all()
        assert (point.confusion.sum(axis=-1) == exact.patients).all()
        assert (point.malignancy.sum(axis=-1) == exact.sides).all()


@pytest.mark.parametrize(
    ("name", "array"),
    [
        (MATRIX, None),
        (MATRIX, np.zeros((3, 3))),
        (PATIENTS, np.array([1, 2])),
        (PATIENTS, np.array([1, -2, 3])),
        (PATIENTS, None),
        (HISTOGRAM, np.zeros((2, 5), dtype=np.int32)),
        (SIDES, None),
        (SIDES, np.array([-1, 4])),
        (NOISE, np.array([-16, 1])),
        ("more", np.zeros(2, dtype=np.int32)),
    ],
)
def test_what_is_no_such_block(exact, name, array):
    arrays = exact.to_arrays()
    if array is None:
        del arrays[name]
    else:
        arrays[name] = array
    with pytest.raises(CountsError, match=f"`{name}` of noisy counts"):
        Block.from_arrays(arrays)


def test_nearest_is_the_nearest():
    for values, total in (((3, -2, 1), 4), ((-5, 0, 2), 3), ((4, 4, -9), 2)):
        found = nearest(np.array(values), np.array(total))
        grid = [each for each in product(range(total + 1), repeat=3) if sum(each) == total]
        distances = [sum((a - b) ** 2 for a, b in zip(each, values, strict=True)) for each in grid]
        assert found.sum() == total
        assert (found >= 0).all()
        assert ((found - values) ** 2).sum() == min(distances)


def test_shifting_spreads_what_is_too_much():
    values = np.zeros(16, dtype=np.int64)
    moved = shifted(values, np.array(8))
    assert moved.sum() == 8
    assert moved[:8].sum() == 4  # and not all of it at one end
    assert (shifted(values + 3, np.array(0)) == 0).all()


def test_right_answers_are_not_pushed_to_one_side(rng):
    """The mean over noise of the right answers is theirs, also where all the wrong ones are 0."""
    matrix = np.diag([40, 30, 20, 50])
    patients = matrix.sum(axis=-1)
    noise = np.rint(rng.normal(0, 3, (4000, 4, 4))).astype(np.int64)
    right = np.diagonal(consistent_matrix(matrix + noise, patients), axis1=-2, axis2=-1)
    half = np.abs(np.rint(rng.normal(0, 3 * np.sqrt(3 / 4), 4000))).mean() / 2
    # None can be above all of a class, which alone takes half of the noise's mean size away.
    assert np.abs((patients - right).mean(axis=0) - half).max() < 0.1


TRUE = {"accuracy": classification.accuracy, "malignancy_auroc": classification.malignancy_auroc}


def coverage(figure, exact_too=False):
    """How often the interval of a figure holds the true one, over 150 test splits of 100 patients."""
    rng = np.random.default_rng(11)
    truth = TRUE[figure](counted(rng, 100_000))
    held = 0
    for _ in range(150):
        exact = NoisyCounts.of(counted(rng, 100), histogram=True, both_kinds=True)
        arrays = with_noise(exact, rng, 16.0)
        if exact_too:  # as if there were no noise
            arrays[NOISE] = np.array([0, 1], dtype=np.int32)
        low, high = limits_of(figure, sample_of(Block.from_arrays(arrays))).ends()
        held += low <= truth <= high
    return held / 150


@pytest.mark.parametrize("figure", TRUE)
def test_intervals_contain_the_noise(figure):
    assert coverage(figure) >= 0.91  # 0.95 less two standard errors of 150
    assert coverage(figure, exact_too=True) < 0.9  # the control: intervals that forget it


def test_bins_of_histograms_with_noise():
    assert len(COARSE_BINS) == 16
    assert np.allclose(COARSE_BINS.middles + COARSE_BINS.middles[::-1], 1.0)
