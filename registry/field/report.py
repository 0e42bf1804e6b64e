"""The report of a model in the field: figures by version and subgroup, and which promises are broken."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import groupby
from typing import Any, Final, Literal

import numpy as np

from registry.bundle.manifest.schema import BundleManifest
from registry.bundle.metrics.exact import exact_limits
from registry.bundle.metrics.limits import Limits
from registry.field.corrected import FieldFigures, field_figures
from registry.field.seen import Seen, seen
from registry.field.watch import KnownOutcomes, watch, weights_by_day
from registry.outcomes.answer import UNKNOWN
from registry.outcomes.counts import FieldCounts, field_counts
from registry.outcomes.store import OutcomeStore

ALPHA: Final = 0.05
"""How often all the promises of a model that are kept may bring one alarm in a year, together."""

YEAR: Final = 365

What = Literal["sensitivity", "coverage"]


@dataclass(frozen=True)
class Promise:
    """A share that a version has promised to a subgroup.

    Attributes:
        what: of what.
        least: the share.
        why: where that is said.
    """

    what: What
    least: float
    why: str


@dataclass(frozen=True)
class Kept:
    """A promise, and what speaks against it.

    Attributes:
        promise: which.
        outcomes: how many it is held against.
        evidence: the capital of those who bet against it, 1 at first; broken at `limit` or more, at any time.
        limit: how much that takes.
        broken_on: the day of the alarm; None where there is none.
    """

    promise: Promise
    outcomes: int
    evidence: float
    limit: float
    broken_on: date | None


@dataclass(frozen=True)
class SubgroupInField:
    """One version and one subgroup that it answered.

    Attributes:
        version: its number.
        made_for: the subgroup that it was made for.
        subgroup: whom it answered.
        since: the day of the first answer.
        figures: sensitivity and specificity at the working point, seen and corrected.
        coverage: how often the prediction set held what it was, among the followed up.
        reported: the share of answers that were reported.
        kept: its promises.
    """

    version: int
    made_for: str
    subgroup: str
    since: date
    figures: FieldFigures
    coverage: Limits
    reported: float
    kept: tuple[Kept, ...]

    @property
    def alarms(self) -> tuple[Kept, ...]:
        """The broken promises."""
        return tuple(one for one in self.kept if one.broken_on is not None)


def field_report(
    store: OutcomeStore, model: str, manifests: Mapping[int, BundleManifest]
) -> list[SubgroupInField]:
    """The report of a model, by version and subgroup.

    Args:
        store: where answers and outcomes are.
        model: its name.
        manifests: of its versions, by number, for what they promise; a version without one promises nothing.

    Raises:
        DatabaseError: the outcomes cannot be read.
    """
    return report_of(field_counts(store, model), manifests)


def report_of(
    counts: Sequence[FieldCounts], manifests: Mapping[int, BundleManifest]
) -> list[SubgroupInField]:
    """As `field_report`, of counts in the order of version and subgroup."""
    groups = [
        (version, subgroup, list(those))
        for (version, subgroup), those in groupby(
            counts, key=lambda one: (one.answering.version, one.answering.subgroup)
        )
    ]
    promised = [
        promises(manifests.get(version), subgroup) if subgroup != UNKNOWN else ()
        for version, subgroup, _ in groups
    ]
    watched = max(1, sum(map(len, promised)))
    return [
        _of(version, subgroup, those, of, ALPHA / watched)
        for (version, subgroup, those), of in zip(groups, promised, strict=True)
    ]


def promises(manifest: BundleManifest | None, subgroup: str) -> tuple[Promise, ...]:
    """What a version promises to a subgroup: what its test was sure of, and the coverage that it aims at."""
    if manifest is None:
        return ()
    found = []
    own: Any = manifest.metrics
    if manifest.subgroup.is_global:
        by_subgroup = manifest.metrics.get("by_subgroup")
        own = by_subgroup.get(subgroup) if isinstance(by_subgroup, Mapping) else None
    intervals = own.get("intervals") if isinstance(own, Mapping) else None
    ends = intervals.get("sensitivity_at_threshold") if isinstance(intervals, Mapping) else None
    if isinstance(ends, Sequence) and len(ends) == 2 and isinstance(ends[0], float) and 0 < ends[0] < 1:
        found.append(Promise("sensitivity", ends[0], "the lower end of the interval on test pictures"))
    if manifest.conformal.guarantee == "subgroup" or manifest.subgroup.name == subgroup:
        found.append(Promise("coverage", 1 - manifest.conformal.alpha, "what prediction sets are made for"))
    return tuple(found)


def _of(
    version: int, subgroup: str, counts: list[FieldCounts], promised: tuple[Promise, ...], alpha: float
) -> SubgroupInField:
    found = seen(counts)
    covered = exact_limits(np.array(found.in_set.sum()), np.array(len(found.in_set)))
    answered = int(found.answered.sum())
    return SubgroupInField(
        version,
        counts[0].answering.made_for,
        subgroup,
        found.first,
        field_figures(found.strata),
        covered if len(found.in_set) else Limits(np.array(np.nan), covered.low, covered.high),
        found.reported / answered,
        tuple(_kept(one, found, alpha) for one in promised),
    )


def _kept(promise: Promise, found: Seen, alpha: float) -> Kept:
    about = found.malignant if promise.what == "sensitivity" else np.ones(len(found.stratum), dtype=np.bool_)
    hit = found.flagged[found.stratum] if promise.what == "sensitivity" else found.in_set
    outcomes = KnownOutcomes(
        found.answered_on[about], found.known_on[about], found.stratum[about], hit[about]
    )
    weights = weights_by_day(found.answered, found.answered_on, found.known_on, found.stratum)
    years = -(-len(found.answered) // YEAR)
    watched = watch(outcomes, weights, promise.least, alpha, years * YEAR)
    return Kept(
        promise,
        len(outcomes.hit),
        float(np.exp(watched.evidence[-1])) if len(watched.evidence) else 1.0,
        1 / alpha,
        None if watched.alarm_on is None else found.first + timedelta(days=watched.alarm_on),
    )
