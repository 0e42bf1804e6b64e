""""""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from registry.bundle.counts.counting import count
from registry.bundle.counts.counts import Confusion, Counts
from registry.bundle.counts.score_bins import LOGIT_BINS
from registry.bundle.metrics import classification as of
from registry.bundle.metrics.classification import (
    malignant_answers,
    malignant_sensitivity,
    malignant_specificity,
    other_answers,
)

CASES = given(seed=st.integers(0, 2**32), n=st.integers(2, 120), num_classes=st.integers(2, 5))
FEW = settings(max_examples=30, deadline=None)


def counted(probabilities, labels, **keywords):
    malignant = np.arange(probabilities.shape[1]) < 1
    return count(probabilities, labels, malignant=malignant, **keywords)


def binned(scores):
    return LOGIT_BINS.bin(scores)


@CASES
@FEW
def test_figures_of_the_confusion_matrix_are_scikit_learns(predictions, seed, n, num_classes):
    probabilities, labels = predictions(seed, n, num_classes)
    counts = counted(probabilities, labels).point
    predicted = probabilities.argmax(axis=1)
    present = np.unique(labels)

    def scores(average):
        return sk.precision_recall_fscore_support(
            labels, predicted, labels=present, average=average, zero_division=0
        )[:3]

    macro, weighted = scores("macro"), scores("weighted")
    assert of.accuracy(counts) == pytest.approx(sk.accuracy_score(labels, predicted))
    assert of.macro_precision(counts) == pytest.approx(macro[0])
    assert of.balanced_accuracy(counts) == pytest.approx(macro[1])
    assert of.macro_f1(counts) == pytest.approx(macro[2])
    assert of.weighted_precision(counts) == pytest.approx(weighted[0])
    assert of.weighted_recall(counts) == pytest.approx(of.accuracy(counts))
    assert of.weighted_f1(counts) == pytest.approx(weighted[2])
    np.testing.assert_allclose(of.recalls(counts)[present], scores(None)[1])


@CASES
@FEW
def test_specificity_is_the_recall_of_not_being_the_class(predictions, seed, n, num_classes):
    probabilities, labels = predictions(seed, n, num_classes)
    predicted = probabilities.argmax(axis=1)
    expected = [
        sk.recall_score(labels != k, predicted != k) for k in np.unique(labels) if (labels != k).any()
    ]
    value = of.specificity(counted(probabilities, labels).point)
    assert value == pytest.approx(np.mean(expected)) if expected else np.isnan(value)


def test_auprc_of_a_class_of_few_pictures_is_not_told(predictions):
    probabilities, labels = np.tile([0.6, 0.4], (90, 1)), np.repeat([0, 1], [61, 29])
    assert np.isnan(of.auprcs(counted(probabilities, labels).point)).tolist() == [False, True]
    labels[0] = 1
    assert not np.isnan(of.auprcs(counted(probabilities, labels).point)).any()


@given(seed=st.integers(0, 2**32))
@settings(max_examples=15)
def test_malignancy_auroc_is_scikit_learns_of_summed_probabilities(predictions, seed):
    probabilities, labels = predictions(seed, 60, 5)
    malignant = np.array([True, False, True, False, False])
    counts = count(probabilities, labels, malignant=malignant).point
    truth = malignant[labels]
    value = of.malignancy_auroc(counts)
    if truth.all() or not truth.any():
        assert np.isnan(value)
    else:
        summed = probabilities[:, malignant].sum(axis=1)
        assert value == pytest.approx(sk.roc_auc_score(truth, binned(summed)))


def test_by_hand_with_a_class_that_is_absent_and_one_never_answered():
    confusion = np.array([[3, 1, 0, 1], [2, 4, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]])
    counts = Counts.zeros(4)
    counts.confusion[:] = confusion
    assert of.accuracy(counts) == pytest.approx(7 / 13)
    np.testing.assert_allclose(of.recalls(counts), [3 / 5, 4 / 6, 0, np.nan])
    np.testing.assert_allclose(of.precisions(counts), [3 / 6, 4 / 6, 0, np.nan])
    np.testing.assert_allclose(of.specificities(counts), [5 / 8, 5 / 7, 1, np.nan])
    np.testing.assert_allclose(of.f1_scores(counts), [6 / 11, 8 / 12, 0, np.nan])
    assert of.balanced_accuracy(counts) == pytest.approx((3 / 5 + 4 / 6) / 3)


# Classes: two malignant, one benign.
CONFUSION = Confusion(np.array([[5, 2, 3], [1, 6, 3], [4, 1, 15]]))
TWO_OF_THREE = np.array([True, True, False])


def test_one_malignant_class_taken_for_another_is_found():
    assert malignant_sensitivity(CONFUSION, malignant=TWO_OF_THREE) == pytest.approx(14 / 20)
    assert malignant_specificity(CONFUSION, malignant=TWO_OF_THREE) == pytest.approx(15 / 20)
    assert [int(part[0]) for part in malignant_answers(CONFUSION, malignant=TWO_OF_THREE)] == [14, 20]
    assert [int(part[0]) for part in other_answers(CONFUSION, malignant=TWO_OF_THREE)] == [15, 20]


def test_each_replicate_has_its_own():
    both = Confusion(np.stack([CONFUSION.confusion, CONFUSION.confusion.T]))
    assert malignant_sensitivity(both, malignant=TWO_OF_THREE) == pytest.approx([14 / 20, 14 / 19])


@pytest.mark.parametrize("kind", [True, False])
def test_classes_of_one_kind_leave_both_undefined(kind):
    malignant = np.full(3, kind)
    assert np.isnan(malignant_sensitivity(CONFUSION, malignant=malignant))
    assert np.isnan(malignant_specificity(CONFUSION, malignant=malignant))


def test_without_malignant_pictures_sensitivity_is_undefined():
    none = Confusion(CONFUSION.confusion * np.array([[0], [0], [1]]))
    assert np.isnan(malignant_sensitivity(none, malignant=TWO_OF_THREE))
    assert malignant_specificity(none, malignant=TWO_OF_THREE) == pytest.approx(0.75)
