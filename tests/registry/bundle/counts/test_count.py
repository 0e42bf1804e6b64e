import math
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.bundle.counts.count import SCORE_BINS, Block, Counts, count
from registry.bundle.errors import CountsError

MALIGNANT = np.array([True, False, False])


def naive(probabilities, labels, malignant, weights=None):
    """The definition, picture by picture, as lists of plain sums."""
    classes = len(malignant)
    weights = np.ones(len(labels), int) if weights is None else weights
    arrays = {
        "confusion": np.zeros((classes, classes), int),
        "scores": np.zeros((classes, 2, SCORE_BINS), int),
        "malignancy": np.zeros((2, SCORE_BINS), int),
        "confidence": np.zeros((2, SCORE_BINS), int),
    }

    def bin_of(score):
        return min(math.floor(score * 500), 499)

    for row, label, weight in zip(probabilities, labels, weights, strict=True):
        predicted = max(range(classes), key=lambda k: row[k])
        arrays["confusion"][label, predicted] += weight
        for k in range(classes):
            arrays["scores"][k, int(k == label), bin_of(row[k])] += weight
        arrays["confidence"][int(predicted == label), bin_of(max(row))] += weight
        summed = sum(row[k] for k in range(classes) if malignant[k])
        arrays["malignancy"][int(malignant[label]), bin_of(summed)] += weight
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


def test_zeros_add_nothing(predictions):
    block = count(*predictions(1, 20, 3), malignant=MALIGNANT, replicates=2)
    assert same(block.point + Counts.zeros(3), block.point)
    assert same(block.replicates + Counts.zeros(3, replicates=2), block.replicates)
    assert Counts.zeros(3, replicates=2).n.tolist() == [0, 0]


@pytest.mark.parametrize("malignant", [[False] * 3, [True] * 3])
def test_malignancy_is_empty_unless_both_kinds_exist(predictions, malignant):
    counts = count(*predictions(2, 30, 3), malignant=np.array(malignant)).point
    assert counts.malignancy.sum() == 0
    assert counts.confidence.sum() == 30


def test_a_replicate_weighs_all_pictures_of_a_lesion_alike(predictions):
    probabilities, labels = predictions(3, 40, 3)
    lesions = np.array([7, 7, 7, 2] * 10) + 10 * np.repeat(np.arange(10), 4)
    replicates = count(probabilities, labels, malignant=MALIGNANT, lesions=lesions, replicates=20, seed=5)
    # The same draw over lesions in ascending order, weighed out by the definition.
    generator = np.random.Generator(np.random.PCG64(5))
    order = sorted(set(lesions.tolist()))
    for index in range(20):
        weight = dict(zip(order, generator.poisson(1.0, size=len(order)), strict=True))
        expected = naive(probabilities, labels, MALIGNANT, [weight[lesion] for lesion in lesions])
        drawn = replicates.replicates.replicate(index)
        for name, array in expected.items():
            np.testing.assert_array_equal(getattr(drawn, name), array, err_msg=name)


def test_the_draw_follows_the_seed_and_not_the_order_of_pictures(predictions):
    probabilities, labels = predictions(4, 30, 3)
    lesions = np.arange(30) // 2
    shuffled = np.random.default_rng(0).permutation(30)

    def block(order, seed):
        return count(
            probabilities[order],
            labels[order],
            malignant=MALIGNANT,
            lesions=lesions[order],
            replicates=5,
            seed=seed,
        ).replicates

    assert same(block(np.arange(30), 1), block(shuffled, 1))
    assert not same(block(np.arange(30), 1), block(np.arange(30), 2))


def test_replicates_have_the_mean_and_the_spread_of_lesions_drawn_anew(predictions):
    probabilities, labels = predictions(5, 200, 3)
    lesions = np.arange(200) // 4
    n = count(
        probabilities, labels, malignant=MALIGNANT, lesions=lesions, replicates=2000, seed=1
    ).replicates.n
    # 50 lesions of 4 pictures: n = 4 Poisson(50), mean 200, standard deviation 4 sqrt(50) = 28.3.
    assert n.mean() == pytest.approx(200, abs=3)
    assert n.std() == pytest.approx(28.3, rel=0.1)


@pytest.mark.parametrize("replicates", [0, 3])
def test_a_block_travels_and_arrives_the_same(predictions, replicates):
    block = count(*predictions(6, 25, 4), malignant=np.arange(4) < 2, replicates=replicates)
    arrays = block.to_arrays()
    assert {array.dtype for array in arrays.values()} == {np.dtype(np.int32)}
    assert arrays["scores"].shape == (1 + replicates, 4, 2, SCORE_BINS)
    arrived = Block.from_arrays(arrays)
    assert same(arrived.point, block.point)
    if replicates:
        assert same(arrived.replicates, block.replicates)
    else:
        assert arrived.replicates is None


def test_counts_travel_and_arrive_the_same(predictions):
    counts = count(*predictions(7, 25, 3), malignant=MALIGNANT).point
    assert same(Counts.from_arrays(counts.to_arrays()), counts)


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


def test_a_block_needs_its_leading_axis(predictions):
    counts = count(*predictions(10, 5, 3), malignant=MALIGNANT).point
    with pytest.raises(CountsError, match="start with the point"):
        Block.from_arrays(counts.to_arrays())


def test_what_does_not_add_up_is_refused(predictions):
    three = count(*predictions(11, 5, 3), malignant=MALIGNANT)
    four = count(*predictions(11, 5, 4), malignant=np.arange(4) < 1)
    drawn = count(*predictions(11, 5, 3), malignant=MALIGNANT, replicates=2)
    with pytest.raises(CountsError, match="same classes"):
        three + four
    with pytest.raises(CountsError, match="count both alike"):
        three + drawn
    with pytest.raises(CountsError, match="no replicates"):
        three.point.replicate(0)


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


def test_counting_leaves_its_inputs_unchanged(predictions):
    probabilities, labels = predictions(12, 20, 3)
    before = probabilities.copy(), labels.copy()
    count(probabilities, labels, malignant=MALIGNANT, replicates=2)
    np.testing.assert_array_equal(probabilities, before[0])
    np.testing.assert_array_equal(labels, before[1])


def test_an_answer_that_is_not_the_class_of_highest_probability_counts_with_its_own_confidence():
    probabilities = np.array([[0.4, 0.6], [0.3, 0.7]])
    malignant = np.array([False, True])
    given = count(probabilities, np.array([0, 1]), malignant=malignant, answers=np.array([0, 1])).point
    assert given.confusion.tolist() == [[1, 0], [0, 1]]
    assert given.confidence[1].nonzero()[0].tolist() == [200, 350]
    assert not given.confidence[0].any()
    plain = count(probabilities, np.array([0, 1]), malignant=malignant).point
    assert plain.confusion.tolist() == [[0, 1], [0, 1]]
    np.testing.assert_array_equal(given.scores, plain.scores)
