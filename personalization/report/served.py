"""Figures of the served system: coverage, set sizes and referrals, by the model that answers a subgroup.

A figure over several subgroups adds their counts, each cut at the thresholds of its own model, as the service
would: a subgroup without a model of its own is answered by the global one.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from personalization.report.data import CalibratedModel
from registry.bundle.counts.count import Counts
from registry.bundle.metrics.ratio import Figure, ratio
from registry.bundle.metrics.sets import coverage_at, mean_set_size_at
from training.messages.message import GLOBAL

Routes = Mapping[str, CalibratedModel]
"""Per subgroup, the calibrated model that answers its pictures."""


def routes(models: Sequence[CalibratedModel], subgroups: Iterable[str]) -> dict[str, CalibratedModel]:
    """The model of each subgroup; a subgroup that no calibrated model answers is left out."""
    by_name = {model.subgroup: model for model in models}
    found = {name: by_name.get(name, by_name.get(GLOBAL)) for name in subgroups}
    return {name: model for name, model in found.items() if model is not None}


def coverage(answered_by: Routes) -> Callable[[Mapping[str, Counts]], Figure]:
    """The fraction of pictures whose prediction set holds the right class."""

    def share(subgroups: Mapping[str, Counts]) -> Figure:
        return _mean(subgroups, lambda name, of: coverage_at(of, answered_by[name].conformal.threshold_bin))

    return share


def set_size(answered_by: Routes) -> Callable[[Mapping[str, Counts]], Figure]:
    """The mean number of classes in a prediction set."""

    def mean(subgroups: Mapping[str, Counts]) -> Figure:
        return _mean(
            subgroups, lambda name, of: mean_set_size_at(of, answered_by[name].conformal.threshold_bin)
        )

    return mean


def referred(answered_by: Routes) -> Callable[[Mapping[str, Counts]], Figure]:
    """The fraction of pictures whose confidence lies below the threshold of their model."""

    def share(subgroups: Mapping[str, Counts]) -> Figure:
        answered = _answers(subgroups, answered_by).sum(axis=-1)
        return 1 - ratio(answered, _pictures(subgroups))

    return share


def wrong(answered_by: Routes) -> Callable[[Mapping[str, Counts]], Figure]:
    """The fraction of wrong answers among those not referred; undefined where all are."""

    def share(subgroups: Mapping[str, Counts]) -> Figure:
        answers = _answers(subgroups, answered_by)
        return ratio(answers[..., 0], np.asarray(answers.sum(axis=-1)))

    return share


def _answers(subgroups: Mapping[str, Counts], answered_by: Routes) -> NDArray[np.int64]:
    """Wrong and right answers given at these thresholds, `(..., 2)`."""
    answered = [
        counts.confidence[..., answered_by[name].reports_from :].sum(axis=-1)
        for name, counts in subgroups.items()
    ]
    total: NDArray[np.int64] = np.sum(answered, axis=0)
    return total


def _mean(subgroups: Mapping[str, Counts], figure: Callable[[str, Counts], Figure]) -> Figure:
    """The mean of a figure over pictures; a draw without pictures of a subgroup weighs nothing there."""
    sums = [np.where(of.n > 0, np.nan_to_num(figure(name, of)) * of.n, 0.0) for name, of in subgroups.items()]
    return ratio(np.sum(sums, axis=0), _pictures(subgroups))


def _pictures(subgroups: Mapping[str, Counts]) -> NDArray[np.int64]:
    total: NDArray[np.int64] = np.sum([counts.n for counts in subgroups.values()], axis=0)
    return total
