"""Drift: whether the pictures that come in look like those the model was tested on, by subgroup.

It is of everything that a version has answered since the service started, in all workers. A window of time
is Prometheus' own work: the histograms are there as counters.

With p_i the share of the test pictures in bin i and q_i the share of the pictures that came in,

    PSI = Σ (q_i − p_i) ln(q_i / p_i),
    JS  = ½ Σ p_i log2(p_i / m_i) + ½ Σ q_i log2(q_i / m_i),  m_i = (p_i + q_i) / 2,

the population stability index, from 0 on, and the Jensen–Shannon divergence, from 0 to 1 bit. If both are
samples of the same, of n and of m pictures, then PSI / (1/n + 1/m) is chi-squared with as many degrees of
freedom as there are bins less one (Yurdakul 2018). Its 95 % point is the PSI that one comparison in twenty
exceeds by chance alone.

Bins next to each other are joined until each holds 5 % of the test pictures, so that with `FEWEST` pictures
five are expected in each; half a picture is added to every bin on both sides, so that an empty one has a
logarithm. Several pictures of one lesion make chance larger than is computed here.

Where the test pictures' histogram is a sum of B that were merged into runs each (see
`registry.bundle.score_bins`), the bins compared end halfway between occupied ones and hold 10 %, so
that runs are narrow in comparison. An end still cuts a run in each of the B, of up to c = 2 smallest cells,
and up to half of it lies on the wrong side: spread evenly from −c/2 to c/2, with a variance of c²/12. With G
bins of m / G test pictures and two ends each, that is c² B G / (6 m) times the variance of their shares by
chance, by which 1/m is enlarged.

What was answered is counted by model, version and subgroup of the declared tone. Histograms have a few dozen
bins, each made of whole bins of the bundle's own. A score has 64 bins, each 0.5 wide in log-odds. A distance
from the training pictures is given as a multiple of the distance from which on a picture is called
unfamiliar: 32 bins of 10 distance bins each (12 % wide), from a tenth of it to three times as far, the outer
ones open.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from registry.bundle.counts import ScoreHistograms
from registry.bundle.labels import malignant_classes
from registry.bundle.manifest import BundleManifest
from registry.bundle.model import BINS_PER_DECADE, DISTANCE_BINS, distance_bin
from registry.bundle.score_bins import LOGIT_BINS, malignancy_probability
from serving.inference.predictor import LoadedVersion
from serving.inference.quality import QualityAssessment
from serving.metrics import Metrics, WorkerTotals
from serving.releases.loading import LoadedRelease

_DISTANCES_IN_ONE: Final = 10
_NEAREST, _FARTHEST = -20, 10  # edges, in tens of distance bins from the threshold

_HALF: Final = 0.5
LOG_ODDS_EDGES: Final = tuple(np.arange(-15.5, 16, _HALF).tolist())
"""The upper edge of each bin of a score's log-odds but the last; each is an edge of score bins, too."""

_middles = np.log(LOGIT_BINS.middles / (1 - LOGIT_BINS.middles))
_IN_LOG_ODDS: Final = np.searchsorted(LOG_ODDS_EDGES, _middles)
"""The bin of drift that each of `LOGIT_BINS` is part of."""

DISTANCE_EDGES: Final = tuple(
    round(10 ** (k * _DISTANCES_IN_ONE / BINS_PER_DECADE), 6) for k in range(_NEAREST, _FARTHEST + 1)
)
"""The upper edge of each bin of a distance but the last, in multiples of the threshold; one of them is 1."""


def log_odds_value(score: float) -> float:
    """The middle of a score's bin, in log-odds: a score falls where thresholds compare it."""
    place = _IN_LOG_ODDS[LOGIT_BINS.bin(np.array([score]))[0]]
    return float(LOG_ODDS_EDGES[0] + (place - 0.5) * _HALF)


def distance_value(place: int, threshold_bin: int) -> float:
    """The middle of a distance's bin, in multiples of the threshold; above 1 is unfamiliar."""
    return float(10.0 ** ((place - threshold_bin - 0.5) / BINS_PER_DECADE))


def coarse_scores(histogram: NDArray[Any]) -> NDArray[np.int64]:
    """Sums a histogram over score bins into the bins of drift."""
    return np.bincount(_IN_LOG_ODDS, weights=np.asarray(histogram), minlength=len(LOG_ODDS_EDGES) + 1).astype(
        np.int64
    )


def coarse_distances(histogram: NDArray[Any], threshold_bin: int) -> NDArray[np.int64]:
    """Sums a histogram over distance bins `(2400,)` into the bins of drift, `(32,)`."""
    apart = np.arange(DISTANCE_BINS) - threshold_bin
    # Bin 0 holds all that is nearer than the first edge; apart = 0 is the last familiar one.
    kept = np.clip(np.ceil(apart / _DISTANCES_IN_ONE).astype(np.int64) - _NEAREST, 0, len(DISTANCE_EDGES))
    return np.bincount(kept, weights=np.asarray(histogram), minlength=len(DISTANCE_EDGES) + 1).astype(
        np.int64
    )


