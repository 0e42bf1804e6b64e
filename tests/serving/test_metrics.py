"""Metrics: what is counted, that no caller makes series grow, and sums over two processes."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from registry.bundle.counting import count
from registry.bundle.evaluation import ReferenceHistograms
from serving.metrics import Metrics, forget_dead_workers, sum_over_workers
from serving.monitoring import drift
from serving.monitoring.drift import LOG_ODDS_EDGES, counts_of
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
    counted.client.get("/v1/models/other/card")
    before = series(counted)
    before = series(counted)  # the first look has been counted itself
    for n in range(200):
        assert counted.client.get(f"/nothing/{n}?{n}").status_code == 404
    for n in range(20):
        counted.client.request(f"BREW{n}", "/v1/models")
        counted.client.get(f"/v1/models/{n}/card")
    after = series(counted)
    assert set(after) == set(before)
    requests = of(after, "dermfed_requests_total")
    assert requests['{method="GET",path="other",status="404"}'] == 201
    assert requests['{method="other",path="/v1/models",status="405"}'] == 21


def test_diagnoses_are_counted_by_version_decision_route_and_tone(counted, picture):
    sure, unsure = picture(), picture("PNG", colour=(90, 90, 90))
    began = time.monotonic()
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
    assert of(found, "dermfed_stage_seconds_count") == {
        f'{{{name},stage="{stage}",{which}': n
        for stage in ("waiting", "decoding", "model")
        for which, n in ((version, 5), (light, 1))
    }
    assert 0 < sum(of(found, "dermfed_stage_seconds_sum").values()) < time.monotonic() - began
    assert of(found, "dermfed_prediction_sets_total") == {
        f'{{guarantee="global",{name},subgroup="global",{version}': 5,
        f'{{guarantee="subgroup",{name},subgroup="light",{light}': 1,
    }
    codes = of(found, "dermfed_prediction_set_codes_total")
    given = sum(len(one["prediction_set"]["codes"]) for one in answers)
    assert codes[f'{{guarantee="global",{name},subgroup="global",{version}'] >= given
    assert of(found, "dermfed_reasons_total") == {
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


def test_drift_is_reported_once_enough_pictures_have_come(
    serve, registry, promote, bundle, picture, monkeypatch
):
    monkeypatch.setattr(drift, "FEWEST", 10)
    monkeypatch.setattr("registry.releases.add.check_counts", lambda *_: None)  # drawn by themselves
    shares = np.random.default_rng(0).dirichlet((2, 2, 2), 800)
    counts = count(shares, np.zeros(800, dtype=int), malignant=np.array([True, False, False])).point
    reference = ReferenceHistograms.from_counts(counts)
    promote(registry, bundle(reference=reference))
    with serve() as service:

        def arrived():
            return sum(of(series(service), "dermfed_confidence_log_odds_count").values())

        for n in range(9):
            service.diagnose(picture("PNG", colour=(20 * n, 255 - 20 * n, 60)), "image/png")
        service.eventually(lambda: arrived() == 9)
        assert of(series(service), "dermfed_drift_psi") == {}
        service.diagnose(picture("PNG"), "image/png")
        service.eventually(lambda: arrived() == 10)
        found = series(service)
        page = service.client.get("/operator").text
    confidence = shares.max(axis=1)
    edges = [-np.inf, *np.arange(-15.5, 16, 0.5), np.inf]
    expected = np.histogram(np.log(confidence / (1 - confidence)), edges)[0]
    kept = np.diff([0, *of(found, "dermfed_confidence_log_odds_bucket").values()])
    oracle = drift.compare(expected, kept)
    place = '{measure="confidence",model="skin-lesion",subgroup="all",version="1"}'
    assert found[f"dermfed_drift_pictures{place}"] == 10
    assert found[f"dermfed_drift_psi{place}"] == oracle.psi
    assert found[f"dermfed_drift_psi_by_chance{place}"] == oracle.by_chance
    assert found[f"dermfed_drift_jensen_shannon{place}"] == oracle.jensen_shannon
    drawn = re.findall(r'<circle cx="([0-9.]+)" cy="([0-9.]+)"', page)
    marks = [(200 * one.confidence, 200 * (1 - one.right)) for one in reliability(reference)]
    assert len(drawn) >= 5
    assert [(float(x), float(y)) for x, y in drawn] == [pytest.approx(one, abs=0.051) for one in marks]


def test_a_batch_is_counted_in_the_first_bin_that_holds_it_and_waiting_pictures_are_known():
    metrics = Metrics()
    metrics.waiting(4)
    assert metrics.requests_waiting
    metrics.waiting(0)
    assert not metrics.requests_waiting
    metrics.batches.observe(3)
    totals = metrics.totals()
    assert list(totals.named("dermfed_waiting")) == [({}, 0)]
    batches = {labels["le"]: value for labels, value in totals.named("dermfed_batch_size_bucket")}
    assert (batches["2.0"], batches["4.0"], batches["+Inf"]) == (0, 1, 1)


WORKER = """
import sys
from serving.metrics import Metrics
from serving.monitoring.drift import DriftCounters

metrics, n = Metrics(), int(sys.argv[1])
drift = DriftCounters(metrics)
metrics.waiting(n)
metrics.batches.observe(n)
metrics.request("GET", "/livez", 200, 0.1)
for release in (n + 100, n):
    metrics.serving("production", {"skin-lesion": release}, ["nails"])
for _ in range(n):
    metrics.refused.labels("busy").inc()
    drift._confidence.labels("skin-lesion", "1", "all").observe(0.25)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def worker(tmp_path, monkeypatch):
    """Starts a process that has counted so much and goes on living."""
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    started = []

    def start(n):
        command = [sys.executable, "-c", WORKER, str(n)]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        assert started[-1].stdout.readline() == "ready\n"
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def value(totals, name, **labels):
    (found,) = [number for given, number in totals.named(name) if given == labels]
    return found


def test_counts_of_all_workers_add_up_and_gauges_of_a_killed_one_go(worker):
    first, second = worker(2), worker(5)
    both = sum_over_workers(CollectorRegistry())
    assert value(both, "dermfed_waiting") == 7
    assert value(both, "dermfed_refused_total", why="busy") == 7
    assert value(both, "dermfed_requests_total", method="GET", path="/livez", status="200") == 2
    # Each has served another one before: a service that lives for years has no series for each of them.
    releases = {labels["release"]: n for labels, n in both.named("dermfed_release_workers")}
    assert releases == {"2": 1, "5": 1}
    assert value(both, "dermfed_troubles", alias="production", model="nails") == 2
    (histogram,) = counts_of(both, "confidence").values()
    assert list(histogram.values()) == [7 * (edge == 0.5) for edge in LOG_ODDS_EDGES] + [0]

    second.kill()
    # It is not waited for: what has ended is seen before its parent has looked.
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


def test_living_workers_keep_their_files_and_all_counters_stay(tmp_path):
    kept = {f"gauge_livesum_{os.getpid()}.db", "gauge_livesum_1.db", "counter_999999999.db"}
    for name in (*kept, "gauge_livesum_999999999.db"):
        (tmp_path / name).write_bytes(b"")
    forget_dead_workers(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == kept
