"""Metrics summed over all workers of the service, for Prometheus and the operator's page.

Workers share a folder of files (`PROMETHEUS_MULTIPROC_DIR`), one set for each process. Counts of a worker
that ended stay in the sums, as its requests were answered; what it held at the moment (how many waited,
which release) goes with it.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

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
