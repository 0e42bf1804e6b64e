"""Drift as a table for the operator's page, and as gauges for Prometheus; computed on request.

It is of everything that a version has answered since the service started, in all workers. A window of time
is Prometheus' own work: the histograms are there as counters.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from registry.bundle.manifest import BundleManifest
from serving.metrics.multiprocess import WorkerTotals
from serving.monitoring.drift.bins import DISTANCE_EDGES
from serving.monitoring.drift.counting import (
    CLASSES,
    CONFIDENCE_LOG_ODDS,
    DECISIONS,
    MALIGNANCY_LOG_ODDS,
    TRIAGE,
    UNFAMILIARITY,
)
from serving.monitoring.drift.distance import Distance, compare
from serving.monitoring.drift.reference import MEASURES, Measure, expected
from serving.releases.current_release import LoadedRelease

EVERYBODY = "all"
"""The row of all subgroups together."""

SHIFTED, DRIFTED = 0.1, 0.25
"""PSI from which on a change is called noticeable and large; the rule of thumb of those who use it."""

DriftVerdict = Literal["not known", "too few", "steady", "shifted", "drifted"]

_HISTOGRAMS: Mapping[Measure, str] = {
    "confidence": CONFIDENCE_LOG_ODDS,
    "malignancy": MALIGNANCY_LOG_ODDS,
    "unfamiliarity": UNFAMILIARITY,
}


@dataclass(frozen=True)
class DriftRow:
    """One measure of drift: the pictures that came in, compared with those the version was tested on.

    Attributes:
        model, version: which answered.
        subgroup: of the declared tone; `all` for everybody together.
        measure: what is compared: the confidence, the malignancy probability, the classes' mean
            probabilities, or the distance from the training pictures.
        n: pictures that came in.
        tested_on: pictures that they are compared with; None where the bundle has no histogram.
        distance: how far apart they are; None while there are too few.
        shares: of the pictures that came in, over the bins; of the classes, their mean probabilities.
        expected: the same of the test pictures; None where the bundle has no histogram.
    """

    model: str
    version: int
    subgroup: str
    measure: Measure
    n: int
    tested_on: int | None
    distance: Distance | None
    shares: tuple[float, ...]
    expected: tuple[float, ...] | None

    @property
    def verdict(self) -> DriftVerdict:
        """Whether the PSI is above chance and above the rules of thumb, in a word; or why it is not known."""
        if self.expected is None:
            return "not known"
        if self.distance is None:
            return "too few"
        if self.distance.psi <= self.distance.by_chance or self.distance.psi < SHIFTED:
            return "steady"
        return "drifted" if self.distance.psi >= DRIFTED else "shifted"


def drift_table(totals: WorkerTotals, releases: Iterable[LoadedRelease]) -> list[DriftRow]:
    """The drift of the versions that are served, by model, version, subgroup (all first) and measure.

    Args:
        totals: the counts of all workers.
        releases: what is served.
    """
    counted = {measure: counts_of(totals, measure) for measure in MEASURES}
    rows = []
    answering = {
        (one.version.model, one.version.number): one
        for release in releases
        for one in release.versions.values()
    }
    for version, loaded in answering.items():
        subgroups = sorted({key[2] for key in counted["confidence"] if key[:2] == version})
        for subgroup in (EVERYBODY, *subgroups) if subgroups else ():
            of = subgroups if subgroup == EVERYBODY else [subgroup]
            for measure in MEASURES:
                found = [
                    counted[measure][(*version, one)] for one in of if (*version, one) in counted[measure]
                ]
                if found:
                    rows.append(_row(loaded.manifest, version, subgroup, measure, reduce(_add, found)))
    return rows


def decisions(
    totals: WorkerTotals, releases: Iterable[LoadedRelease]
) -> dict[tuple[str, int, str], dict[str, int]]:
    """How often each served version gave each triage, and reported, referred or asked for another picture.

    By model, version and subgroup of the declared tone: the share referred is the abstention rate.
    """
    served = {
        (one.version.model, one.version.number) for release in releases for one in release.versions.values()
    }
    counts: dict[tuple[str, int, str], dict[str, int]] = {}
    for name, label in ((DECISIONS, "decision"), (TRIAGE, "triage")):
        for labels, value in totals.named(f"{name}_total"):
            key = _label_key(labels)
            if key[:2] in served and value:  # one that a worker is just making is 0
                counts.setdefault(key, {})[labels[label]] = round(value)
    return counts


def drift_metrics(totals: WorkerTotals, releases: Iterable[LoadedRelease]) -> Iterator[Metric]:
    """The drift table as Prometheus gauges; a comparison of too few pictures has none."""
    labels = ["model", "version", "subgroup", "measure"]
    psi = GaugeMetricFamily("dermfed_drift_psi", "Population stability index against the test", labels=labels)
    bits = GaugeMetricFamily(
        "dermfed_drift_jensen_shannon", "Jensen-Shannon divergence from the test; bits", labels=labels
    )
    chance = GaugeMetricFamily(
        "dermfed_drift_psi_by_chance", "The PSI that chance alone exceeds once in twenty times", labels=labels
    )
    pictures = GaugeMetricFamily("dermfed_drift_pictures", "Pictures that were compared", labels=labels)
    for row in drift_table(totals, releases):
        if row.distance is not None:
            key = [row.model, str(row.version), row.subgroup, row.measure]
            psi.add_metric(key, row.distance.psi)
            bits.add_metric(key, row.distance.jensen_shannon)
            chance.add_metric(key, row.distance.by_chance)
            pictures.add_metric(key, row.n)
    yield from (psi, bits, chance, pictures)


def counts_of(totals: WorkerTotals, measure: Measure) -> dict[tuple[str, int, str], dict[str, float]]:
    """The counts of a measure by model, version and subgroup: of each bin (by upper edge) or each class.

    Args:
        totals: the counts of all workers.
        measure: which measure.
    """
    counts: dict[tuple[str, int, str], dict[str, float]] = {}
    if measure == "classes":
        for labels, value in totals.named(f"{CLASSES}_total"):
            counts.setdefault(_label_key(labels), {})[labels["code"]] = value
        return counts
    for labels, value in totals.named(f"{_HISTOGRAMS[measure]}_bucket"):
        counts.setdefault(_label_key(labels), {})[labels["le"]] = value
    for key, up_to in counts.items():
        ordered = sorted(up_to, key=float)
        counts[key] = dict(zip(ordered, np.diff([up_to[end] for end in ordered], prepend=0), strict=True))
    return counts


def _label_key(labels: Mapping[str, str]) -> tuple[str, int, str]:
    return labels["model"], int(labels["version"]), labels["subgroup"]


def _add(one: Mapping[str, float], other: Mapping[str, float]) -> Mapping[str, float]:
    return {name: one.get(name, 0.0) + other.get(name, 0.0) for name in {**one, **other}}


def _row(
    manifest: BundleManifest,
    version: tuple[str, int],
    subgroup: str,
    measure: Measure,
    found: Mapping[str, float],
) -> DriftRow:
    reference = expected(manifest, subgroup, measure)
    tested = None if reference is None else reference.counts
    observed = _over_bins(manifest, measure, found, None if tested is None else len(tested))
    in_order = measure != "classes" and len(observed) > 2
    return DriftRow(
        model=version[0],
        version=version[1],
        subgroup=subgroup,
        measure=measure,
        n=round(float(observed.sum())),
        tested_on=None if tested is None else round(float(tested.sum())),
        distance=None
        if reference is None
        else compare(reference.counts, observed, join=in_order, merged=reference.merged),
        shares=_shares(observed),
        expected=None if tested is None else _shares(tested),
    )


def _over_bins(
    manifest: BundleManifest, measure: Measure, found: Mapping[str, float], bins: int | None
) -> NDArray[np.float64]:
    """The counts in the order, and in as many bins, as they are expected in."""
    if measure == "classes":
        return np.array([found.get(label.code, 0.0) for label in manifest.labels])
    counts = np.array(list(found.values()))
    if measure != "unfamiliarity":
        return counts
    familiar = DISTANCE_EDGES.index(1.0) + 1
    return np.array([counts[:familiar].sum(), counts[familiar:].sum()]) if bins == 2 else counts


def _shares(counts: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple((counts / max(counts.sum(), 1)).tolist())
