"""Metrics of answers and areas against scikit-learn and by hand, and their variances against draws."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from registry.bundle.counting import count
from registry.bundle.counts import Confusion, Counts
from registry.bundle.metrics import classification as of
from registry.bundle.metrics.classification import malignant_sensitivity, malignant_specificity
from registry.bundle.metrics.intervals import DesignEffect, Sample, clopper_pearson, sample_of
from registry.bundle.metrics.selective import aurc, aurc_variance
from registry.bundle.metrics.summary import ANSWERS, BY_CLASS
from registry.bundle.score_bins import LOGIT_BINS, SCORE_BINS

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
    assert ANSWERS["macro_precision"].value(counts) == pytest.approx(macro[0])
    assert of.balanced_accuracy(counts) == pytest.approx(macro[1])
    assert ANSWERS["macro_f1"].value(counts) == pytest.approx(macro[2])
    assert ANSWERS["weighted_precision"].value(counts) == pytest.approx(weighted[0])
    assert ANSWERS["weighted_recall"].value(counts) == pytest.approx(of.accuracy(counts))
    assert ANSWERS["weighted_f1"].value(counts) == pytest.approx(weighted[2])
    np.testing.assert_allclose(of.recalls(counts)[present], scores(None)[1])


@CASES
@FEW
def test_specificity_is_the_recall_of_not_being_the_class(predictions, seed, n, num_classes):
    probabilities, labels = predictions(seed, n, num_classes)
    predicted = probabilities.argmax(axis=1)
    expected = [
        sk.recall_score(labels != k, predicted != k) for k in np.unique(labels) if (labels != k).any()
    ]
    value = ANSWERS["specificity"].value(counted(probabilities, labels).point)
    assert value == pytest.approx(np.mean(expected)) if expected else np.isnan(value)


def test_auprc_of_a_class_of_few_pictures_is_not_told():
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


@pytest.mark.parametrize("kind", [True, False])
def test_classes_of_one_kind_leave_both_undefined(kind):
    malignant = np.full(3, kind)
    assert np.isnan(malignant_sensitivity(CONFUSION, malignant=malignant))
    assert np.isnan(malignant_specificity(CONFUSION, malignant=malignant))


MALIGNANT = np.array([True, False])


@pytest.fixture(scope="module")
def drawn():
    """300 splits of 40 and 60 pictures as one sample."""
    rng, labels, blocks = np.random.default_rng(0), np.repeat([0, 1], [40, 60]), []
    for _ in range(300):
        log_odds = rng.normal(size=100) + np.where(labels == 1, 1.0, -1.0)
        scores = 1 / (1 + np.exp(-log_odds))
        blocks.append(count(np.stack([1 - scores, scores], axis=1), labels, malignant=MALIGNANT).point)
    names = ("confusion", "scores", "malignancy", "confidence")
    counts = Counts(*(np.stack([getattr(block, name) for block in blocks]) for name in names))
    return Sample(counts, DesignEffect(np.zeros(300), np.ones((300, 2))))


def test_values_are_those_of_the_figures(drawn):
    np.testing.assert_allclose(of.mean_auroc_moments(drawn).value, of.auroc(drawn.counts))
    np.testing.assert_allclose(of.auprc_moments(drawn).value, of.auprcs(drawn.counts))
    np.testing.assert_allclose(of.malignancy_moments(drawn).value, of.auroc_moments(drawn).value[:, 0])
    np.testing.assert_allclose(aurc_variance(drawn).value, aurc(drawn.counts))


@pytest.mark.parametrize(
    ("figure", "most"),
    [
        (of.mean_auroc_moments, 2),
        (of.malignancy_moments, 2),
        (of.mean_auprc_moments, 2.5),
        (aurc_variance, 5),
    ],
)
def test_the_variance_is_that_of_draws_or_larger(drawn, figure, most):
    """That of AURC has half the square of its largest weight in it, which counts where few are wrong."""
    found = figure(drawn)
    assert 0.85 <= found.variance.mean() / found.value.var() <= most


def test_an_area_of_one_of_three_pictures_is_far_from_certain():
    scores = np.r_[np.full(3, 0.9), np.linspace(0.05, 0.3, 60)]
    block = count(np.stack([scores, 1 - scores], axis=1), np.repeat([0, 1], [3, 60]), malignant=MALIGNANT)
    found = of.auroc_moments(sample_of(block)).limits()
    assert found.value[0] == 1
    assert found.low[0] < 0.7
    assert found.high[0] == 1


def test_pairs_that_a_bin_hides_may_all_be_in_order():
    """All in order but for one bin of both kinds: the truth may be 1."""
    counts = Counts.zeros(2)
    counts.confusion[:] = [[40, 0], [0, 40]]
    counts.scores[:, 0, [10, SCORE_BINS // 2]] = counts.scores[:, 1, [-10, SCORE_BINS // 2]] = 20
    found = of.auroc_moments(Sample(counts, DesignEffect(np.array(0.0), np.ones(2))))
    np.testing.assert_allclose(found.value, 1 - 0.25 / 2)
    np.testing.assert_allclose(found.limits().high, 1)


def of_bins(positives, negatives):
    """Counts of class 0 against class 1, whose pictures have scores in these bins."""
    counts = Counts.zeros(2)
    counts.confusion[:] = [[len(positives), 0], [0, len(negatives)]]
    for side, bins in enumerate((negatives, positives)):
        np.add.at(counts.scores[0, side], bins, 1)
    return counts


def by_pairs(positives, negatives, of_class, others):
    """The area, and its variance by Hanley and McNeil and by DeLong, pair by pair."""
    m, n = len(positives), len(negatives)
    wins = np.array([[(p > q) + (p == q) / 2 for q in negatives] for p in positives])
    area = wins.mean()
    theta = (wins.sum() + (m + n + 1) / 2) / ((m + 1) * (n + 1))
    alone, apart = m / of_class, n / others
    model = theta * (1 - theta) / (alone * apart)
    model *= 1 + (alone - 1) * (1 - theta) / (2 - theta) + (apart - 1) * theta / (1 + theta)
    shown = wins.mean(axis=1).var(ddof=1) / m + wins.mean(axis=0).var(ddof=1) / n
    return area, model, shown * max(of_class, others)


def test_the_variance_is_hanley_and_mcneils_or_delongs_whichever_is_larger():
    rng, larger = np.random.default_rng(1), set()
    for spread in (2, 40):  # bins: scores that are mostly tied, and such as are far apart
        for of_class, others in ((1.0, 1.0), (2.0, 3.0), (3.0, 2.0)):
            positives, negatives = (
                rng.choice((-spread, spread), size) + rng.integers(0, most, size) + SCORE_BINS // 2
                for size, most in ((30, 3), (50, 2))
            )
            effect = DesignEffect(np.array(1.0), np.array([of_class, others]))
            found = of.auroc_moments(Sample(of_bins(positives, negatives), effect))
            area, model, shown = by_pairs(positives, negatives, of_class, others)
            assert found.value[0] == pytest.approx(area)
            assert found.variance[0] == pytest.approx(max(model, shown))
            larger.add(model < shown)
    assert larger == {True, False}


def test_noise_on_counts_adds_its_variance():
    """Noise is drawn on every bin of both sides, whose sums are known; the area is what that makes of it."""
    rng = np.random.default_rng(2)
    counts = of_bins(rng.integers(120, 240, 60), rng.integers(80, 200, 90))
    effect = DesignEffect(np.array(0.0), np.ones(2))
    noise = 0.01
    without, found = (of.auroc_moments(Sample(counts, effect, each)).variance[0] for each in (0.0, noise))
    negatives, positives = counts.scores[0].astype(float)
    drawn = []
    for _ in range(4000):
        q, p = (
            side + draw - draw.mean()
            for side, draw in ((one, rng.normal(0, noise**0.5, SCORE_BINS)) for one in (negatives, positives))
        )
        drawn.append((p * (np.cumsum(q) - q / 2)).sum() / (60 * 90))
    assert found - without == pytest.approx(np.var(drawn), rel=0.1)


def sample(matrix, correlation=0.0, sizes=1.0):
    classes = len(matrix)
    return Sample(Confusion(np.array(matrix)), DesignEffect(np.array(correlation), np.full(classes, sizes)))


MATRIX = [[14, 3, 3], [2, 36, 2], [1, 1, 6]]


def test_a_recall_has_exact_limits():
    found = BY_CLASS["recall"].of_sample(sample(MATRIX)).limits()
    for k, (right, n) in enumerate([(14, 20), (36, 40), (6, 8)]):
        assert found[k].ends() == pytest.approx(clopper_pearson(right, n))


def test_pictures_of_one_lesion_are_worth_fewer():
    found = BY_CLASS["recall"].of_sample(sample(MATRIX, correlation=0.5, sizes=3.0)).limits()
    assert found[0].ends() == pytest.approx(clopper_pearson(14 / 2, 20 / 2))


@pytest.mark.parametrize("name", ANSWERS)
def test_the_variance_is_that_of_drawn_answers(name):
    """Multinomial answers in rows of 200: the linear parts against what is drawn."""
    rng, matrix = np.random.default_rng(3), np.array([[140, 30, 30], [20, 160, 20], [10, 10, 180]])
    drawn = np.stack([rng.multinomial(200, row / 200, size=3000) for row in matrix], axis=1)
    many = Sample(Confusion(drawn), DesignEffect(np.zeros(3000), np.ones((3000, 3))))
    told = ANSWERS[name].of_sample(sample(matrix)).variance
    assert told == pytest.approx(np.var(ANSWERS[name].of_sample(many).value), rel=0.1)


def test_a_class_never_answered_has_a_precision_that_may_be_anything_but_certain():
    found = BY_CLASS["precision"].of_sample(sample([[20, 0], [5, 0]])).limits()
    assert found.value[1] == found.low[1] == 0
    assert found.high[1] > 0.9
