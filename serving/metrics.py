"""The metrics exported to Prometheus: counts and latencies by route and decision, never by picture or caller.

Labels come from closed lists (our own paths, the registry's models), so that no caller can make the number of
time series grow.

Metrics are summed over all workers of the service, which share a folder of files, one set for each process
(`PROMETHEUS_MULTIPROC_DIR`). Counts of a worker that ended stay in the sums, as its requests were answered;
what it held at the moment (how many waited, which release) goes with it.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from serving.protocol.parameters import ROUTES
from serving.protocol.schemas import Diagnosis

SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable of the shared folder; set before prometheus_client is imported, or not at all."""

RELEASE_WORKERS: Final = "dermfed_release_workers"
"""The gauge of workers by release."""

CANARY_SHARE: Final = "dermfed_canary_share"
"""The gauge of canaries' shares. These two alone have a label for each release there ever was."""

_LIVE_GAUGE = re.compile(r"gauge_live[a-z]*_(\d+)\.db")


@dataclass(frozen=True, eq=False)  # a collector is told from others by what it is, not by what it holds
class WorkerTotals:
    """Every sample of all workers at one moment, by metric name; a Prometheus collector.

    Attributes:
        metrics: all metric families.
        rows: the samples of each name: labels and value.
    """

    metrics: tuple[Metric, ...]
    rows: Mapping[str, list[tuple[dict[str, str], float]]] = field(default_factory=dict)

    @classmethod
    def of(cls, metrics: Iterable[Metric]) -> "WorkerTotals":
        """The totals of these metric families."""
        families = tuple(metrics)
        rows: dict[str, list[tuple[dict[str, str], float]]] = {}
        for sample in (sample for family in families for sample in family.samples):
            rows.setdefault(sample.name, []).append((sample.labels, sample.value))
        return cls(families, rows)

    def named(self, name: str) -> Iterator[tuple[dict[str, str], float]]:
        """The samples of a metric: labels and value."""
        yield from self.rows.get(name, ())

    def collect(self) -> Iterator[Metric]:
        """The metric families, as Prometheus' renderer collects them."""
        yield from self.metrics


def sum_over_workers(own: CollectorRegistry) -> WorkerTotals:
    """The metrics summed over all workers; of this process alone where there is no shared folder."""
    folder = os.environ.get(SHARED_FOLDER)
    if folder is None:
        return WorkerTotals.of(_current_releases_only(own.collect()))
    forget_dead_workers(Path(folder))
    collected = MultiProcessCollector(None, folder).collect()  # type: ignore[no-untyped-call]
    return WorkerTotals.of(_current_releases_only(collected))


def _current_releases_only(families: Iterable[Metric]) -> Iterator[Metric]:
    """Leaves out releases that no worker serves any more: a worker's file keeps each as long as it lives."""
    for family in families:
        if family.name in (RELEASE_WORKERS, CANARY_SHARE):
            family.samples = [sample for sample in family.samples if sample.value]
        yield family


def forget_dead_workers(folder: Path) -> None:
    """Removes the live gauges of workers that have ended, however they did."""
    found = (_LIVE_GAUGE.fullmatch(path.name) for path in folder.glob("gauge_live*.db"))
    for process in {int(one[1]) for one in found if one}:
        if _has_ended(process):
            try:
                mark_process_dead(process, str(folder))  # type: ignore[no-untyped-call]
            except FileNotFoundError:
                continue  # another worker was asked at the same time


