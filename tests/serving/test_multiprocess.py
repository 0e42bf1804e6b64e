"""Two processes that count, as two workers do, and what is told of both."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from serving.metrics import Metrics, WorkerTotals, forget_dead_workers, sum_over_workers
from serving.monitoring.drift import counts_of
from serving.monitoring.drift_counting import LOG_ODDS_EDGES

WORKER = """
import sys
import numpy as np
from types import SimpleNamespace
from serving.metrics import Metrics
from serving.monitoring.drift_counting import log_odds_values
from serving.monitoring.drift_counting import DriftCounters

metrics, n = Metrics(), int(sys.argv[1])
drift = DriftCounters(metrics)
metrics.waiting(n)
metrics.batch(n)
metrics.request("GET", "/livez", 200, 0.1)
for release in (n + 100, n):
    metrics.serving("production", {"skin-lesion": release}, ["nails"])
for _ in range(n):
    metrics.busy()
    drift._confidence.labels("skin-lesion", "1", "all").observe(log_odds_values(np.array([0.5]))[0])
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def worker(tmp_path, monkeypatch) -> Iterator[Callable[[int], subprocess.Popen[str]]]:
    """Starts a process that has counted so much and goes on living."""
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    started = []

    def start(n: int) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(n)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def value(totals: WorkerTotals, name: str, **labels: str) -> float:
    (found,) = [number for of, number in totals.named(name) if of == labels]
    return found


def test_counts_of_all_workers_add_up_and_a_killed_ones_present_goes_away(worker):
    first, second = worker(2), worker(5)
    both = sum_over_workers(CollectorRegistry())
    assert value(both, "dermfed_waiting") == 7
    assert value(both, "dermfed_refused_total", why="busy") == 7
    assert value(both, "dermfed_requests_total", method="GET", path="/livez", status="200") == 2
    serving = {"alias": "production", "model": "skin-lesion"}
    assert value(both, "dermfed_release_workers", **serving, release="2") == 1
    assert value(both, "dermfed_release_workers", **serving, release="5") == 1
    # Each has served another one before: a service that lives for years has no series for each of them.
    assert len(list(both.named("dermfed_release_workers"))) == 2
    assert value(both, "dermfed_troubles", alias="production", model="nails") == 2
    (histogram,) = counts_of(both, "confidence").values()
    assert list(histogram.values()) == [7 * (edge == 0.5) for edge in LOG_ODDS_EDGES] + [0]

    second.kill()
    # It is not waited for: what has ended is told from what lives before its parent has looked.
    while Path("/proc", str(second.pid), "stat").read_text().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.01)
    rest = sum_over_workers(CollectorRegistry())
    assert value(rest, "dermfed_waiting") == 2
    assert value(rest, "dermfed_troubles", alias="production", model="nails") == 1
    assert [labels["release"] for labels, _ in rest.named("dermfed_release_workers")] == ["2"]
    assert value(rest, "dermfed_refused_total", why="busy") == 7
    assert value(rest, "dermfed_batch_size_count") == 2
    assert first.poll() is None
    assert b"dermfed_waiting 2.0" in Metrics().render()


def test_whoever_lives_keeps_its_files_and_counts_are_kept(tmp_path: Path):
    ours = tmp_path / f"gauge_livesum_{os.getpid()}.db"
    others = tmp_path / "gauge_livesum_1.db"
    counters = tmp_path / "counter_999999999.db"
    for path in (ours, others, counters):
        path.write_bytes(b"")
    gone = tmp_path / "gauge_livesum_999999999.db"
    gone.write_bytes(b"")
    forget_dead_workers(tmp_path)
    assert set(tmp_path.iterdir()) == {ours, others, counters}
