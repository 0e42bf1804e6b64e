"""Counts with noise: what they become, what is refused, and intervals that hold the truth."""

from dataclasses import fields, replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.bundle.counting import (
    DECISIONS,
    GRAIN,
    HISTOGRAM,
    LESIONS,
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
from registry.bundle.counts import Concluded, Counts, Thresholds
from registry.bundle.errors import CountsError
from registry.bundle.metrics import classification
from registry.bundle.metrics.intervals import sample_of
from registry.bundle.metrics.summary import limits_of
from registry.bundle.score_bins import LOGIT_BINS, SCORE_BINS

MALIGNANT = np.array([True, False, False])


def naive(probabilities, labels, malignant):
    """The definition, picture by picture, as lists of plain sums."""
    classes = len(malignant)
    arrays = {
        "confusion": np.zeros((classes, classes), int),
        "scores": np.zeros((classes, 2, SCORE_BINS), int),
        "malignancy": np.zeros((2, SCORE_BINS), int),
        "confidence": np.zeros((2, SCORE_BINS), int),
    }

    def bin_of(score):
        return sum(score >= edge for edge in LOGIT_BINS.edges[1:-1])

    for row, label in zip(probabilities, labels, strict=True):
        predicted = max(range(classes), key=lambda k: row[k])
        arrays["confusion"][label, predicted] += 1
        for k in range(classes):
            # Of two classes one is the other's mirror.
            place = SCORE_BINS - 1 - bin_of(row[1]) if classes == 2 and k == 0 else bin_of(row[k])
            arrays["scores"][k, int(k == label), place] += 1
        arrays["confidence"][int(predicted == label), bin_of(max(row))] += 1
        summed = sum(row[k] for k in range(classes) if malignant[k])
        place = SCORE_BINS - 1 - bin_of(row[1]) if classes == 2 else bin_of(summed)
        arrays["malignancy"][int(malignant[label]), place] += 1
    return arrays


def same(one: Counts, other: Counts) -> bool:
    return all(np.array_equal(getattr(one, f.name), getattr(other, f.name)) for f in fields(Counts))


@given(seed=st.integers(0, 2**32), n=st.integers(0, 40), num_classes=st.integers(2, 5))
@settings(max_examples=25)
def test_counts_are_the_definition(predictions, seed, n, num_classes):
    probabilities, labels = predictions(seed, n, num_classes)
    malignant = np.arange(num_classes) < 1
    counts = count(probabilities, labels, malignant=malignant).point
    for name, array in naive(probabilities, labels, malignant).items():
        np.testing.assert_array_equal(getattr(counts, name), array, err_msg=name)
    assert counts.n == n
    assert counts.num_classes == num_classes


@given(seed=st.integers(0, 2**32), cut=st.integers(0, 30))
@settings(max_examples=15)
def test_counts_of_two_clients_add_up_to_the_counts_of_both(predictions, seed, cut):
    probabilities, labels = predictions(seed, 30, 3)
    parts = [
        count(probabilities[part], labels[part], malignant=MALIGNANT).point
        for part in (slice(0, cut), slice(cut, None))
    ]
    assert same(parts[0] + parts[1], count(probabilities, labels, malignant=MALIGNANT).point)
    assert same(parts[0] + parts[1], parts[1] + parts[0])


def test_patients_and_not_pictures_make_a_cell_large_enough():
    probabilities = np.array([[0.9, 0.1]] * 6 + [[0.2, 0.8]] * 3)
    labels = np.array([0] * 6 + [1] * 3)
    patients = np.array([0] * 6 + [1, 2, 3])
    counts = count(
        probabilities, labels, malignant=np.array([False, True]), patients=patients, smallest_cell=3
    ).point
    # The six pictures of one patient are no cell of their own.
    assert (counts.scores[1].sum(axis=0) > 0).sum() == 1


def test_sums_by_lesion_are_those_of_the_definition(predictions):
    probabilities, labels = predictions(5, 60, 3)
    lesions = np.arange(60) // 2
    labels = labels[lesions * 2]
    lesion_sums = count(probabilities, labels, malignant=MALIGNANT, lesions=lesions).lesions
    right = (probabilities.argmax(axis=1) == labels).astype(int)
    called = MALIGNANT[probabilities.argmax(axis=1)] == MALIGNANT[labels]
    shares = [(labels == k, right) for k in range(3)]
    shares += [(MALIGNANT[labels], called), (~MALIGNANT[labels], called)]
    for row, (of, x) in enumerate(shares):
        n_g = np.array([of[lesions == g].sum() for g in range(30)])
        x_g = np.array([x[(lesions == g) & of].sum() for g in range(30)])
        expected = [n_g.sum(), x_g.sum(), (n_g > 1).sum(), (x_g**2).sum(), (x_g * n_g).sum(), (n_g**2).sum()]
        assert lesion_sums.to_array()[row].tolist() == expected


def test_decisions_at_a_working_point_are_those_of_each_picture(predictions):
    probabilities, labels = predictions(8, 50, 3)
    lesions = np.arange(50) // 2
    node = np.where(LOGIT_BINS.bin(probabilities).max(axis=1) >= 175, probabilities.argmax(axis=1), -1)
    concluded = Concluded(node, (node >= 0) & (node != labels), 3)
    block, without = (
        count(
            probabilities,
            labels,
            malignant=MALIGNANT,
            lesions=lesions,
            thresholds=Thresholds(140, malignant_from, *triaged),
            concluded=concluded,
        )
        for malignant_from, triaged in ((130, (90, 250)), (None, ()))
    )
    malignancy, malignant = LOGIT_BINS.bin(probabilities[:, MALIGNANT].sum(axis=1)), MALIGNANT[labels]
    suspicious, reported = malignancy >= 130, node >= 0
    wrong = probabilities.argmax(axis=1) != labels
    found = block.decisions
    answered = reported | (malignancy >= 250) | (malignancy < 90)
    assert reported.sum() < answered.sum() < 50
    assert found.answered.x[0] == answered.sum()
    assert without.decisions.answered.x[0] == reported.sum()
    bins = LOGIT_BINS.bin(probabilities)
    assert found.covered.x[0] == (bins[np.arange(50), labels] >= 140).sum()
    assert found.set_sizes.x[0] == (bins >= 140).sum()
    assert found.reported.x[0] == found.wrong.n[0] == reported.sum()
    assert found.wrong.x[0] == (reported & wrong).sum()
    assert (found.suspicious.n[0], found.suspicious.x[0]) == (malignant.sum(), (malignant & suspicious).sum())
    assert (found.cleared.n[0], found.cleared.x[0]) == ((~malignant).sum(), (~malignant & ~suspicious).sum())
    of_lesion = np.bincount(lesions, malignant & suspicious)
    assert found.suspicious.xx[0] == (of_lesion**2).sum()
    assert not without.decisions.at_working_point
    assert (block + without).decisions.suspicious.n[0] == malignant.sum()
    again = Block.from_arrays(block.to_arrays())
    np.testing.assert_array_equal(again.decisions.to_array(), found.to_array())


@pytest.mark.parametrize("smallest", [1, 5])
def test_a_block_travels_and_arrives_the_same(predictions, smallest):
    block = count(*predictions(6, 25, 4), malignant=np.arange(4) < 2, smallest_cell=smallest)
    arrays = block.to_arrays()
    assert {array.dtype for array in arrays.values()} == {np.dtype(np.int32)}
    assert arrays["scores"].shape == (4, 2, SCORE_BINS)
    arrived = Block.from_arrays(arrays)
    assert same(arrived.point, block.point)
    np.testing.assert_array_equal(arrived.lesions.to_array(), block.lesions.to_array())


def test_a_count_too_large_to_travel_is_refused(predictions):
    counts = count(*predictions(8, 25, 3), malignant=MALIGNANT).point
    many = replace(counts, confusion=counts.confusion + 2**31)
    with pytest.raises(CountsError, match=r"confusion.*over 2,147,483,647"):
        many.to_arrays()


@pytest.mark.parametrize(
    ("name", "spoil", "message"),
    [
        ("scores", lambda array: None, "counts are the arrays confusion"),
        ("scores", lambda array: array - 1, "never negative"),
        ("confidence", lambda array: array.astype(float), "confidence.*float64"),
        ("malignancy", lambda array: array[:, :-1], "malignancy.*shape"),
        ("confusion", lambda array: array[:-1], "classes by classes"),
        ("confusion", lambda array: array + np.eye(3, dtype=int), "do not hold the pictures"),
        ("malignancy", lambda array: array * [[0], [1]], "do not hold the pictures"),
        ("confidence", lambda array: array[::-1], "do not hold the pictures"),
        ("scores", lambda array: array[:, ::-1], "do not hold the pictures"),
    ],
)
def test_broken_arrays_are_refused(predictions, name, spoil, message):
    arrays = count(*predictions(9, 25, 3), malignant=MALIGNANT).point.to_arrays()
    arrays[name] = spoil(arrays[name])
    with pytest.raises(CountsError, match=message):
        Counts.from_arrays({name: array for name, array in arrays.items() if array is not None})


@pytest.mark.parametrize(
    ("name", "at", "more", "message"),
    [
        (LESIONS, (0, 5), -50, "no pictures have"),  # Σ n² below Σ n
        (LESIONS, (0, 2), 50, "no pictures have"),
        (LESIONS, (0, 1), -1, "do not hold the pictures"),
        (DECISIONS, (0, 0), 1, "no pictures have|does not hold the pictures"),
        (DECISIONS, (2, 1), 1, "does not hold the pictures"),  # reported, and not those of the wrong ones
        (DECISIONS, (3, 1), 100, "does not hold the pictures"),
        (DECISIONS, (5, 0), 1, "no pictures have|does not hold the pictures"),
    ],
)
def test_broken_sums_by_lesion_are_refused(predictions, name, at, more, message):
    thresholds = Thresholds(140, 130)
    arrays = count(*predictions(9, 25, 3), malignant=MALIGNANT, thresholds=thresholds).to_arrays()
    Block.from_arrays(arrays)
    arrays[name][at] += more
    with pytest.raises(CountsError, match=message):
        Block.from_arrays(arrays)


def test_what_does_not_add_up_is_refused(predictions):
    three = count(*predictions(11, 5, 3), malignant=MALIGNANT)
    four = count(*predictions(11, 5, 4), malignant=np.arange(4) < 1)
    drawn = count(*predictions(11, 5, 3), malignant=MALIGNANT, thresholds=Thresholds(0))
    with pytest.raises(CountsError, match="same classes"):
        three + four
    with pytest.raises(CountsError, match="count both alike"):
        three + drawn


def test_broken_predictions_are_refused():
    good = np.array([[0.5, 0.5], [0.1, 0.9]])
    labels, malignant = np.array([0, 1]), np.array([True, False])
    cases = [
        ((good * 2, labels), {}, "sums to 1"),
        ((np.array([[2.0, -1.0], [0.1, 0.9]]), labels), {}, "without negatives"),
        ((np.array([[np.nan, 0.5], [0.1, 0.9]]), labels), {}, "finite"),
        ((good, np.array([0, -1])), {}, "run from -1 to 0.*unlabelled"),
        ((good, np.array([0, 2])), {}, "run from 0 to 2"),
        ((good, np.array([0])), {}, "do not fit"),
        ((good, labels), {"malignant": np.array([True])}, "one bool per class"),
        ((good, labels), {"lesions": np.array([1])}, "each picture needs one"),
    ]
    for positional, keywords, message in cases:
        with pytest.raises(CountsError, match=message):
            count(*positional, **{"malignant": malignant, **keywords})


def test_an_answer_that_is_not_the_class_of_highest_probability_counts_with_its_own_confidence():
    probabilities = np.array([[0.4, 0.6], [0.3, 0.7]])
    malignant = np.array([False, True])
    given = count(probabilities, np.array([0, 1]), malignant=malignant, answers=np.array([0, 1])).point
    assert given.confusion.tolist() == [[1, 0], [0, 1]]
    assert given.confidence[1].nonzero()[0].tolist() == LOGIT_BINS.bin(np.array([0.4, 0.7])).tolist()
    assert not given.confidence[0].any()
    plain = count(probabilities, np.array([0, 1]), malignant=malignant).point
    assert plain.confusion.tolist() == [[0, 1], [0, 1]]
    np.testing.assert_array_equal(given.scores, plain.scores)


CLASSES = 3
NOISY_MALIGNANT = np.array([False, False, True])


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
        malignant=NOISY_MALIGNANT,
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
