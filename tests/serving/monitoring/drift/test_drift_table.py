"""Drift of what was counted, against NumPy's own histograms of the same pictures."""

import time
from types import SimpleNamespace

import numpy as np
import pytest

from registry.bundle.model import DISTANCE_BINS, distance_bin
from serving.inference.quality import QualityAssessment
from serving.metrics import Metrics
from serving.monitoring.drift import MEASURES, compare, counts_of, decisions, drift_metrics, drift_table
from serving.monitoring.drift_counting import TOGETHER, BackgroundDriftCounter, DriftCounters
from tests.thresholds import concluding

LOG_ODDS = np.array([-np.inf, *np.arange(-15.5, 16, 0.5), np.inf])
NEAR = np.array([1.0, 1.0, 1.0])  # 3 away from a Gaussian at the origin
FAR = np.array([3.0, 2.0, 1.0])  # 14 away, where 10 is the limit


@pytest.fixture
def metrics():
    return Metrics()


@pytest.fixture
def counters(metrics):
    """Counts one picture at a time."""
    drift = DriftCounters(metrics)

    def count(loaded, subgroup, row, embedding):
        drift.count(loaded, subgroup, row[None], embedding[None])

    return SimpleNamespace(count=count, together=drift.count)


def rows_of(metrics, *releases):
    return {(row.version, row.subgroup, row.measure): row for row in drift_table(metrics.totals(), releases)}


def test_scores_are_compared_with_those_of_the_test(metrics, counters, load, bundle, shares, reference):
    tested, came = shares(0, 3000), shares(1, 400, (1, 1, 3))
    release = load(bundle(conclusions=concluding(0), reference=reference(tested)))
    for row in came:
        counters.count(release.versions["global"], "undeclared", row, NEAR)
    found = rows_of(metrics, release)
    assert set(found) == {
        (1, group, measure)
        for group in ("all", "undeclared")
        for measure in ("confidence", "malignancy", "classes")
    }

    def histogram(scores):
        return np.histogram(np.log(scores / (1 - scores)), LOG_ODDS)[0]

    histograms = {
        "confidence": [histogram(rows.max(axis=1)) for rows in (tested, came)],
        "malignancy": [histogram(rows[:, 0]) for rows in (tested, came)],
    }
    for measure, (expected, observed) in histograms.items():
        row = found[1, "undeclared", measure]
        assert row.distance == compare(expected, observed)
        assert (row.n, row.tested_on) == (400, 3000)
        assert row.shares == pytest.approx(observed / 400)
        assert row.expected == pytest.approx(expected / 3000)
    classes = found[1, "undeclared", "classes"]
    assert (classes.n, classes.tested_on) == (400, 3000)
    assert classes.shares == pytest.approx(came.mean(axis=0), abs=1e-9)
    assert classes.expected == pytest.approx(tested.mean(axis=0), abs=1e-3)  # to half a bin
    oracle = compare(tested.mean(axis=0) * 3000, came.sum(axis=0), join=False)
    assert classes.distance.psi == pytest.approx(oracle.psi, rel=0.01)
    assert classes.verdict == "drifted"


def test_each_subgroup_is_compared_with_itself(
    metrics, counters, load, bundle, shares, reference, light, dark
):
    """The model for everybody knows what each subgroup's test pictures looked like."""
    of_light, of_dark = shares(0, 2000, (5, 1, 1)), shares(1, 500, (1, 1, 5))
    tested = reference(np.concatenate([of_light, of_dark]), subgroups=[(light, of_light), (dark, of_dark)])
    release = load(bundle(reference=tested))
    loaded = release.versions["global"]
    for row in shares(2, 300, (1, 1, 5)):
        counters.count(loaded, "dark", row, NEAR)
    for row in shares(3, 99, (5, 1, 1)):
        counters.count(loaded, "light", row, NEAR)
    found = rows_of(metrics, release)
    assert found[1, "dark", "confidence"].tested_on == 500
    assert found[1, "dark", "confidence"].verdict == "steady"
    assert found[1, "dark", "malignancy"].verdict == "steady"
    assert found[1, "light", "confidence"].verdict == "too few"
    assert found[1, "light", "confidence"].distance is None
    everybody = found[1, "all", "malignancy"]
    assert (everybody.n, everybody.tested_on) == (399, 2500)
    assert everybody.verdict == "drifted"  # nearly all of them have dark skin; few of the test's had
    counters.count(loaded, "light", shares(4, 1)[0], NEAR)
    assert rows_of(metrics, release)[1, "light", "confidence"].distance is not None


