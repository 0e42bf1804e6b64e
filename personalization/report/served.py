"""Figures of the served system: coverage, set sizes and referrals, by the model that answers a subgroup.

A figure over several subgroups adds what the thresholds of each one's own model do there, as the service
would: a subgroup without a model of its own is answered by the global one. Clients count that exactly; those
of the version before did not, and sent histograms fine enough to be cut at the thresholds.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from personalization.report.data import CalibratedModel
from personalization.report.measures import Estimate
from registry.bundle.counts.count import Block, Counts
from registry.bundle.counts.decisions import Decisions
from registry.bundle.counts.lesion_sums import LesionSums
from registry.bundle.metrics.decided import mean_interval, mean_of, share_interval
from registry.bundle.metrics.exact import clopper_pearson
from registry.bundle.metrics.interval import interval
from registry.bundle.metrics.ratio import ratio
from registry.bundle.metrics.sets import label_histogram
from training.messages.message import GLOBAL

Routes = Mapping[str, CalibratedModel]
"""Per subgroup, the calibrated model that answers its pictures."""

Blocks = Mapping[str, Block]
"""The test counts of some subgroups."""

_Tally = tuple[NDArray[Any], NDArray[Any]]  # how much of how many pictures, each `()` or `(replicates,)`


def routes(models: Sequence[CalibratedModel], subgroups: Iterable[str]) -> dict[str, CalibratedModel]:
    """The model of each subgroup; a subgroup that no calibrated model answers is left out."""
    by_name = {model.subgroup: model for model in models}
    found = {name: by_name.get(name, by_name.get(GLOBAL)) for name in subgroups}
    return {name: model for name, model in found.items() if model is not None}


def coverage(answered_by: Routes, blocks: Blocks) -> Estimate:
    """The fraction of pictures whose prediction set holds the right class."""
    if (decisions := _decisions(blocks)) is not None:
        return _exact(decisions.covered, share_interval)
    return _cut(answered_by, blocks, _covered)


def set_size(answered_by: Routes, blocks: Blocks) -> Estimate:
    """The mean number of classes in a prediction set."""
    if (decisions := _decisions(blocks)) is not None:
        return _exact(decisions.set_sizes, mean_interval)
    return _cut(answered_by, blocks, _in_sets)


def referred(answered_by: Routes, blocks: Blocks) -> Estimate:
    """The fraction of pictures whose confidence lies below the threshold of their model."""
    if (decisions := _decisions(blocks)) is not None:
        return _exact(decisions.reported.others, share_interval)
    return _cut(answered_by, blocks, _below)


def wrong(answered_by: Routes, blocks: Blocks) -> Estimate:
    """The fraction of wrong answers among those not referred; undefined where all are."""
    if (decisions := _decisions(blocks)) is not None:
        return _exact(decisions.wrong, share_interval)
    return _cut(answered_by, blocks, _wrong_above)


def suspicious(blocks: Blocks) -> tuple[Estimate, int]:
    """The fraction of malignant pictures at the working point or above, and of how many."""
    return _at_working_point(blocks, lambda decisions: decisions.suspicious)


def cleared(blocks: Blocks) -> tuple[Estimate, int]:
    """The fraction of other pictures below the working point, and of how many."""
    return _at_working_point(blocks, lambda decisions: decisions.cleared)


def _at_working_point(blocks: Blocks, share: Callable[[Decisions], LesionSums]) -> tuple[Estimate, int]:
    decisions = _decisions(blocks)
    if decisions is None:
        return Estimate(None), 0
    return _exact(share(decisions), share_interval), int(share(decisions).n[0])


def _decisions(blocks: Blocks) -> Decisions | None:
    """What the thresholds do to the pictures of all subgroups; None where it was not counted."""
    found = [block.decisions for block in blocks.values() if block.decisions is not None]
    return reduce(add, found) if found and len(found) == len(blocks) else None


def _exact(sums: LesionSums, interval_of: Callable[[LesionSums], list[float] | None]) -> Estimate:
    return Estimate(mean_of(sums), *(interval_of(sums) or (None, None)))


def _cut(answered_by: Routes, blocks: Blocks, tally: Callable[[Counts, CalibratedModel], _Tally]) -> Estimate:
    """A figure from histograms, each cut at the thresholds of the model that answers.

    Its interval is of the replicates that clients sent, or else exact of a share, and of pictures.
    """

    def tallied(subgroups: Mapping[str, Counts]) -> _Tally:
        tallies = [tally(counts, answered_by[name]) for name, counts in subgroups.items()]
        x, n = (np.sum(parts, axis=0) for parts in zip(*tallies, strict=True))
        return x, n

    x, n = tallied({name: block.point for name, block in blocks.items()})
    if not n:
        return Estimate(None)
    sent = {name: block.sent for name, block in blocks.items() if block.sent is not None}
    ends = interval(ratio(*tallied(sent))) if len(sent) == len(blocks) else None
    if ends is None and tally is not _in_sets:
        ends = clopper_pearson(float(x), float(n))
    return Estimate(float(x / n), *(ends or (None, None)))


def _covered(counts: Counts, model: CalibratedModel) -> _Tally:
    of_truth = label_histogram(counts)
    return of_truth[..., model.conformal.threshold_bin :].sum(axis=-1), of_truth.sum(axis=-1)


def _in_sets(counts: Counts, model: CalibratedModel) -> _Tally:
    by_score = counts.scores.sum(axis=(-3, -2))
    pictures = by_score.sum(axis=-1) / counts.num_classes
    return by_score[..., model.conformal.threshold_bin :].sum(axis=-1), pictures


def _below(counts: Counts, model: CalibratedModel) -> _Tally:
    by_confidence = counts.confidence.sum(axis=-2)
    return by_confidence[..., : model.reports_from].sum(axis=-1), by_confidence.sum(axis=-1)


def _wrong_above(counts: Counts, model: CalibratedModel) -> _Tally:
    answered = counts.confidence[..., model.reports_from :].sum(axis=-1)
    return answered[..., 0], answered.sum(axis=-1)
