"""Classification metrics: accuracy, recall, precision, F1, specificity, AUROC, AUPRC, and malignancy.

Classification figures: accuracy, recall, precision, F1, specificity, AUROC and AUPRC.

Figures of the confusion matrix are exact. AUROC and AUPRC see a score as its bin: they are exactly those of
the binned scores, and two scores of one bin count as equal. AUROC is then off by at most half the share of
pairs, one of the class and one not, that fall into one bin. AUPRC depends on who comes first, which merged
bins hide of a rare class: it is told of classes with `FEWEST_FOR_AUPRC` pictures.

Macro figures are means over the classes that are present among the true labels: a class that no
picture has, has no recall. (scikit-learn's macro precision also counts, as 0, a class that was
predicted but is absent; here it does not count.)

A picture is malignant if its class is labelled `malignant`, and called malignant if its answer is such a
class, whichever. Both figures are undefined where the classes are not of both kinds.
"""

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.counts import Counts, HasConfusion
from registry.bundle.counts.score_bins import SCORE_BINS
from registry.bundle.metrics.intervals import Figure, Tally, harmonic_between, mean_defined, ratio

FEWEST_FOR_AUPRC = 30
"""Pictures of a class."""


def _right(counts: HasConfusion) -> NDArray[np.int64]:
    """Right answers of each class, `(..., classes)`."""
    return np.diagonal(counts.confusion, axis1=-2, axis2=-1)


def _support(counts: HasConfusion) -> NDArray[np.int64]:
    """Pictures of each class, `(..., classes)`."""
    return np.asarray(counts.confusion.sum(axis=-1))


def _answered(counts: HasConfusion) -> NDArray[np.int64]:
    """Times each class was the answer, `(..., classes)`."""
    return np.asarray(counts.confusion.sum(axis=-2))


def _other_answers(counts: HasConfusion) -> Tally:
    """Pictures of other classes that were not answered with the class, and pictures of other classes.

    Both `(..., classes)`; 0 of 0 for an absent class.
    """
    support = _support(counts)
    others = np.where(support > 0, counts.n[..., np.newaxis] - support, 0)
    false_alarms = np.where(support > 0, _answered(counts) - _right(counts), 0)
    return others - false_alarms, others


def accuracy(counts: HasConfusion) -> Figure:
    """The share of right answers."""
    return ratio(_right(counts).sum(axis=-1), counts.n)


def recalls(counts: HasConfusion) -> Figure:
    """Per class, the share of its pictures answered rightly, `(..., classes)`; nan for an absent class."""
    return ratio(_right(counts), _support(counts))


def precisions(counts: HasConfusion) -> Figure:
    """Per class, the share of its answers that are right, `(..., classes)`.

    0 for a class that is present but never the answer; nan for an absent class.
    """
    share = ratio(_right(counts), np.maximum(_answered(counts), 1))
    return np.where(_support(counts) > 0, share, np.nan)


def f1_scores(counts: HasConfusion) -> Figure:
    """Per class 2 right / (pictures + answers), `(..., classes)`; nan for an absent class."""
    score = ratio(2 * _right(counts), _support(counts) + _answered(counts))
    return np.where(_support(counts) > 0, score, np.nan)


def specificities(counts: HasConfusion) -> Figure:
    """Per class, the share of pictures of other classes for which it was not the answer, `(..., classes)`.

    nan for an absent class, and where there are no other pictures.
    """
    return ratio(*_other_answers(counts))


def balanced_accuracy(counts: HasConfusion) -> Figure:
    """Macro recall: the mean recall over the classes present."""
    return mean_defined(recalls(counts))


def macro_precision(counts: HasConfusion) -> Figure:
    """The mean precision over the classes present."""
    return mean_defined(precisions(counts))


def macro_f1(counts: HasConfusion) -> Figure:
    """The mean F1 over the classes present."""
    return mean_defined(f1_scores(counts))


def specificity(counts: HasConfusion) -> Figure:
    """The mean specificity over the classes present."""
    return mean_defined(specificities(counts))


def _weighted(values: Figure, counts: HasConfusion) -> Figure:
    """The mean over classes weighted by their pictures."""
    weighted = np.where(np.isnan(values), 0.0, values) * _support(counts)
    return ratio(weighted.sum(axis=-1), counts.n)


def weighted_precision(counts: HasConfusion) -> Figure:
    """The mean precision, each class weighted by its pictures."""
    return _weighted(precisions(counts), counts)


def weighted_recall(counts: HasConfusion) -> Figure:
    """The mean recall, each class weighted by its pictures: the same number as accuracy."""
    return _weighted(recalls(counts), counts)


