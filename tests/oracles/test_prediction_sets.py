"""Mondrian prediction sets against crepes, which sorts the scores of every picture.

crepes puts a class in where its p-value is at least alpha, we where it is above: these differ where
(n + 1) alpha is a whole number, and then its sets are the larger ones.
"""

import numpy as np
import pytest
from crepes import ConformalClassifier
from crepes.extras import hinge
from hypothesis import given, settings
from hypothesis import strategies as st

from personalization.calibration.conformal import fit_threshold
from registry.bundle.score_bins import LOGIT_BINS, score_bin

COVERAGE = 0.9


def our_sets(calibration, new):
    """`(pictures, classes)`, each subgroup with the threshold of its own."""
    thresholds = {
        name: fit_threshold(counts.scores[..., 1, :].sum(axis=-2), COVERAGE).threshold_bin
        for name, counts in calibration.subgroups.items()
    }
    bars = np.array([thresholds[str(name)] for name in new.groups])
    return score_bin(new.probabilities) >= bars[:, np.newaxis], bars


def their_sets(calibration, new, score=lambda probabilities: probabilities):
    """The same by crepes, from `score` of the probabilities."""
    alphas = hinge(
        score(calibration.probabilities), np.arange(calibration.probabilities.shape[1]), calibration.labels
    )
    fitted = ConformalClassifier().fit(alphas, bins=calibration.groups)
    return fitted.predict_set(
        hinge(score(new.probabilities)), bins=new.groups, confidence=COVERAGE, smoothing=False
    ).astype(bool)


def binned(probabilities):
    """Whole numbers, so that no rounding tells two scores of one bin apart."""
    return score_bin(probabilities).astype(float)


@given(
    seed=st.integers(0, 2**32),
    sizes=st.lists(st.integers(5, 150).filter(lambda n: (n + 1) % 10), min_size=1, max_size=4),
    num_classes=st.integers(2, 5),
)
@settings(max_examples=25)
def test_sets_are_those_of_crepes_on_the_binned_scores(cohort, seed, sizes, num_classes):
    calibration = cohort(seed, tuple(sizes), num_classes)
    new = cohort(seed + 1, (60,) * len(sizes), num_classes)
    ours, _ = our_sets(calibration, new)
    np.testing.assert_array_equal(ours, their_sets(calibration, new, binned))


@given(
    seed=st.integers(0, 2**32),
    sizes=st.lists(st.integers(5, 150).filter(lambda n: (n + 1) % 10), min_size=1, max_size=4),
)
@settings(max_examples=25)
def test_against_the_scores_themselves_only_the_bin_of_the_threshold_is_added(cohort, seed, sizes):
    """The stated resolution: a class that we add has its probability in the threshold's bin."""
    calibration, new = cohort(seed, tuple(sizes)), cohort(seed + 1, (60,) * len(sizes))
    ours, bars = our_sets(calibration, new)
    theirs = their_sets(calibration, new)
    assert not (theirs & ~ours).any()
    added = ours & ~theirs
    places = np.broadcast_to(bars[:, np.newaxis], ours.shape)
    np.testing.assert_array_equal(score_bin(new.probabilities)[added], places[added])
    assert (new.probabilities[added] < LOGIT_BINS.edges[places[added] + 1]).all()


@pytest.mark.parametrize("n", [9, 19, 59, 99])
def test_where_the_rank_is_a_whole_number_crepes_sets_are_the_larger_ones(cohort, n):
    calibration, new = cohort(3, (n, n)), cohort(4, (300, 300))
    ours, _ = our_sets(calibration, new)
    theirs = their_sets(calibration, new, binned)
    assert not (ours & ~theirs).any()
    assert (theirs & ~ours).any()


def test_too_few_pictures_put_every_class_into_both(cohort):
    calibration, new = cohort(5, (8, 60)), cohort(6, (50, 50))
    small = new.groups == "a"
    assert our_sets(calibration, new)[0][small].all()
    assert their_sets(calibration, new)[small].all()
