"""Drift: its bins and distances, and what was counted, against histograms of the same pictures by NumPy."""

import bisect
import math
from datetime import UTC, datetime
from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon
from scipy.stats import chi2

from registry.bundle.counting import count
from registry.bundle.errors import GraphError
from registry.bundle.evaluation import ReferenceHistograms, SubgroupHistograms
from registry.bundle.manifest import OutOfDistribution
from registry.bundle.model import DISTANCE_BINS, Gaussians, distance_bin, upper_edge
from registry.bundle.score_bins import LOGIT_BINS
from registry.records import Release, Version
from serving.inference.predictor import LoadedVersion
from serving.inference.quality import QualityAssessment
from serving.metrics import Metrics
from serving.monitoring.drift import (
    DISTANCE_EDGES,
    FEWEST,
    LOG_ODDS_EDGES,
    SHIFTED,
    DriftCounters,
    Merged,
    coarse_distances,
    coarse_scores,
    compare,
    counts_of,
    decisions,
    distance_value,
    drift_metrics,
    drift_table,
    expected,
    log_odds_value,
)
from serving.releases.loading import LoadedRelease
from tests.thresholds import concluding

MALIGNANT = np.array([True, False, False])


@pytest.fixture(scope="session")
def load():
    """Loads a release of bundles, whose versions are numbered from `first` on."""

    def make(*bundles, first=1):
        versions = [
            Version(one.manifest.model, number, one.digest, one.manifest.subgroup, datetime.now(UTC))
            for number, one in enumerate(bundles, start=first)
        ]
        loaded = [LoadedVersion.of(*pair) for pair in zip(versions, bundles, strict=True)]
        release = Release(1, versions[0].model, tuple(versions))
        return LoadedRelease(release, {one.version.subgroup.name: one for one in loaded})

    return make


def shares(seed, n, lean=(2, 3, 1)):
    """Probabilities of three classes for so many pictures; `lean` says towards which."""
    return np.random.default_rng(seed).dirichlet(lean, n)


def counts(rows, **options):
    return count(rows, np.zeros(len(rows), dtype=int), malignant=MALIGNANT, **options).point


def reference(probabilities, *, subgroups=(), distances=None):
    """What test pictures with these probabilities leave in a bundle; `subgroups` with theirs."""
    of_subgroups = [SubgroupHistograms.from_counts(counts(rows), subgroup=one) for one, rows in subgroups]
    return ReferenceHistograms.from_counts(
        counts(probabilities), distances=distances, by_subgroup=tuple(of_subgroups)
    )


@pytest.fixture(scope="session")
def familiar():
    """One Gaussian at the origin, of three features that do not lean on each other; unfamiliar from 10 on."""
    gaussians = Gaussians(np.zeros((1, 3), np.float32), np.eye(3, dtype=np.float32))
    place = DISTANCE_BINS // 12 * 4 - 1  # the bin that ends at 10 to the power of 1
    return OutOfDistribution.of(gaussians, ["MEL"], trained_on=500, rate=0.05, n=400, threshold_bin=place)


def kept(value, edges):
    """The bin that Prometheus counts a value in: the first whose end is not below it."""
    return bisect.bisect_left(edges, value)


def test_a_score_is_counted_where_its_bin_goes():
    edges = (*LOG_ODDS_EDGES, np.inf)
    for place, middle in enumerate(LOGIT_BINS.middles):
        one = np.zeros(len(LOGIT_BINS), dtype=int)
        one[place] = 7
        counted = kept(log_odds_value(middle), edges)
        assert coarse_scores(one).tolist() == [7 * (k == counted) for k in range(len(edges))]


@pytest.mark.parametrize("threshold", [0, 700, 1201, DISTANCE_BINS - 2])
def test_a_distance_is_counted_where_its_bin_goes(threshold):
    every = np.arange(1, DISTANCE_BINS + 1)
    counted = np.zeros(len(DISTANCE_EDGES) + 1, dtype=int)
    for place in range(DISTANCE_BINS):
        counted[kept(distance_value(place, threshold), DISTANCE_EDGES)] += every[place]
    assert coarse_distances(every, threshold).tolist() == counted.tolist()


@pytest.mark.parametrize("threshold", [5, 900, 2000])
def test_from_one_on_a_distance_is_unfamiliar(threshold):
    edge = upper_edge(threshold)
    for distance in (edge * 0.5, edge * 0.9999, edge, edge * 1.0001, edge * 2):
        place = int(distance_bin(np.array(distance)))
        assert (distance_value(place, threshold) > 1) == (place > threshold)
    assert 1.0 in DISTANCE_EDGES
    assert list(DISTANCE_EDGES) == sorted(DISTANCE_EDGES)