def test_distances_are_compared_with_those_of_the_test(
    metrics, counters, load, bundle, shares, reference, familiar
):
    far = np.random.default_rng(0).normal(0, 1, (1000, 3))
    apart = distance_bin((far**2).sum(axis=1))
    tested = reference(shares(0, 1000), distances=tuple(np.bincount(apart, minlength=DISTANCE_BINS).tolist()))
    release = load(bundle(reference=tested, out_of_distribution=familiar))
    loaded = release.versions["global"]
    for row, embedding in zip(shares(1, 300), np.random.default_rng(1).normal(0, 1, (300, 3)), strict=True):
        counters.count(loaded, "undeclared", row, embedding)
    assert rows_of(metrics, release)[1, "all", "unfamiliarity"].verdict == "steady"
    for row in shares(2, 200):
        counters.count(loaded, "undeclared", row, FAR)
    moved = rows_of(metrics, release)[1, "all", "unfamiliarity"]
    assert moved.verdict == "drifted"
    assert sum(moved.shares[21:]) == pytest.approx(((far**2).sum(axis=1) > 10).mean() * 0.6 + 0.4, abs=0.03)


def test_prometheus_is_told_what_there_are_enough_pictures_for(
    metrics, counters, load, bundle, shares, reference
):
    release = load(bundle(reference=reference(shares(0, 500))))

    def told():
        families = drift_metrics(metrics.totals(), [release])
        return {
            (family.name, *sample.labels.values()): sample.value
            for family in families
            for sample in family.samples
        }

    rows = shares(1, 100)
    for row in rows[:99]:
        counters.count(release.versions["global"], "fitzpatrick 4", row, NEAR)
    assert told() == {}
    counters.count(release.versions["global"], "undeclared", rows[99], NEAR)
    found = told()
    assert {key[3] for key in found} == {"all"}
    (row,) = [row for row in drift_table(metrics.totals(), [release]) if row.distance][:1]
    place = ("skin-lesion", "1", "all", "confidence")
    assert found["dermfed_drift_psi", *place] == row.distance.psi
    assert found["dermfed_drift_jensen_shannon", *place] == row.distance.jensen_shannon
    assert found["dermfed_drift_psi_by_chance", *place] == row.distance.by_chance
    assert found["dermfed_drift_pictures", *place] == 100


def test_pictures_together_count_as_one_after_the_other(load, bundle, shares, familiar):
    release = load(bundle(out_of_distribution=familiar))
    rows, far = shares(0, 40).astype(np.float32), np.random.default_rng(0).normal(0, 2, (40, 3))
    one, other, later = (Metrics() for _ in range(3))
    drift = DriftCounters(one)
    for row, embedding in zip(rows, far, strict=True):
        drift.count(release.versions["global"], "dark", row[None], embedding[None])
    DriftCounters(other).count(release.versions["global"], "dark", rows, far)
    counting = BackgroundDriftCounter(DriftCounters(later))
    for row, embedding in zip(rows, far, strict=True):
        counting.put(release.versions["global"], "dark", row, embedding)
    counting.close()
    expected = counts_by_measure(one)
    assert sum(expected["unfamiliarity"]) == 40
    for metrics in (other, later):
        for measure, counts in counts_by_measure(metrics).items():
            assert counts == pytest.approx(expected[measure], abs=1e-6)


def counts_by_measure(metrics):
    totals = metrics.totals()
    return {
        measure: list(counts_of(totals, measure)["skin-lesion", 1, "dark"].values()) for measure in MEASURES
    }