CONFIDENCE_LOG_ODDS: Final = "dermfed_confidence_log_odds"
MALIGNANCY_LOG_ODDS: Final = "dermfed_malignancy_log_odds"
UNFAMILIARITY: Final = "dermfed_unfamiliarity"
CLASSES: Final = "dermfed_class_probability"
DECISIONS: Final = "dermfed_decisions"
TRIAGE: Final = "dermfed_triage"

_LABELS: Final = ("model", "version", "subgroup")


class DriftCounters:
    """Histograms of what the service answered, summed over all workers."""

    def __init__(self, metrics: Metrics) -> None:
        """Registers the histograms with the service's metrics."""

        def histogram(name: str, about: str, edges: Sequence[float]) -> Histogram:
            return Histogram(name, about, _LABELS, buckets=edges, registry=metrics.registry)

        def counter(name: str, about: str, *more: str) -> Counter:
            return Counter(name, about, [*_LABELS, *more], registry=metrics.registry)

        self._confidence = histogram(
            CONFIDENCE_LOG_ODDS, "Log-odds of the highest probability", LOG_ODDS_EDGES
        )
        self._malignancy = histogram(
            MALIGNANCY_LOG_ODDS, "Log-odds of the malignancy probability", LOG_ODDS_EDGES
        )
        self._unfamiliarity = histogram(
            UNFAMILIARITY,
            "Distance from the training pictures; from 1 on a picture is called unfamiliar",
            DISTANCE_EDGES,
        )
        self._classes = counter(CLASSES, "Each class's probabilities, summed", "code")
        self._decisions = counter(DECISIONS, "What was decided", "decision")
        self._triage = counter(TRIAGE, "How lesions were triaged", "triage")
        self._issues = counter(
            "dermfed_quality_issues",
            "What was wrong with pictures: told, or bad enough to ask for another",
            "issue",
            "bad",
        )

    def count(
        self, loaded: LoadedVersion, subgroup: str, probabilities: NDArray[Any], embedding: NDArray[Any]
    ) -> None:
        """Counts an answered picture, in all histograms or none.

        Args:
            loaded: the version that answered.
            subgroup: of the declared tone, see `serving.protocol.parameters.subgroup_of`.
            probabilities: what the model said, `(classes,)`.
            embedding: of the picture, `(features,)`.
        """
        labels = loaded.version.model, str(loaded.version.number), subgroup
        manifest = loaded.manifest
        malignant = malignant_classes(manifest.labels)
        # All that can fail comes before the first count.
        observed = [(self._confidence, log_odds_value(probabilities.max()))]
        if malignant.any() and not malignant.all():
            summed = malignancy_probability(probabilities[np.newaxis], malignant)[0]
            observed.append((self._malignancy, log_odds_value(summed)))
        known = manifest.out_of_distribution
        if known is not None and known.threshold_bin is not None:
            place = distance_bin(known.gaussians.distances(embedding[np.newaxis]))[0]
            observed.append((self._unfamiliarity, distance_value(place, known.threshold_bin)))
        for label, probability in list(zip(manifest.labels, probabilities.tolist(), strict=True)):
            self._classes.labels(*labels, label.code).inc(probability)
        for histogram, value in observed:
            histogram.labels(*labels).observe(value)

    def count_decision(
        self,
        loaded: LoadedVersion,
        subgroup: str,
        decision: str,
        triage: str | None,
        quality: QualityAssessment,
    ) -> None:
        """Counts the decision on a picture, its triage, and its quality issues.

        Args:
            loaded: the version that answered.
            subgroup: of the declared tone.
            decision: what was decided.
            triage: who has to see the lesion; None where the answer does not say.
            quality: what is wrong with the picture.
        """
        labels = loaded.version.model, str(loaded.version.number), subgroup
        self._decisions.labels(*labels, decision).inc()
        if triage is not None:
            self._triage.labels(*labels, triage).inc()
        for issue in quality.issues:
            self._issues.labels(*labels, issue.code, "yes" if issue.bad else "no").inc()


FEWEST: Final = 100
"""The fewest pictures, on each side, that are compared."""

_LEAST_SHARE, _LEAST_SHARE_OF_MERGED = 0.05, 0.1


@dataclass(frozen=True)
class Merged:
    """How the histogram of the test pictures was merged.

    Attributes:
        smallest_cell: the fewest patients of a run.
        parts: how many merged histograms were added up.
    """

    smallest_cell: int
    parts: int

    def blur(self, bins: int, pictures: float) -> float:
        """The variance of the shares in so many bins that merging added, in multiples of their own."""
        return (2 * self.smallest_cell) ** 2 * self.parts * bins / (6 * pictures)


@dataclass(frozen=True)
class Distance:
    """How far apart two histograms are.

    Attributes:
        psi: the population stability index.
        jensen_shannon: in bits.
        by_chance: the PSI that chance alone exceeds once in twenty times.
        bins: that were compared.
    """

    psi: float
    jensen_shannon: float
    by_chance: float
    bins: int


