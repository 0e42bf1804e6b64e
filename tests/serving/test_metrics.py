"""Metrics: what is counted, that no caller makes series grow, and sums over two processes."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from registry.bundle.counts.counting import count
from registry.bundle.evaluation import ReferenceHistograms
from serving.metrics import Metrics, WorkerTotals, forget_dead_workers, sum_over_workers
from serving.monitoring import drift
from serving.monitoring.drift import counts_of
from serving.monitoring.drift_counting import LOG_ODDS_EDGES
from serving.web.operator_page import reliability


@pytest.fixture
def counted(serve, registry, promote, bundle, light):
    promote(registry, bundle(), bundle(light))
    with serve() as service:
        yield service


def series(service):
    """Every sample, by its name with its labels."""
    text = service.client.get("/metrics").text
    found = (re.fullmatch(r"(\S+?(?:\{.*\})?) (\S+)", line) for line in text.splitlines() if line[0] != "#")
    return {one[1]: float(one[2]) for one in found}


def of(found, name):
    return {key.removeprefix(name): value for key, value in found.items() if key.startswith(name + "{")}


def test_no_caller_makes_the_series_grow(counted):
    counted.client.get("/nothing")
    counted.client.request("BREW", "/v1/models")
    before = series(counted)
    before = series(counted)  # the first look has been counted itself
    for n in range(1000):
        assert counted.client.get(f"/nothing/{n}?{n}").status_code == 404
    for n in range(20):
        counted.client.request(f"BREW{n}", "/v1/models")
        counted.client.get(f"/v1/models/{n}/card")
    after = series(counted)
    new = {name for name in set(after) - set(before) if "/card" not in name}
    assert new == set()
    unknown = '{method="GET",path="other",status="404"}'
    assert of(after, "dermfed_requests_total")[unknown] == 1001
    assert of(after, "dermfed_requests_total")['{method="other",path="/v1/models",status="405"}'] == 21


def test_latencies_sets_and_reasons_are_told_by_version(counted, picture):
    sure, unsure = picture(), picture("PNG", colour=(90, 90, 90))
    counted.diagnose(sure)
    counted.diagnose(sure, params={"skin_tone": "1", "top": "1"})
    counted.diagnose(unsure, "image/png", params={"skin_tone": "5"})
    counted.diagnose(picture(size=(2, 2)), params={"skin_tone": "V"})
    answers = [counted.diagnose(sure).json(), counted.diagnose(unsure, "image/png").json()]
    decided = "dermfed_decisions_total"
    counted.eventually(lambda: sum(of(series(counted), decided).values()) == 6)  # counted after the answer
    found = series(counted)
    name, version, light = 'model="skin-lesion"', 'version="1"}', 'version="2"}'
    assert of(found, "dermfed_diagnosis_seconds_count") == {
        f'{{decision="report",{name},route="unknown-tone",{version}': 2,
        f'{{decision="refer",{name},route="unknown-tone",{version}': 1,
        f'{{decision="refer",{name},route="declared",{light}': 1,
        f'{{decision="refer",{name},route="no-model-for-subgroup",{version}': 1,
        f'{{decision="retake",{name},route="no-model-for-subgroup",{version}': 1,
    }
    for stage in ("waiting", "decoding", "model"):
        told = of(found, "dermfed_stage_seconds_count")
        assert told[f'{{{name},stage="{stage}",{version}'] == 5
        assert told[f'{{{name},stage="{stage}",{light}'] == 1
    assert of(found, "dermfed_prediction_sets_total") == {
        f'{{guarantee="global",{name},subgroup="global",{version}': 5,
        f'{{guarantee="subgroup",{name},subgroup="light",{light}': 1,
    }
    sizes = of(found, "dermfed_prediction_set_codes_total")
    assert sizes[f'{{guarantee="global",{name},subgroup="global",{version}'] >= sum(
        len(one["prediction_set"]["codes"]) for one in answers
    )
    reasons = of(found, "dermfed_reasons_total")
    assert reasons == {
        f'{{{name},reason="confident",{version}': 2,
        f'{{{name},reason="low-confidence",{light}': 1,
        f'{{{name},reason="low-confidence",{version}': 2,
        f'{{{name},reason="too-small",{version}': 1,
    }
    assert of(found, decided) == {
        f'{{decision="report",{name},subgroup="undeclared",{version}': 2,
        f'{{decision="refer",{name},subgroup="undeclared",{version}': 1,
        f'{{decision="refer",{name},subgroup="light",{light}': 1,
        f'{{decision="refer",{name},subgroup="fitzpatrick 5",{version}': 1,
        f'{{decision="retake",{name},subgroup="fitzpatrick 5",{version}': 1,
    }
    issues = of(found, "dermfed_quality_issues_total")
    assert issues[f'{{bad="yes",issue="too-small",{name},subgroup="fitzpatrick 5",{version}'] == 1


def test_drift_is_told_once_enough_pictures_have_come(serve, registry, promote, bundle, picture, monkeypatch):
    monkeypatch.setattr(drift, "FEWEST", 10)
    monkeypatch.setattr("registry.releases.add.check_counts", lambda *_: None)  # drawn apart
    rng = np.random.default_rng(0)
    shares = rng.dirichlet((2, 2, 2), 800)
    counts = count(shares, np.zeros(800, dtype=int), malignant=np.array([True, False, False])).point
    reference = ReferenceHistograms.from_counts(counts)
    promote(registry, bundle(reference=reference))
    with serve() as service:
        for n in range(9):
            service.diagnose(picture("PNG", colour=(20 * n, 255 - 20 * n, 60)), "image/png")
        place = '{measure="confidence",model="skin-lesion",subgroup="all",version="1"}'
        total = "dermfed_confidence_log_odds_count"
        service.eventually(lambda: sum(of(series(service), total).values()) == 9)
        assert of(series(service), "dermfed_drift_psi") == {}
        service.diagnose(picture("PNG"), "image/png")
        service.eventually(lambda: sum(of(series(service), total).values()) == 10)
        found = series(service)
        assert found["dermfed_drift_pictures" + place] == 10
        up_to = of(found, "dermfed_confidence_log_odds_bucket")
        kept = np.diff([0, *up_to.values()])
        confidence = shares.max(axis=1)
        edges = [-np.inf, *np.arange(-15.5, 16, 0.5), np.inf]
        expected = np.histogram(np.log(confidence / (1 - confidence)), edges)[0]
        oracle = drift.compare(expected, kept)
        assert found["dermfed_drift_psi" + place] == oracle.psi
        assert found["dermfed_drift_psi_by_chance" + place] == oracle.by_chance
        assert found["dermfed_drift_jensen_shannon" + place] == oracle.jensen_shannon
        drawn = re.findall(r'<circle cx="([0-9.]+)" cy="([0-9.]+)"', service.client.get("/operator").text)
    marks = [(200 * one.confidence, 200 * (1 - one.right)) for one in reliability(reference)]
    assert len(drawn) >= 5
    assert [(float(x), float(y)) for x, y in drawn] == [pytest.approx(one, abs=0.051) for one in marks]


def test_refusals_and_lost_records_are_counted_by_what_was_in_the_way():
    metrics = Metrics()
    for refusal in (metrics.busy, metrics.deadline, metrics.limited, metrics.cancelled, metrics.draining):
        refusal()
    metrics.busy()
    metrics.record_lost()
    metrics.waiting(4)
    assert metrics.requests_waiting
    metrics.waiting(0)
    assert not metrics.requests_waiting
    metrics.batch(3)
    totals = metrics.totals()
    assert {labels["why"]: value for labels, value in totals.named("dermfed_refused_total")} == {
        "busy": 2,
        "deadline": 1,
        "limited": 1,
        "cancelled": 1,
        "draining": 1,
    }
    assert list(totals.named("dermfed_records_lost_total")) == [({}, 1)]
    assert list(totals.named("dermfed_waiting")) == [({}, 0)]
    batches = {labels["le"]: value for labels, value in totals.named("dermfed_batch_size_bucket")}
    assert (batches["2.0"], batches["4.0"], batches["+Inf"]) == (0, 1, 1)


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