def weighted_f1(counts: HasConfusion) -> Figure:
    """The mean F1, each class weighted by its pictures."""
    return _weighted(f1_scores(counts), counts)


def _area_under_roc(histograms: NDArray[np.int64]) -> Figure:
    """P(score of a positive > score of a negative) + half P(equal), from `(..., 2, bins)`."""
    negatives, positives = histograms[..., 0, :], histograms[..., 1, :]
    below = np.cumsum(negatives, axis=-1) - negatives
    won_twice = (positives * (2 * below + negatives)).sum(axis=-1)
    pairs = np.maximum(positives.sum(axis=-1), 0) * np.maximum(negatives.sum(axis=-1), 0)
    return np.clip(ratio(won_twice, 2 * pairs), 0.0, 1.0)  # noise may lead out


def _average_precision(histograms: NDArray[np.int64]) -> Figure:
    """The mean over positives of the precision at each, from high to low, from `(..., 2, bins)`.

    Pictures of one bin enter in expectation over their order. With N pictures of which T positive above a bin
    of m, p of them positive, its p positives add

        sum_{j=1..m} p/m (T + 1 + (j − 1) (p − 1)/(m − 1)) / (N + j),

    which is p/m ((T + 1) h + (p − 1)/(m − 1) (m − (N + 1) h)), where h = sum_{j=1..m} 1/(N + j).
    """
    positives, total = histograms[..., 1, ::-1], histograms.sum(axis=-2)[..., ::-1]
    positives_above = np.cumsum(positives, axis=-1) - positives
    above = np.cumsum(total, axis=-1) - total
    h = harmonic_between(above, above + total)
    others = (positives - 1) / np.maximum(total - 1, 1)  # the share of positives beside one of them
    gained = (positives_above + 1) * h + others * (total - (above + 1) * h)
    return ratio((positives / np.maximum(total, 1) * gained).sum(axis=-1), positives.sum(axis=-1))


def aurocs(counts: Counts) -> Figure:
    """Area under each class's ROC curve, one-vs-rest, `(..., classes)`.

    The probability that a picture of the class scores above one that is not, ties counted half; nan
    unless there are pictures of both kinds.
    """
    return _area_under_roc(counts.scores)


def auroc(counts: Counts) -> Figure:
    """The mean of `aurocs` over the classes that have pictures of both kinds."""
    return mean_defined(aurocs(counts))


def auprcs(counts: Counts) -> Figure:
    """Average precision of each class, one-vs-rest, `(..., classes)`; nan as `aurocs` or of few pictures.

    nan of counts with noise, too: at the top, where precision is made, it is all noise.
    """
    others, positives = counts.scores[..., 0, :].sum(axis=-1), counts.scores[..., 1, :].sum(axis=-1)
    fewest = FEWEST_FOR_AUPRC if counts.scores.shape[-1] == SCORE_BINS else 1
    told = (others > 0) & (positives >= fewest) & counts.tells_confidence[..., np.newaxis]
    return np.where(told, _average_precision(counts.scores), np.nan)


def auprc(counts: Counts) -> Figure:
    """The mean of `auprcs` over the classes of which it is told."""
    return mean_defined(auprcs(counts))


def malignancy_auroc(counts: Counts) -> Figure:
    """AUROC of the malignancy probability; nan unless there are malignant and other pictures."""
    return _area_under_roc(counts.malignancy)


def malignant_answers(counts: HasConfusion, *, malignant: NDArray[np.bool_]) -> Tally:
    """Malignant pictures called malignant, and all malignant pictures."""
    return _side(counts, malignant, malignant)


def other_answers(counts: HasConfusion, *, malignant: NDArray[np.bool_]) -> Tally:
    """Pictures that are not malignant and not called so, and all that are not malignant."""
    return _side(counts, ~malignant, malignant)


def malignant_sensitivity(counts: HasConfusion, *, malignant: NDArray[np.bool_]) -> Figure:
    """The share of malignant pictures that are called malignant."""
    return mean_defined(ratio(*malignant_answers(counts, malignant=malignant)))


def malignant_specificity(counts: HasConfusion, *, malignant: NDArray[np.bool_]) -> Figure:
    """The share of pictures that are not malignant and not called malignant."""
    return mean_defined(ratio(*other_answers(counts, malignant=malignant)))


def _side(counts: HasConfusion, side: NDArray[np.bool_], malignant: NDArray[np.bool_]) -> Tally:
    rows = counts.confusion[..., side, :]
    if malignant.all() or not malignant.any():
        rows = rows * 0
    of_side = rows.sum(axis=(-2, -1))[..., np.newaxis]
    return rows[..., side].sum(axis=(-2, -1))[..., np.newaxis], of_side
