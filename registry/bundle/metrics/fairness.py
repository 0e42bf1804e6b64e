"""Fairness figures: how far apart the subgroups' accuracies are (paper 003).

acc_s is the accuracy on subgroup s, acc_not_s that on all pictures of the other subgroups together.
A subgroup without pictures is absent: it takes no part, and is never counted as 0. Every figure is
nan where fewer than two subgroups have pictures.

Each has a form that takes accuracies and pictures, `(..., subgroups)`.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.confusion import HasConfusion
from registry.bundle.metrics.classification import accuracy, recalls
from registry.bundle.metrics.ratio import Figure, mean_defined, ratio

Subgroups = Mapping[str, HasConfusion]


def _accuracies(subgroups: Subgroups) -> Figure:
    """acc_s, `(..., subgroups)`; nan for an absent subgroup, and for all where there are not two."""
    if not subgroups:
        return np.full(1, np.nan)
    each = np.stack([accuracy(counts) for counts in subgroups.values()], axis=-1)
    comparable = (~np.isnan(each)).sum(axis=-1, keepdims=True) >= 2
    return np.where(comparable, each, np.nan)


def _pictures(subgroups: Subgroups) -> NDArray[np.int64]:
    """`(..., subgroups)`."""
    if not subgroups:
        return np.zeros(1, dtype=np.int64)
    return np.stack([counts.n for counts in subgroups.values()], axis=-1)


def _of_others(accuracies: Figure, n: NDArray[np.int64]) -> Figure:
    """acc_not_s, `(..., subgroups)`; nan where no other subgroup has pictures."""
    right = np.where(n > 0, accuracies, 0.0) * n
    return ratio(right.sum(axis=-1, keepdims=True) - right, n.sum(axis=-1, keepdims=True) - n)


def deviation_of(accuracies: Figure) -> Figure:
    """The population standard deviation, the root of `variance`."""
    mean = mean_defined(accuracies)[..., np.newaxis]
    return np.sqrt(mean_defined((accuracies - mean) ** 2))


def gap_of(accuracies: Figure, n: NDArray[np.int64]) -> Figure:
    """The mean of |acc_s - acc_not_s|."""
    return mean_defined(np.abs(accuracies - _of_others(accuracies, n)))


def worst_of(accuracies: Figure, n: NDArray[np.int64]) -> Figure:
    """The mean of min(acc_s, acc_not_s)."""
    return mean_defined(np.minimum(accuracies, _of_others(accuracies, n)))


def spread_of(accuracies: Figure) -> Figure:
    """Largest minus smallest of those that are defined, nan where none is."""
    defined = ~np.isnan(accuracies)
    largest = np.where(defined, accuracies, -np.inf).max(axis=-1)
    smallest = np.where(defined, accuracies, np.inf).min(axis=-1)
    none = ~defined.any(axis=-1)
    return np.where(none, np.nan, np.where(none, 0.0, largest) - np.where(none, 0.0, smallest))


def variance(subgroups: Subgroups) -> Figure:
    """(1/|S|) sum_s (acc_s - mean)^2: the population variance of the accuracies."""
    return deviation_of(_accuracies(subgroups)) ** 2


def gap(subgroups: Subgroups) -> Figure:
    """The mean over the subgroups of |acc_s - acc_not_s|."""
    return gap_of(_accuracies(subgroups), _pictures(subgroups))


def worst(subgroups: Subgroups) -> Figure:
    """The mean over the subgroups of min(acc_s, acc_not_s)."""
    return worst_of(_accuracies(subgroups), _pictures(subgroups))


def spread(subgroups: Subgroups) -> Figure:
    """max_s acc_s - min_s acc_s."""
    return spread_of(_accuracies(subgroups))


def standardised_accuracies(subgroups: Subgroups) -> Figure:
    """The accuracy each subgroup would have with the class mix of all together, `(..., subgroups)`.

    sum_k q_k recall_{s,k}, where q is the mix of all subgroups' pictures over the classes that every
    subgroup with pictures has; nan where there is no such class. Subgroups differ in how common each
    disease is, and this takes that difference out.
    """
    return _over_common_classes(subgroups, as_common_as_together=True)


def standardised_balanced_accuracies(subgroups: Subgroups) -> Figure:
    """The mean recall of each subgroup over the classes that every subgroup has, `(..., subgroups)`.

    As `standardised_accuracies` with the same q for each of these classes.
    """
    return _over_common_classes(subgroups, as_common_as_together=False)


def _over_common_classes(subgroups: Subgroups, *, as_common_as_together: bool) -> Figure:
    each = _accuracies(subgroups)
    if not subgroups:
        return each
    recall = np.stack([recalls(counts) for counts in subgroups.values()], axis=-2)
    mix = common_mix(subgroups, as_common_as_together=as_common_as_together)[..., np.newaxis, :]
    weighted = (np.where(np.isnan(recall), 0.0, recall) * mix).sum(axis=-1)
    standardised = ratio(weighted, np.broadcast_to(mix.sum(axis=-1), weighted.shape))
    return np.where(np.isnan(each), np.nan, standardised)


def common_mix(subgroups: Subgroups, *, as_common_as_together: bool) -> NDArray[np.int64]:
    """The weight of each class in a standardised figure, `(..., classes)`: 0 where a subgroup lacks it.

    Otherwise 1, or with `as_common_as_together` the number of its pictures in all subgroups.
    """
    support = np.stack([counts.confusion.sum(axis=-1) for counts in subgroups.values()])
    absent = (support.sum(axis=-1) == 0)[..., np.newaxis]
    common = (absent | (support > 0)).all(axis=0)
    return np.where(common, support.sum(axis=0) if as_common_as_together else 1, 0)


def spread_standardised(subgroups: Subgroups) -> Figure:
    """The spread of the accuracies standardised to one class mix."""
    return spread_of(standardised_accuracies(subgroups))