def by_hand(expected, observed):
    """PSI by its definition in a loop, and scipy's Jensen-Shannon distance squared."""
    p = [(one + 0.5) / (sum(expected) + 0.5 * len(expected)) for one in expected]
    q = [(one + 0.5) / (sum(observed) + 0.5 * len(observed)) for one in observed]
    psi = 0.0
    for of_p, of_q in zip(p, q, strict=True):
        psi += (of_q - of_p) * math.log(of_q / of_p)
    return psi, jensenshannon(p, q, base=2) ** 2


@pytest.mark.parametrize(
    ("expected", "observed"),
    [
        ([40, 30, 30], [20, 30, 60]),
        ([400, 100, 500], [50, 0, 50]),
        ([95, 5], [60, 40]),
        ([20.5, 30.25, 49.25], [70, 80, 50]),
    ],
)
def test_both_distances_are_those_of_the_definitions(expected, observed):
    found = compare(np.array(expected), np.array(observed), join=False)
    psi, bits = by_hand(expected, observed)
    assert found.psi == pytest.approx(psi, rel=1e-12)
    assert found.jensen_shannon == pytest.approx(bits, rel=1e-9)
    n, m = sum(observed), sum(expected)
    assert found.by_chance == pytest.approx(chi2.ppf(0.95, len(expected) - 1) * (1 / n + 1 / m), rel=1e-9)
    assert found.bins == len(expected)


def test_small_bins_are_joined_with_what_follows():
    expected = np.array([1, 1, 3, 45, 0, 0, 46, 2, 1, 1])
    found = compare(expected, np.array([10, 0, 0, 20, 5, 5, 20, 20, 10, 10]))
    psi, bits = by_hand([5, 45, 50], [10, 20, 70])
    assert found.bins == 3
    assert found.psi == pytest.approx(psi, rel=1e-12)
    assert found.jensen_shannon == pytest.approx(bits, rel=1e-9)


