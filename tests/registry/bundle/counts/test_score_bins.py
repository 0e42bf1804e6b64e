"""Runs of neighbouring bins: each of enough patients, in order, and counted at one of its bins."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.bundle.score_bins import (
    LOGIT_BINS,
    SCORE_BINS,
    highest,
    lowest,
    malignancy_probability,
    merge,
    middle,
    nearest_to_mean,
    score_bin,
    smallest_cell,
)


def test_bins_are_wide_by_log_odds_and_symmetric():
    edges = LOGIT_BINS.edges
    assert len(LOGIT_BINS) == SCORE_BINS == 320
    inside = np.log(edges[1:-1] / (1 - edges[1:-1]))
    np.testing.assert_allclose(inside[31:-31], np.arange(-8, 8.01, 1 / 16), atol=1e-6)
    np.testing.assert_allclose(inside[-32:], np.arange(8, 15.76, 0.25), rtol=1e-4)
    np.testing.assert_allclose(edges + edges[::-1], 1, atol=1e-12)
    assert edges[160] == 0.5
    assert (edges[0], edges[-1]) == (0, 1)
    assert ((edges[:-1] < LOGIT_BINS.middles) & (LOGIT_BINS.middles < edges[1:])).all()


def test_bins_are_closed_below_and_the_last_one_above():
    assert score_bin(np.array([0.0, 0.4999, 0.5, 0.5156, 0.5157, 1.0])).tolist() == [
        0,
        159,
        160,
        160,
        161,
        319,
    ]
    assert score_bin(LOGIT_BINS.edges[:-1]).tolist() == list(range(320))


def test_malignancy_is_the_sum_over_malignant_classes():
    probabilities = np.array([[0.2, 0.3, 0.5], [0.6, 0.1, 0.3]])
    summed = malignancy_probability(probabilities, np.array([True, False, True]))
    np.testing.assert_allclose(summed, [0.7, 0.9])


PICKS = {"lowest": lowest, "highest": highest, "middle": middle, "mean": nearest_to_mean(LOGIT_BINS.middles)}


@given(
    st.lists(st.tuples(st.integers(0, 127), st.integers(0, 12)), min_size=1, max_size=60),
    st.integers(1, 8),
    st.sampled_from(sorted(PICKS)),
    st.booleans(),
)
@settings(max_examples=60)
def test_every_run_is_of_enough_patients_and_in_order(pictures, smallest, pick, from_below):
    bins, patients = (np.array(column) for column in zip(*pictures, strict=True))
    merged = merge(bins, patients, smallest, PICKS[pick], from_below=from_below)
    assert merged.shape == bins.shape
    for run in np.unique(merged):
        members = merged == run
        assert len(set(patients[members])) >= min(smallest, len(set(patients)))
        if pick in {"middle", "mean"}:
            assert bins[members].min() <= run <= bins[members].max()
    order = np.argsort(bins, kind="stable")
    assert (np.diff(merged[order]) >= 0).all()


def test_a_threshold_at_a_run_that_is_counted_at_its_lowest_bin_is_exact():
    rng = np.random.default_rng(3)
    bins, patients = rng.integers(0, 128, 80), np.arange(80)
    merged = merge(bins, patients, 5, lowest)
    for threshold in np.unique(merged):
        assert (merged >= threshold).sum() == (bins >= threshold).sum()


def test_a_distance_at_a_run_that_is_counted_at_its_highest_bin_is_exact():
    rng = np.random.default_rng(4)
    bins = rng.integers(0, 128, 80)
    merged = merge(bins, np.arange(80), 5, highest)
    for threshold in np.unique(merged):
        assert (merged <= threshold).sum() == (bins <= threshold).sum()


def test_runs_by_score_are_the_same_for_all_scores_in_the_same_order():
    rng = np.random.default_rng(6)
    scores, patients = rng.normal(size=90), np.arange(90)
    runs = [
        merge(LOGIT_BINS.bin(1 / (1 + np.exp(-scores / t))), patients, 5, middle, scores=scores / t)
        for t in (1.0, 1.7, 9.0)
    ]
    members = [{frozenset(np.flatnonzero(of == run)) for run in np.unique(of)} for of in runs[:2]]
    assert members[0] == members[1]
    assert len(np.unique(runs[2])) < len(np.unique(runs[0])), "several runs may meet in a bin"


def test_outermost_runs_end_on_a_coarse_grid_and_others_between_two_runs():
    bins = np.array([5, 6, 7, 21, 22, 23, 41, 42, 43])
    assert np.unique(merge(bins, np.arange(9), 3, lowest)).tolist() == [4, 14, 32]
    assert np.unique(merge(bins, np.arange(9), 3, highest)).tolist() == [14, 32, 43]


def test_too_few_patients_are_one_run_and_a_smallest_of_one_changes_nothing():
    bins = np.array([3, 9, 90])
    assert np.unique(merge(bins, np.arange(3), 5, lowest)).tolist() == [0]
    assert merge(bins, np.arange(3), 1, middle).tolist() == [3, 9, 90]


def test_the_mean_confidence_of_a_run_stays():
    bins = LOGIT_BINS.bin(np.array([0.5, 0.7, 0.9]))
    (told,) = np.unique(merge(bins, np.arange(3), 3, PICKS["mean"]))
    assert abs(LOGIT_BINS.middles[told] - 0.7) < 0.04


@pytest.mark.parametrize(
    ("min_count", "patients"), [(0, 1), (1, 1), (2, 1), (3, 2), (5, 3), (10, 5), (11, 6)]
)
def test_an_occupied_bin_is_of_half_as_many_patients_as_a_block(min_count, patients):
    assert smallest_cell(min_count) == patients
