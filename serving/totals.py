"""Counts summed over all workers of the service, as Prometheus and the operator's page are told them.

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
"""The variable that names the folder; set before prometheus_client is imported, or not at all."""

RELEASE_WORKERS: Final = "dermfed_release_workers"
"""Which release how many workers serve: the one gauge that has a label for each release there ever was."""

_LIVE_GAUGE = re.compile(r"gauge_live[a-z]*_(\d+)\.db")


@dataclass(frozen=True, eq=False)  # a collector is told from others by what it is, not by what it holds
class Totals:
    """Every sample of one moment.

    Attributes:
        metrics: all families, as they are rendered.
        rows: the samples of each name, with their labels.
    """

    metrics: tuple[Metric, ...]
    rows: Mapping[str, list[tuple[dict[str, str], float]]] = field(default_factory=dict)

    @classmethod
    def of(cls, metrics: Iterable[Metric]) -> "Totals":
        """The samples of these families."""
        families = tuple(metrics)
        rows: dict[str, list[tuple[dict[str, str], float]]] = {}
        for sample in (sample for family in families for sample in family.samples):
            rows.setdefault(sample.name, []).append((sample.labels, sample.value))
        return cls(families, rows)

    def named(self, name: str) -> Iterator[tuple[dict[str, str], float]]:
        """The samples of a name: labels and value."""
        yield from self.rows.get(name, ())

    def collect(self) -> Iterator[Metric]:
        """The families again, for whoever renders them."""
        yield from self.metrics


def summed(own: CollectorRegistry) -> Totals:
    """The counts of all workers; of this process alone where there is no shared folder."""
    folder = os.environ.get(SHARED_FOLDER)
    if folder is None:
        return Totals.of(_of_now(own.collect()))
    forget_the_dead(Path(folder))
    collected = MultiProcessCollector(None, folder).collect()  # type: ignore[no-untyped-call]
    return Totals.of(_of_now(collected))


def _of_now(families: Iterable[Metric]) -> Iterator[Metric]:
    """Leaves out releases that no worker serves any more: its file keeps each for as long as it lives."""
    for family in families:
        if family.name == RELEASE_WORKERS:
            family.samples = [sample for sample in family.samples if sample.value]
        yield family


def forget_the_dead(folder: Path) -> None:
    """Removes what workers that have ended, however they did, left of their present."""
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
