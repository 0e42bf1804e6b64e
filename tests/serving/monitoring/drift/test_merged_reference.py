"""Drift from merged histograms of test pictures: alarms are as right as of unmerged ones."""

from collections.abc import Callable
from functools import reduce
from operator import add

import numpy as np
import pytest

from registry.bundle.counts.counting import count
from registry.bundle.evaluation import ReferenceHistograms
from serving.monitoring.drift import SHIFTED, Distance, Merged, compare, expected
from serving.monitoring.drift_counting import coarse_scores

MALIGNANT = np.array([True, False, False])
COMPARISONS = 60
CAME = 2000
ONE_IN_TWENTY = 0.05 + 2 * (0.05 * 0.95 / (2 * COMPARISONS)) ** 0.5  # and two standard errors


def answers(rng: np.random.Generator, n: int, shift: float = 0.0) -> np.ndarray:
    """Probabilities `(n, 3)` of a network that is sure of itself, and less right by `shift`."""
    labels = rng.choice(3, n, p=[0.2, 0.5, 0.3])
    logits = 3 * (rng.normal(size=(n, 3)) + (1.5 - shift) * np.eye(3)[labels])
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


def histogram(scores: np.ndarray) -> np.ndarray:
    """The live side, as the service counts it."""
    points = np.log(np.clip(scores, 1e-15, 1 - 1e-15)) - np.log(np.clip(1 - scores, 1e-15, 1))
    return np.histogram(points, [-np.inf, *np.arange(-15.5, 16, 0.5), np.inf])[0]


@pytest.fixture(scope="module")
def distances(bundle) -> Callable[..., dict[str, list[Distance]]]:
    """Comparisons by confidence and malignancy: as made, as if unmerged, and of unmerged ones in 25 bins."""

    def repeat(hospitals: int, each: int, shift: float) -> dict[str, list[Distance]]:
        rng = np.random.default_rng(0)
        found: dict[str, list[Distance]] = {"merged": [], "taken for unmerged": [], "25 equal bins": []}
        for _ in range(COMPARISONS):
            tested = [answers(rng, each) for _ in range(hospitals)]
            blocks = [
                count(rows, np.zeros(each, dtype=int), malignant=MALIGNANT, smallest_cell=5)
                for rows in tested
            ]
            reference = ReferenceHistograms.from_counts(
                reduce(add, [block.point for block in blocks]), smallest_cell=5, parts=hospitals
            )
            manifest = bundle(reference=reference).manifest
            came, everybody = answers(rng, CAME, shift), np.concatenate(tested)
            for measure, score in (
                ("confidence", lambda p: p.max(axis=1)),
                ("malignancy", lambda p: p[:, 0]),
            ):
                merged = expected(manifest, "undeclared", measure)
                live = histogram(score(came))
                found["merged"].append(compare(merged.counts, live, merged=merged.merged))
                found["taken for unmerged"].append(compare(merged.counts, live))
                equal = (np.histogram(score(rows), np.linspace(0, 1, 26))[0] for rows in (everybody, came))
                found["25 equal bins"].append(compare(*equal))
        return found

    return repeat


def beyond_chance(found: list[Distance]) -> float:
    return float(np.mean([one.psi > one.by_chance for one in found]))


def alarms(found: list[Distance]) -> float:
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
    counts = count(rows, np.zeros(200, dtype=int), malignant=MALIGNANT, smallest_cell=5).point
    whole = bundle(reference=ReferenceHistograms.from_counts(counts, smallest_cell=5, parts=7)).manifest
    assert expected(whole, "all", "confidence").merged == Merged(5, 7)
    assert expected(whole, "all", "classes").merged is None
    fine = bundle(reference=ReferenceHistograms.from_counts(counts)).manifest
    found = expected(fine, "all", "confidence")
    assert found.merged is None
    assert found.counts.tolist() == coarse_scores(np.array(fine.reference.confidence)).tolist()