def _has_ended(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    try:
        state = Path("/proc", str(process), "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False  # no Linux; or it ended just now, and the next look will tell
    return state in "ZX"  # one that was killed keeps its number until whoever started it looks


MEDIA_TYPE = CONTENT_TYPE_LATEST
OTHER = "other"
"""The path label of requests to unknown paths."""


_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_LOAD_SECONDS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0)
_BATCHES = (1, 2, 4, 8, 16, 32, 64)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Metrics:
    """The service's counters; with several workers, summed over all of them.

    Attributes:
        registry: the Prometheus registry, in which parts of the service register metrics of their own.
        requests_waiting: whether pictures wait in this process's queue.

    Metrics that one place counts have no method; their help and labels are below.
    """

    def __init__(self) -> None:
        """Registers every metric of the service itself."""
        own = self.registry = CollectorRegistry()
        self.requests_waiting = False
        self._computed: list[Callable[[WorkerTotals], Iterable[Metric]]] = []

        def counter(name: str, about: str, labels: str = "") -> Counter:
            return Counter(name, about, labels.split(), registry=own)

        def histogram(name: str, about: str, buckets: Sequence[float], labels: str = "") -> Histogram:
            return Histogram(name, about, labels.split(), buckets=buckets, registry=own)

        def gauge(name: str, about: str, mode: Literal["livesum", "livemax"], labels: str = "") -> Gauge:
            return Gauge(name, about, labels.split(), registry=own, multiprocess_mode=mode)

        self._requests = counter("dermfed_requests", "Requests", "method path status")
        self._seconds = histogram(
            "dermfed_request_seconds",
            "From the first byte of a request to the last of its answer",
            _SECONDS,
            "path",
        )
        self._diagnoses = counter("dermfed_diagnoses", "Diagnoses", "model version subgroup route decision")
        self._diagnosis_seconds = histogram(
            "dermfed_diagnosis_seconds",
            "From the first byte of a request to its diagnosis",
            _SECONDS,
            "model version route decision",
        )
        self.stage_seconds = histogram(
            "dermfed_stage_seconds", "What a diagnosis spends its time with", _SECONDS, "model version stage"
        )
        self._sets = counter(
            "dermfed_prediction_sets",
            "Prediction sets, by what is promised of them",
            "model version subgroup guarantee",
        )
        self._set_codes = counter(
            "dermfed_prediction_set_codes",
            "Classes in all prediction sets together",
            "model version subgroup guarantee",
        )
        self._reasons = counter(
            "dermfed_reasons", "Reasons for decisions, by their code", "model version reason"
        )
        self.refused = counter(
            "dermfed_refused", "Requests that were not worked on, by what was in the way", "why"
        )
        self.answers_lost = counter(
            "dermfed_answers_not_kept", "Answers that could not be kept for their outcomes"
        )
        self.records_lost = counter("dermfed_records_lost", "Records of diagnoses that could not be written")
        self._waiting = gauge("dermfed_waiting", "Requests that wait for their turn", "livesum")
        self.batches = histogram("dermfed_batch_size", "Pictures that a model was shown together", _BATCHES)
        self.loads = counter(
            "dermfed_release_loads", "Releases that were loaded, or could not be", "alias model outcome"
        )
        self.load_seconds = histogram(
            "dermfed_release_load_seconds", "How long loading a release took", _LOAD_SECONDS, "alias model"
        )
        self._serving = gauge(
            RELEASE_WORKERS, "Workers that serve a release now", "livesum", "alias model release"
        )
        self._health_issues = gauge(
            "dermfed_troubles",
            "Workers in which a model's newest release is not served, or (no model) the registry not read",
            "livesum",
            "alias model",
        )
        self.canary_requests = counter(
            "dermfed_canary_requests",
            "Requests that a canary might have answered, by what answered them and why",
            "model release answered",
        )
        self._canary_share = gauge(
            CANARY_SHARE, "The share of requests that a canary is to answer", "livemax", "model release"
        )
        self.decoders_killed = counter(
            "dermfed_decoders_killed", "Decoders that ended with a picture, by why", "reason"
        )
        # What the gauges say, by alias: models with their releases, and models with a health issue.
        self._present: dict[str, tuple[set[tuple[str, int]], set[str]]] = {}
        self._shares: Mapping[tuple[str, int], float] = {}

    def request(self, method: str, path: str, status: int, seconds: float) -> None:
        """Counts a request that was answered."""
        self._requests.labels(method if method in _METHODS else OTHER, path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def diagnosis(self, diagnosis: Diagnosis, seconds: float | None = None) -> None:
        """Counts a diagnosis, made so many seconds after its request began."""
        model, promised = diagnosis.model, diagnosis.prediction_set
        version = (model.name, str(model.version))
        self._diagnoses.labels(*version, model.subgroup, model.route, diagnosis.decision).inc()
        if seconds is not None:
            self._diagnosis_seconds.labels(*version, model.route, diagnosis.decision).observe(seconds)
        self._sets.labels(*version, model.subgroup, promised.guarantee).inc()
        self._set_codes.labels(*version, model.subgroup, promised.guarantee).inc(len(promised.codes))
        for reason in diagnosis.reasons:
            if reason.code not in ROUTES:  # which are a label of their own
                self._reasons.labels(*version, reason.code).inc()

    def waiting(self, n: int) -> None:
        """Sets how many pictures wait in this process's queue."""
        self.requests_waiting = n > 0
        self._waiting.set(n)

    def serving(self, alias: str, releases: Mapping[str, int], health_issues: Iterable[str]) -> None:
        """Sets the gauges of what this process serves: each model's release, and models with an issue."""
        present = set(releases.items()), set(health_issues)
        past = self._present.get(alias, (set(), set()))
        for model, release in past[0] ^ present[0]:
            self._serving.labels(alias, model, str(release)).set(int((model, release) in present[0]))
        for model in past[1] ^ present[1]:
            self._health_issues.labels(alias, model).set(int(model in present[1]))
        self._present[alias] = present

    def canary_shares(self, shares: Mapping[tuple[str, int], float]) -> None:
        """Sets the share of each canary there is, by model and release."""
        for model, release in self._shares.keys() | shares.keys():
            share = shares.get((model, release), 0.0)
            if share != self._shares.get((model, release)):
                self._canary_share.labels(model, str(release)).set(share)
        self._shares = dict(shares)

    def add_computed(self, figures: Callable[[WorkerTotals], Iterable[Metric]]) -> None:
        """Adds metrics that are computed from the totals at every scrape."""
        self._computed.append(figures)

    def totals(self) -> WorkerTotals:
        """The samples of all metrics, summed over all workers."""
        return sum_over_workers(self.registry)

    def render(self) -> bytes:
        """All metrics in Prometheus' text format."""
        totals = self.totals()
        figures = [metric for compute in self._computed for metric in compute(totals)]
        shown = CollectorRegistry()
        shown.register(WorkerTotals.of([*totals.metrics, *figures]))
        return generate_latest(shown)