def compare(
    expected: NDArray[Any], observed: NDArray[Any], *, join: bool = True, merged: Merged | None = None
) -> Distance | None:
    """The distance of an observed histogram from the expected one, both counts over the same bins.

    Args:
        expected: of the test pictures; need not be whole.
        observed: of the pictures that came in; need not be whole.
        join: whether the bins have an order in which small ones can be joined.
        merged: how the expected histogram was merged; None where it was not.

    Returns:
        None where either side has fewer than `FEWEST` pictures, or all lies in one bin.
    """
    n, m = float(np.sum(observed)), float(np.sum(expected))
    if min(n, m) < FEWEST:
        return None
    from scipy.special import chdtri  # see `registry.bundle.metrics.intervals.exact_low`

    starts = _joined(np.asarray(expected, dtype=np.float64), merged) if join else np.arange(len(expected))
    if len(starts) < 2:
        return None
    p = _shares(np.add.reduceat(np.asarray(expected, dtype=np.float64), starts))
    q = _shares(np.add.reduceat(np.asarray(observed, dtype=np.float64), starts))
    between = (p + q) / 2
    blur = merged.blur(len(starts), m) if merged and join else 0.0
    return Distance(
        psi=float(np.sum((q - p) * np.log(q / p))),
        jensen_shannon=float(np.sum(p * np.log2(p / between) + q * np.log2(q / between)) / 2),
        by_chance=float(chdtri(len(starts) - 1, 0.05)) * (1 / n + (1 + blur) / m),
        bins=len(starts),
    )


def _joined(expected: NDArray[np.float64], merged: Merged | None) -> NDArray[np.int64]:
    """Where each joined bin begins: when the one before holds enough, while all that follows does, too."""
    places = np.arange(len(expected)) if merged is None else _halfway(expected)
    counts = np.add.reduceat(expected, places)
    least = (_LEAST_SHARE if merged is None else _LEAST_SHARE_OF_MERGED) * counts.sum()
    starts, held = [0], 0.0
    for position, count in enumerate(counts):
        if held >= least and counts[position:].sum() >= least:
            starts.append(position)
            held = 0.0
        held += count
    return places[np.array(starts, dtype=np.int64)]


def _halfway(expected: NDArray[np.float64]) -> NDArray[np.int64]:
    """The first bin, and those that begin halfway between two occupied ones next to each other."""
    occupied = np.flatnonzero(expected)
    return np.concatenate([[0], (occupied[:-1] + occupied[1:] + 1) // 2])


def _shares(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    shares: NDArray[np.float64] = (counts + 0.5) / (counts + 0.5).sum()
    return shares


Measure = Literal["confidence", "malignancy", "classes", "unfamiliarity"]
MEASURES: tuple[Measure, ...] = get_args(Measure)


@dataclass(frozen=True)
class Expected:
    """A histogram of the test pictures.

    Attributes:
        counts: over the bins of drift.
        merged: how it was merged; None where it was not.
    """

    counts: NDArray[np.float64]
    merged: Merged | None = None


def expected(manifest: BundleManifest, subgroup: str, measure: Measure) -> Expected | None:
    """The histogram of the test pictures in the bins of drift; None where the bundle does not hold it.

    For the global model, the subgroup's test pictures where it was tested on them; else all pictures that the
    model was tested on, which for a subgroup's model are the subgroup's. For distances, a bundle without a
    histogram still gives two bins: the share of known pictures that may lie beyond the threshold.

    Args:
        manifest: of the version that answers.
        subgroup: of the declared tone.
        measure: what is measured; `classes` has one bin for each class, not one for each score.
    """
    reference = manifest.reference
    if measure == "unfamiliarity":
        return _distances(manifest)
    if reference is None:
        return None
    own = next((one for one in reference.by_subgroup if one.subgroup.name == subgroup), reference)
    if measure == "confidence":
        return _scores(own, own.confidence)
    if measure == "classes":
        sums: NDArray[np.float64] = np.array(own.scores) @ LOGIT_BINS.middles
        return Expected(sums * sum(own.confidence) / sums.sum()) if sums.any() else None
    return None if own.malignancy is None else _scores(own, own.malignancy)


def _scores(own: ScoreHistograms, histogram: tuple[int, ...]) -> Expected:
    return Expected(coarse_scores(np.array(histogram)).astype(np.float64), _merged(own))


def _merged(own: ScoreHistograms) -> Merged | None:
    return Merged(own.smallest_cell, own.parts) if own.smallest_cell > 1 else None


def _distances(manifest: BundleManifest) -> Expected | None:
    known, reference = manifest.out_of_distribution, manifest.reference
    if known is None or known.threshold_bin is None:
        return None
    if reference is None or reference.distances is None:
        return Expected(np.array([1 - known.rate, known.rate]) * known.n)
    counts = coarse_distances(np.array(reference.distances), known.threshold_bin).astype(np.float64)
    return Expected(counts, _merged(reference))


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
        subgroup: of the declared tone; `all` for all subgroups together.
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
        shares=_of_all(observed),
        expected=None if tested is None else _of_all(tested),
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


def _of_all(counts: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple((counts / max(counts.sum(), 1)).tolist())
