"""Fairness figures: how far apart the subgroups' accuracies are (paper 003).

acc_s is the accuracy on subgroup s, acc_not_s that on all pictures of the other subgroups together.
A subgroup without pictures is absent: it takes no part, and is never counted as 0. Every figure is
nan where fewer than two subgroups have pictures.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.count import Counts
from registry.bundle.metrics.classification import accuracy, recalls
from registry.bundle.metrics.ratio import Figure, mean_defined, ratio


def _accuracies(subgroups: Mapping[str, Counts]) -> Figure:
    """acc_s, `(subgroups, ...)`; nan for an absent subgroup, and for all where there are not two."""
    if not subgroups:
        return np.full(1, np.nan)
    each = np.stack([accuracy(counts) for counts in subgroups.values()])
    comparable = (~np.isnan(each)).sum(axis=0) >= 2
    return np.where(comparable, each, np.nan)


def _accuracies_of_others(subgroups: Mapping[str, Counts]) -> Figure:
    """acc_not_s, `(subgroups, ...)`; nan where no other subgroup has pictures."""
    if not subgroups:
        return np.full(1, np.nan)
    n = np.stack([counts.n for counts in subgroups.values()])
    right = np.stack([np.trace(counts.confusion, axis1=-2, axis2=-1) for counts in subgroups.values()])
    return ratio(right.sum(axis=0) - right, n.sum(axis=0) - n)


def _range(each: Figure) -> Figure:
    """Largest minus smallest of what is defined along the first axis, nan where nothing is."""
    defined = ~np.isnan(each)
    largest = np.where(defined, each, -np.inf).max(axis=0)
    smallest = np.where(defined, each, np.inf).min(axis=0)
    none = ~defined.any(axis=0)
    return np.where(none, np.nan, np.where(none, 0.0, largest) - np.where(none, 0.0, smallest))


def variance(subgroups: Mapping[str, Counts]) -> Figure:
    """(1/|S|) sum_s (acc_s - mean)^2: the population variance of the accuracies."""
    each = _accuracies(subgroups)
    return mean_defined((each - mean_defined(each, axis=0)) ** 2, axis=0)


def gaps(subgroups: Mapping[str, Counts]) -> Figure:
    """gap(s) = |acc(s) - acc(not s)| of each subgroup, `(subgroups, ...)`."""
    return np.abs(_accuracies(subgroups) - _accuracies_of_others(subgroups))


def gap(subgroups: Mapping[str, Counts]) -> Figure:
    """The mean gap over the subgroups."""
    return mean_defined(gaps(subgroups), axis=0)


def worsts(subgroups: Mapping[str, Counts]) -> Figure:
    """worst(s) = min(acc(s), acc(not s)) of each subgroup, `(subgroups, ...)`."""
    return np.minimum(_accuracies(subgroups), _accuracies_of_others(subgroups))


def worst(subgroups: Mapping[str, Counts]) -> Figure:
    """The mean worst over the subgroups."""
    return mean_defined(worsts(subgroups), axis=0)


def spread(subgroups: Mapping[str, Counts]) -> Figure:
    """max_s acc_s - min_s acc_s."""
    return _range(_accuracies(subgroups))


def standardised_accuracies(subgroups: Mapping[str, Counts]) -> Figure:
    """The accuracy each subgroup would have with the class mix of all together, `(subgroups, ...)`.

    sum_k q_k recall_{s,k}, where q is the mix of all subgroups' pictures over the classes that every
    subgroup with pictures has; nan where there is no such class. Subgroups differ in how common each
    disease is, and this takes that difference out.
    """
    return _over_common_classes(subgroups, as_common_as_together=True)


def standardised_balanced_accuracies(subgroups: Mapping[str, Counts]) -> Figure:
    """The mean recall of each subgroup over the classes that every subgroup has, `(subgroups, ...)`.

    As `standardised_accuracies` with the same q for each of these classes.
    """
    return _over_common_classes(subgroups, as_common_as_together=False)


def _over_common_classes(subgroups: Mapping[str, Counts], *, as_common_as_together: bool) -> Figure:
    each = _accuracies(subgroups)
    if not subgroups:
        return each
    recall = np.stack([recalls(counts) for counts in subgroups.values()])
    mix = common_mix(subgroups, as_common_as_together=as_common_as_together)
    weighted = (np.where(np.isnan(recall), 0.0, recall) * mix).sum(axis=-1)
    standardised = ratio(weighted, np.broadcast_to(mix.sum(axis=-1), weighted.shape))
    return np.where(np.isnan(each), np.nan, standardised)


def common_mix(subgroups: Mapping[str, Counts], *, as_common_as_together: bool) -> NDArray[np.int64]:
    """The weight of each class in a standardised figure, `(..., classes)`: 0 where a subgroup lacks it.

    Otherwise 1, or with `as_common_as_together` the number of its pictures in all subgroups.
    """
    support = np.stack([counts.confusion.sum(axis=-1) for counts in subgroups.values()])
    absent = (support.sum(axis=-1) == 0)[..., np.newaxis]
    common = (absent | (support > 0)).all(axis=0)
    return np.where(common, support.sum(axis=0) if as_common_as_together else 1, 0)


def spread_standardised(subgroups: Mapping[str, Counts]) -> Figure:
    """The spread of the accuracies standardised to one class mix."""
    return _range(standardised_accuracies(subgroups))