def test_pictures_of_several_versions_and_subgroups_are_kept_apart(metrics, load, bundle, shares, dark):
    release = load(bundle(), bundle(dark))
    counting = BackgroundDriftCounter(DriftCounters(metrics))
    rows = shares(0, 3 * TOGETHER)
    for place, row in enumerate(rows):
        version = release.versions["dark" if place % 3 == 0 else "global"]
        counting.put(version, "light" if place % 3 == 1 else "dark", row, NEAR)
    deadline = time.monotonic() + 60
    while sum(map(total, counts_of(metrics.totals(), "confidence").values())) < len(rows):
        assert time.monotonic() < deadline, "it never came to be counted"
        time.sleep(0.01)
    counting.close()
    found = {place: total(counts) for place, counts in counts_of(metrics.totals(), "confidence").items()}
    assert found == {
        ("skin-lesion", number, group): TOGETHER for number, group in ((1, "dark"), (1, "light"), (2, "dark"))
    }


def test_what_waits_is_counted_when_the_service_ends(load, bundle, shares):
    """However little time there was between the last picture and the end."""
    loaded = load(bundle()).versions["global"]
    for _ in range(50):
        counting = BackgroundDriftCounter(DriftCounters(metrics := Metrics()))
        counting.put(loaded, "dark", shares(0, 1)[0], NEAR)
        counting.close()
        assert total(counts_of(metrics.totals(), "confidence")["skin-lesion", 1, "dark"]) == 1


def test_shares_of_triage_are_kept_apart_by_version_and_tone(metrics, load, bundle, dark):
    """A version that begins to call every lesion of one tone urgent is seen there, and nowhere else."""
    release, later = load(bundle(), bundle(dark)), load(bundle(), first=3)
    drift, fine = DriftCounters(metrics), QualityAssessment()

    def answer(version, subgroup, **levels):
        for level, n in levels.items():
            for _ in range(n):
                triage = None if level == "none" else level.replace("_", "-")
                drift.count_decision(version, subgroup, "refer", triage, fine)

    def shares():
        found = decisions(metrics.totals(), [release])
        return {key: {level: n / of["refer"] for level, n in of.items()} for key, of in found.items()}

    for version in release.versions.values():
        for subgroup in ("light", "dark"):
            answer(version, subgroup, urgent=2, routine=5, ruled_out=2, none=1)
    before = shares()
    steady = {"refer": 1.0, "urgent": 0.2, "routine": 0.5, "ruled-out": 0.2}
    assert before == {
        ("skin-lesion", number, tone): steady for number in (1, 2) for tone in ("light", "dark")
    }
    answer(release.versions["dark"], "dark", urgent=10)
    answer(later.versions["global"], "dark", urgent=10)
    moved = {"refer": 1.0, "urgent": 0.6, "routine": 0.25, "ruled-out": 0.1}
    assert shares() == {**before, ("skin-lesion", 2, "dark"): moved}, "nor of a version that is not served"


def total(counts):
    return sum(counts.values())


@pytest.mark.parametrize(
    "odd", [(np.ones(2), NEAR), (np.array([0.2, 0.3, 0.5]), np.ones(7)), (np.full(3, np.nan), NEAR[:2])]
)
def test_one_picture_that_cannot_be_counted_loses_no_other(load, bundle, shares, familiar, caplog, odd):
    """And those of its batch are counted once, though they are tried together first."""
    release = load(bundle(out_of_distribution=familiar))
    loaded, rows = release.versions["global"], shares(0, 20)
    counting = BackgroundDriftCounter(DriftCounters(metrics := Metrics()))
    for place, row in enumerate(rows):
        counting.put(loaded, "dark", row, NEAR)
        if place == 9:
            counting.put(loaded, "dark", *odd)
    counting.put(loaded, "light", rows[0], NEAR)
    counting.close()
    for measure in ("confidence", "malignancy", "unfamiliarity"):
        found = counts_of(metrics.totals(), measure)
        assert {place[-1]: total(counts) for place, counts in found.items()} == {"dark": 20, "light": 1}
    classes = counts_of(metrics.totals(), "classes")["skin-lesion", 1, "dark"]
    assert total(classes) == pytest.approx(20)
    assert "could not be counted for drift: 1" in caplog.text