def test_too_few_pictures_say_nothing():
    many, few = np.array([60, 60]), np.array([FEWEST // 2, FEWEST // 2 - 1])
    assert compare(many, few) is None
    assert compare(few, many) is None
    assert compare(many, few + np.array([0, 1])) is not None
    assert compare(np.array([0, 200, 1]), many.repeat(2)[:3]) is None  # a single bin holds all but nothing


@given(
    st.lists(st.integers(0, 500), min_size=2, max_size=30).filter(lambda one: sum(one) >= FEWEST),
    st.integers(0, 2**32 - 1),
)
def test_what_is_the_same_is_not_apart_and_nothing_is_negative(counts, seed):
    same = np.array(counts)
    shuffled = np.random.default_rng(seed).permutation(same)
    if (found := compare(same, same)) is not None:
        assert found.psi == pytest.approx(0, abs=1e-12)
        assert found.jensen_shannon == pytest.approx(0, abs=1e-12)
        other = compare(same, shuffled)
        assert other.psi >= 0
        assert -1e-12 <= other.jensen_shannon <= 1
        assert other.bins == found.bins <= 20  # none holds less than a twentieth


def test_chance_exceeds_the_limit_once_in_twenty_times():
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.full(25, 0.7))
    beyond = []
    for _ in range(2000):
        expected, observed = rng.multinomial(2000, shares), rng.multinomial(400, shares)
        found = compare(expected, observed)
        beyond.append(found.psi > found.by_chance)
    assert 0.03 < np.mean(beyond) < 0.07


LOG_ODDS = np.array([-np.inf, *np.arange(-15.5, 16, 0.5), np.inf])
NEAR = np.array([1.0, 1.0, 1.0])  # 3 away from a Gaussian at the origin
FAR = np.array([3.0, 2.0, 1.0])  # 14 away, where 10 is the limit


@pytest.fixture
def metrics():
    return Metrics()


@pytest.fixture
def counted(metrics):
    """Counts pictures of one version and subgroup together."""
    drift = DriftCounters(metrics)

    def count(loaded, subgroup, rows, embedding=NEAR):
        for row, place in zip(rows, np.broadcast_to(embedding, (len(rows), 3)), strict=True):
            drift.count(loaded, subgroup, row, place)

    return count


def rows_of(metrics, *releases):
    return {(row.version, row.subgroup, row.measure): row for row in drift_table(metrics.totals(), releases)}


def test_scores_are_compared_with_those_of_the_test(metrics, counted, load, bundle):
    tested, came = shares(0, 3000), shares(1, 400, (1, 1, 3))
    release = load(bundle(conclusions=concluding(0), reference=reference(tested)))
    counted(release.versions["global"], "undeclared", came)
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
    for measure, (test, observed) in histograms.items():
        row = found[1, "undeclared", measure]
        assert row.distance == compare(test, observed)
        assert (row.n, row.tested_on) == (400, 3000)
        assert row.shares == pytest.approx(observed / 400)
        assert row.expected == pytest.approx(test / 3000)
    classes = found[1, "undeclared", "classes"]
    assert (classes.n, classes.tested_on) == (400, 3000)
    assert classes.shares == pytest.approx(came.mean(axis=0), abs=1e-9)
    assert classes.expected == pytest.approx(tested.mean(axis=0), abs=1e-3)  # to half a bin
    oracle = compare(tested.mean(axis=0) * 3000, came.sum(axis=0), join=False)
    assert classes.distance.psi == pytest.approx(oracle.psi, rel=0.01)
    assert classes.verdict == "drifted"


def test_each_subgroup_is_compared_with_itself(metrics, counted, load, bundle, light, dark):
    """The global model knows what each subgroup's test pictures looked like."""
    of_light, of_dark = shares(0, 2000, (5, 1, 1)), shares(1, 500, (1, 1, 5))
    tested = reference(np.concatenate([of_light, of_dark]), subgroups=[(light, of_light), (dark, of_dark)])
    release = load(bundle(reference=tested))
    loaded = release.versions["global"]
    counted(loaded, "dark", shares(2, 300, (1, 1, 5)))
    counted(loaded, "light", shares(3, 99, (5, 1, 1)))
    found = rows_of(metrics, release)
    assert found[1, "dark", "confidence"].tested_on == 500
    assert found[1, "dark", "confidence"].verdict == "steady"
    assert found[1, "dark", "malignancy"].verdict == "steady"
    assert found[1, "light", "confidence"].verdict == "too few"
    assert found[1, "light", "confidence"].distance is None
    whole = found[1, "all", "malignancy"]
    assert (whole.n, whole.tested_on) == (399, 2500)
    assert whole.verdict == "drifted"  # nearly all of them have dark skin; few of the test's had
    counted(loaded, "light", shares(4, 1))
    assert rows_of(metrics, release)[1, "light", "confidence"].distance is not None


def test_distances_are_compared_with_those_of_the_test(metrics, counted, load, bundle, familiar):
    far = np.random.default_rng(0).normal(0, 1, (1000, 3))
    apart = distance_bin((far**2).sum(axis=1))
    tested = reference(shares(0, 1000), distances=tuple(np.bincount(apart, minlength=DISTANCE_BINS).tolist()))
    release = load(bundle(reference=tested, out_of_distribution=familiar))
    loaded = release.versions["global"]
    counted(loaded, "undeclared", shares(1, 300), np.random.default_rng(1).normal(0, 1, (300, 3)))
    assert rows_of(metrics, release)[1, "all", "unfamiliarity"].verdict == "steady"
    counted(loaded, "undeclared", shares(2, 200), FAR)
    moved = rows_of(metrics, release)[1, "all", "unfamiliarity"]
    assert moved.verdict == "drifted"
    assert sum(moved.shares[21:]) == pytest.approx(((far**2).sum(axis=1) > 10).mean() * 0.6 + 0.4, abs=0.03)


def test_prometheus_gets_what_there_are_enough_pictures_for(metrics, counted, load, bundle):
    release = load(bundle(reference=reference(shares(0, 500))))

    def exported():
        families = drift_metrics(metrics.totals(), [release])
        return {
            (family.name, *sample.labels.values()): sample.value
            for family in families
            for sample in family.samples
        }

    rows = shares(1, 100)
    counted(release.versions["global"], "fitzpatrick 4", rows[:99])
    assert exported() == {}
    counted(release.versions["global"], "undeclared", rows[99:])
    found = exported()
    assert {key[3] for key in found} == {"all"}
    (row,) = [row for row in drift_table(metrics.totals(), [release]) if row.distance][:1]
    place = ("skin-lesion", "1", "all", "confidence")
    assert found["dermfed_drift_psi", *place] == row.distance.psi
    assert found["dermfed_drift_jensen_shannon", *place] == row.distance.jensen_shannon
    assert found["dermfed_drift_psi_by_chance", *place] == row.distance.by_chance
    assert found["dermfed_drift_pictures", *place] == 100


def test_pictures_of_several_versions_and_subgroups_are_kept_apart(metrics, counted, load, bundle, dark):
    release = load(bundle(), bundle(dark))
    for version, group in (("global", "dark"), ("global", "light"), ("dark", "dark")):
        counted(release.versions[version], group, shares(0, 7))
    found = {place: total(counts) for place, counts in counts_of(metrics.totals(), "confidence").items()}
    assert found == {
        ("skin-lesion", number, group): 7 for number, group in ((1, "dark"), (1, "light"), (2, "dark"))
    }


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
def test_a_picture_that_cannot_be_counted_is_counted_nowhere(load, bundle, familiar, odd):
    loaded = load(bundle(out_of_distribution=familiar)).versions["global"]
    drift = DriftCounters(metrics := Metrics())
    with pytest.raises((ValueError, IndexError, GraphError)):
        drift.count(loaded, "dark", *odd)
    for measure in ("confidence", "malignancy", "unfamiliarity", "classes"):
        assert counts_of(metrics.totals(), measure) == {}


COMPARISONS = 60
CAME = 2000
ONE_IN_TWENTY = 0.05 + 2 * (0.05 * 0.95 / (2 * COMPARISONS)) ** 0.5  # and two standard errors


def answers(rng, n, shift=0.0):
    """Probabilities `(n, 3)` of a network that is sure of itself, and less right by `shift`."""
    labels = rng.choice(3, n, p=[0.2, 0.5, 0.3])
    logits = 3 * (rng.normal(size=(n, 3)) + (1.5 - shift) * np.eye(3)[labels])
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


def histogram(scores):
    """The live side, as the service counts it."""
    points = np.log(np.clip(scores, 1e-15, 1 - 1e-15)) - np.log(np.clip(1 - scores, 1e-15, 1))
    return np.histogram(points, [-np.inf, *np.arange(-15.5, 16, 0.5), np.inf])[0]


@pytest.fixture(scope="module")
def distances(bundle):
    """Comparisons by confidence and malignancy: as made, as if unmerged, and of unmerged ones in 25 bins."""

    def repeat(hospitals, each, shift):
        rng = np.random.default_rng(0)
        found = {"merged": [], "taken for unmerged": [], "25 equal bins": []}
        for _ in range(COMPARISONS):
            tested = [answers(rng, each) for _ in range(hospitals)]
            together = reduce(add, [counts(rows, smallest_cell=5) for rows in tested])
            known = ReferenceHistograms.from_counts(together, smallest_cell=5, parts=hospitals)
            manifest = bundle(reference=known).manifest
            came, whole = answers(rng, CAME, shift), np.concatenate(tested)
            for measure, score in (
                ("confidence", lambda p: p.max(axis=1)),
                ("malignancy", lambda p: p[:, 0]),
            ):
                merged = expected(manifest, "undeclared", measure)
                live = histogram(score(came))
                found["merged"].append(compare(merged.counts, live, merged=merged.merged))
                found["taken for unmerged"].append(compare(merged.counts, live))
                equal = (np.histogram(score(rows), np.linspace(0, 1, 26))[0] for rows in (whole, came))
                found["25 equal bins"].append(compare(*equal))
        return found

    return repeat


def beyond_chance(found):
    return float(np.mean([one.psi > one.by_chance for one in found]))


def alarms(found):
    return float(np.mean([one.psi > max(one.by_chance, SHIFTED) for one in found]))


@pytest.mark.parametrize(("hospitals", "each"), [(1, 120), (4, 60)])
def test_without_drift_there_are_no_more_alarms_than_of_unmerged_scores(distances, hospitals, each):
    found = distances(hospitals, each, shift=0.0)
    assert beyond_chance(found["merged"]) <= ONE_IN_TWENTY
    assert alarms(found["merged"]) <= alarms(found["25 equal bins"]) + 0.03


@pytest.mark.parametrize(("hospitals", "each"), [(1, 400), (4, 150)])
def test_a_shift_is_found_as_in_unmerged_scores(distances, hospitals, each):
    found = distances(hospitals, each, shift=1.5)
    assert beyond_chance(found["25 equal bins"]) > 0.9
    assert beyond_chance(found["merged"]) > 0.9
    assert alarms(found["merged"]) >= alarms(found["25 equal bins"]) - 0.05


def test_bins_end_halfway_between_occupied_ones():
    tested = np.zeros(12)
    tested[[1, 6, 9]] = 40
    came = np.zeros(12)
    came[[2, 3, 4, 7, 10]] = [20, 20, 40, 20, 20]
    found = compare(tested, came, merged=Merged(smallest_cell=5, parts=1))
    halfway = compare(np.array([40.0, 40, 40]), np.array([40.0, 60, 20]), join=False)
    assert (found.psi, found.bins) == (pytest.approx(halfway.psi), 3)
    assert found.by_chance == pytest.approx(halfway.by_chance * (1 + (1 + 100 * 3 / 720)) / 2)


def test_how_it_was_merged_is_read_from_the_bundle(bundle):
    rows = answers(np.random.default_rng(0), 200)
    merged = counts(rows, smallest_cell=5)
    whole = bundle(reference=ReferenceHistograms.from_counts(merged, smallest_cell=5, parts=7)).manifest
    assert expected(whole, "all", "confidence").merged == Merged(5, 7)
    assert expected(whole, "all", "classes").merged is None
    fine = bundle(reference=ReferenceHistograms.from_counts(merged)).manifest
    found = expected(fine, "all", "confidence")
    assert found.merged is None
    assert found.counts.tolist() == coarse_scores(np.array(fine.reference.confidence)).tolist()
