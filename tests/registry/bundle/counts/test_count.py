from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.bundle.counts.counting import Block, count
from registry.bundle.counts.counts import Counts, Thresholds
from registry.bundle.counts.score_bins import LOGIT_BINS, SCORE_BINS
from registry.bundle.errors import CountsError

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


@given(seed=st.integers(0, 2**32), smallest=st.integers(1, 7), num_classes=st.integers(2, 4))
@settings(max_examples=25)
def test_no_occupied_bin_is_of_fewer_patients(predictions, seed, smallest, num_classes):
    """Of any histogram, over both sides of it together; and no picture is lost."""
    probabilities, labels = predictions(seed, 60, num_classes)
    patients = np.random.default_rng(seed).integers(0, 25, 60)
    malignant = np.arange(num_classes) < 1
    counts = count(
        probabilities, labels, malignant=malignant, patients=patients, smallest_cell=smallest
    ).point
    most = np.bincount(patients).max()
    for histogram in (*counts.scores, counts.malignancy, counts.confidence):
        of_bin = histogram.sum(axis=0)
        assert of_bin.sum() == 60
        # A bin of c pictures is of c / most patients at least, and those of one picture each are of c.
        assert of_bin[of_bin > 0].min() >= smallest
    alone = count(probabilities, labels, malignant=malignant, smallest_cell=smallest).point
    assert (alone.confusion == counts.confusion).all()
    assert most > 1


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


def test_decisions_are_those_of_each_picture(predictions):
    probabilities, labels = predictions(8, 50, 3)
    block = count(
        probabilities, labels, malignant=MALIGNANT, thresholds=Thresholds(150, 166), smallest_cell=5
    )
    bins = LOGIT_BINS.bin(probabilities)
    answers = probabilities.argmax(axis=1)
    reported = bins.max(axis=1) >= 166
    found = block.decisions
    assert found.covered.x[0] == (bins[np.arange(50), labels] >= 150).sum()
    assert found.set_sizes.x[0] == (bins >= 150).sum()
    assert found.reported.x[0] == found.wrong.n[0] == reported.sum()
    assert found.wrong.x[0] == ((answers != labels) & reported).sum()
    again = Block.from_arrays(block.to_arrays())
    np.testing.assert_array_equal(again.decisions.sums.to_array(), found.sums.to_array())
    np.testing.assert_array_equal((block + again).decisions.sums.to_array(), 2 * found.sums.to_array())


def test_decisions_at_a_working_point_are_those_of_each_picture(predictions):
    probabilities, labels = predictions(8, 50, 3)
    lesions = np.arange(50) // 2
    block, without = (
        count(
            probabilities,
            labels,
            malignant=MALIGNANT,
            lesions=lesions,
            thresholds=Thresholds(140, 150, malignant_from),
        )
        for malignant_from in (130, None)
    )
    suspicious = LOGIT_BINS.bin(probabilities[:, MALIGNANT].sum(axis=1)) >= 130
    malignant, answered = MALIGNANT[labels], MALIGNANT[probabilities.argmax(axis=1)]
    held_back = suspicious & ~answered
    reported = (LOGIT_BINS.bin(probabilities).max(axis=1) >= 150) & ~held_back
    wrong = probabilities.argmax(axis=1) != labels
    found = block.decisions
    assert (held_back & (LOGIT_BINS.bin(probabilities).max(axis=1) >= 150)).any()
    assert found.reported.x[0] == found.wrong.n[0] == reported.sum()
    assert found.wrong.x[0] == (reported & wrong).sum()
    assert (found.suspicious.n[0], found.suspicious.x[0]) == (malignant.sum(), (malignant & suspicious).sum())
    assert (found.cleared.n[0], found.cleared.x[0]) == ((~malignant).sum(), (~malignant & ~suspicious).sum())
    of_lesion = np.bincount(lesions, malignant & suspicious)
    assert found.suspicious.xx[0] == (of_lesion**2).sum()
    assert not without.decisions.at_working_point
    assert (block + without).decisions.suspicious.n[0] == malignant.sum()
    again = Block.from_arrays(block.to_arrays())
    np.testing.assert_array_equal(again.decisions.sums.to_array(), found.sums.to_array())


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


def _missing(arrays):
    del arrays["scores"]


def _negative(arrays):
    arrays["scores"][0, 0, 0] = -1


def _floats(arrays):
    arrays["confidence"] = arrays["confidence"].astype(float)


def _misshapen(arrays):
    arrays["malignancy"] = arrays["malignancy"][:, :-1]


def _not_square(arrays):
    arrays["confusion"] = arrays["confusion"][:-1]


def _one_more(arrays):
    arrays["confusion"][0, 0] += 1


def _half_malignancy(arrays):
    arrays["malignancy"][0] = 0


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_missing, "counts are the arrays confusion"),
        (_negative, "never negative"),
        (_floats, "confidence.*float64"),
        (_misshapen, "malignancy.*shape"),
        (_not_square, "classes by classes"),
        (_one_more, "do not hold the pictures"),
        (_half_malignancy, "do not hold the pictures"),
    ],
)
def test_broken_arrays_are_refused_at_the_door(predictions, spoil, message):
    arrays = count(*predictions(9, 25, 3), malignant=MALIGNANT).point.to_arrays()
    spoil(arrays)
    with pytest.raises(CountsError, match=message):
        Counts.from_arrays(arrays)


def test_what_does_not_add_up_is_refused(predictions):
    three = count(*predictions(11, 5, 3), malignant=MALIGNANT)
    four = count(*predictions(11, 5, 4), malignant=np.arange(4) < 1)
    drawn = count(*predictions(11, 5, 3), malignant=MALIGNANT, thresholds=Thresholds(0, 0))
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
