"""The report of a model in the field: figures by version and subgroup, and which promises are broken."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from types import MappingProxyType
from typing import Final, Literal

import numpy as np

from registry.bundle.manifest.schema import BundleManifest
from registry.bundle.metrics.exact import beta_quantile
from registry.bundle.metrics.limits import LEVEL, Limits
from registry.field.corrected import FieldFigures, field_figures, no_figures
from registry.field.seen import FLAGGED, Seen, by_subgroup, coverage_of, seen
from registry.field.watch import KnownOutcomes, watch
from registry.field.windows import windows
from registry.gates.figures import figures_by_subgroup, interval_of
from registry.gates.shown_sensitivity import AT_WORKING_POINT
from registry.outcomes.answer import UNKNOWN
from registry.outcomes.counts import FieldCounts, field_counts
from registry.outcomes.store import OutcomeStore

ALPHA: Final = 0.05
"""How often all the promises of a model that are kept may bring one alarm in a year, together."""

What = Literal["sensitivity", "coverage"]

Key = tuple[int, str, str]
"""Which promise: the version's number, the subgroup, and what was promised of it."""


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
        outcomes: how many it is held against, of those since an alarm was closed.
        evidence: the capital of those who bet against it, 1 as a year begins; broken at `limit` or more.
        limit: how much that takes.
        broken_on: the day of the alarm; None where there is none.
        windows: how often enough outcomes had come to weigh them; nothing is watched where it is 0.
    """

    promise: Promise
    outcomes: int
    evidence: float
    limit: float
    broken_on: date | None
    windows: int


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
    store: OutcomeStore,
    model: str,
    manifest_of: Callable[[int], BundleManifest | None],
    closed: Mapping[Key, date] = MappingProxyType({}),
) -> list[SubgroupInField]:
    """The report of a model, by version and subgroup.

    Args:
        store: where answers and outcomes are.
        model: its name.
        manifest_of: gives the manifest of a version by its number, for what it promises; without one it
            promises nothing. Asked once for each version that has answered.
        closed: the day on which an alarm of a promise was closed. What became known until then is spent, and
            the promise is watched anew: each closing lets it be accused once more with its α.

    Raises:
        DatabaseError: the outcomes cannot be read.
    """
    counts = field_counts(store, model)
    manifests = {version: manifest_of(version) for version in {one.answering.version for one in counts}}
    groups = by_subgroup(counts)
    promised = [
        () if subgroup == UNKNOWN else promises(manifests[version], subgroup)
        for version, subgroup, _ in groups
    ]
    watched = max(1, sum(map(len, promised)))
    return [
        _of(version, subgroup, those, of, ALPHA / watched, closed)
        for (version, subgroup, those), of in zip(groups, promised, strict=True)
    ]


def promises(manifest: BundleManifest | None, subgroup: str) -> tuple[Promise, ...]:
    """What a version promises to a subgroup: the sensitivity and the coverage that it was sure of."""
    if manifest is None:
        return ()
    found = []
    own = figures_by_subgroup(manifest).get(subgroup) if manifest.subgroup.is_global else manifest.metrics
    ends = interval_of(own, AT_WORKING_POINT) if isinstance(own, Mapping) else None
    if ends is not None and 0 < ends[0] < 1:
        found.append(Promise("sensitivity", ends[0], "the lower end of the interval on test pictures"))
    conformal = manifest.conformal
    for_them = conformal.guarantee == "subgroup" and manifest.subgroup.name == subgroup
    if for_them and (least := _sure_coverage(conformal.alpha, conformal.n)):
        found.append(Promise("coverage", least, "what sets of as many lesions hold but for 1 in 40"))
    return tuple(found)


def _sure_coverage(alpha: float, n: int) -> float:
    """The coverage of prediction sets that all but 1 in 40 calibrations on n lesions have; 0 where none is.

    Given its calibration, a split conformal set covers Beta(k, n + 1 - k) of what is to come, with
    k = ceil((n + 1)(1 - alpha)): half of all calibrations cover less than they aim at (Vovk 2012).
    """
    k = math.ceil((n + 1) * (1 - alpha))
    if not 0 < k <= n:
        return 0.0
    return float(beta_quantile((1 - LEVEL) / 2, np.array(float(k)), np.array(float(n + 1 - k))))


def _of(
    version: int,
    subgroup: str,
    counts: list[FieldCounts],
    promised: tuple[Promise, ...],
    alpha: float,
    closed: Mapping[Key, date],
) -> SubgroupInField:
    found = seen(counts)
    answered = int(found.answered.sum())
    return SubgroupInField(
        version,
        counts[0].answering.made_for,
        subgroup,
        found.first,
        field_figures(found.strata) if found.has_working_point else no_figures(found.strata),
        coverage_of(found.in_set),
        found.reported / answered,
        tuple(_kept(one, found, alpha, closed.get((version, subgroup, one.what))) for one in promised),
    )


def _kept(promise: Promise, found: Seen, alpha: float, closed: date | None) -> Kept:
    about = found.malignant if promise.what == "sensitivity" else np.ones(len(found.stratum), dtype=np.bool_)
    since = found.known_on > (-1 if closed is None else (closed - found.first).days)
    about = about & since
    hit = FLAGGED[found.stratum] if promise.what == "sensitivity" else found.in_set
    outcomes = KnownOutcomes(found.known_on[about], found.stratum[about], hit[about])
    within = windows(found.answered, found.known_on[since], found.stratum[since], FLAGGED)
    watched = watch(outcomes, within, promise.least, alpha)
    return Kept(
        promise,
        len(outcomes.hit),
        float(np.exp(watched.evidence[-1])) if len(watched.evidence) else 1.0,
        1 / alpha,
        None if watched.alarm_on is None else found.first + timedelta(days=watched.alarm_on),
        len(watched.evidence),
    )
