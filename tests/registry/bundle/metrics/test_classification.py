import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from registry.bundle.counts.count import Counts, count
from registry.bundle.counts.score_bins import LOGIT_BINS
from registry.bundle.metrics import classification as of

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


@CASES
@FEW
def test_areas_are_scikit_learns_of_the_binned_scores(predictions, seed, n, num_classes):
    probabilities, labels = predictions(seed, n, num_classes)
    counts = counted(probabilities, labels).point
    rocs = []
    for k in range(num_classes):
        truth = labels == k
        if truth.all() or not truth.any():
            assert np.isnan(of.aurocs(counts)[k])
            continue
        rocs.append(sk.roc_auc_score(truth, binned(probabilities[:, k])))
        assert of.aurocs(counts)[k] == pytest.approx(rocs[-1])
    if rocs:
        assert of.auroc(counts) == pytest.approx(np.mean(rocs))
    else:
        assert np.isnan(of.auroc(counts))


@CASES
@FEW
def test_auroc_is_off_by_at_most_half_the_pairs_that_share_a_bin(predictions, seed, n, num_classes):
    probabilities, labels = predictions(seed, n, num_classes)
    counts = counted(probabilities, labels).point
    for k in range(num_classes):
        truth, scores = labels == k, probabilities[:, k]
        if truth.all() or not truth.any():
            continue
        tied = (binned(scores)[truth][:, None] == binned(scores)[~truth][None, :]).mean()
        exact = sk.roc_auc_score(truth, scores)
        assert abs(of.aurocs(counts)[k] - exact) <= tied / 2 + 1e-12


def test_auprc_is_scikit_learns_in_the_mean_over_orders_within_a_bin(predictions):
    probabilities, labels = predictions(1, 300, 2)
    first = np.clip(probabilities[:, :1].round(1), 0.05, 0.95)  # 300 pictures in 11 bins
    rounded = np.hstack([first, 1 - first])
    counts = counted(rounded, labels).point
    rng = np.random.default_rng(0)
    told = [k for k in range(2) if (labels == k).sum() >= of.FEWEST_FOR_AUPRC]
    for k in told:
        places = binned(rounded[:, k])
        orders = [sk.average_precision_score(labels == k, places + 0.5 * rng.random(300)) for _ in range(400)]
        assert of.auprcs(counts)[k] == pytest.approx(np.mean(orders), abs=4 * np.std(orders) / 20)
        assert np.std(orders) > 0
    assert of.auprc(counts) == pytest.approx(np.mean(of.auprcs(counts)[told]))


def test_auprc_of_a_class_of_few_pictures_is_not_told(predictions):
    probabilities, labels = np.tile([0.6, 0.4], (90, 1)), np.repeat([0, 1], [61, 29])
    assert np.isnan(of.auprcs(counted(probabilities, labels).point)).tolist() == [False, True]
    labels[0] = 1
    assert not np.isnan(of.auprcs(counted(probabilities, labels).point)).any()


def test_areas_of_many_pictures_are_close_to_exact(predictions):
    """The resolution in numbers, on 4,000 pictures in 4 classes."""
    probabilities, labels = predictions(0, 4000, 4)
    counts = counted(probabilities, labels).point
    exact_roc = [sk.roc_auc_score(labels == k, probabilities[:, k]) for k in range(4)]
    exact_precision = [sk.average_precision_score(labels == k, probabilities[:, k]) for k in range(4)]
    np.testing.assert_allclose(of.aurocs(counts), exact_roc, atol=1e-3)
    np.testing.assert_allclose(of.auprcs(counts), exact_precision, atol=1e-2)


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


FIGURES = [
    of.accuracy,
    of.balanced_accuracy,
    of.macro_precision,
    of.macro_f1,
    of.weighted_precision,
    of.weighted_recall,
    of.weighted_f1,
    of.specificity,
    of.auroc,
    of.auprc,
    of.malignancy_auroc,
]


@pytest.mark.parametrize("figure", FIGURES)
def test_a_figure_along_an_axis_is_the_figure_of_each(predictions, stack, figure):
    several = [counted(*predictions(i, 90, 3)).point for i in range(6)]
    together = figure(stack(several))
    assert together.shape == (6,)
    np.testing.assert_allclose(together, [figure(counts) for counts in several])


@pytest.mark.parametrize("figure", FIGURES)
def test_nothing_is_known_of_no_pictures(figure, stack):
    assert np.isnan(figure(Counts.zeros(3)))
    assert np.isnan(figure(stack([Counts.zeros(3)] * 2))).tolist() == [True, True]
