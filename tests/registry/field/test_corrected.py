"""Figures corrected for who is followed up, against the equations of their source and drawn patients."""

import numpy as np
import pytest

from registry.outcomes.monitoring import Strata, field_figures

FLAGGED = np.array([False, True])


def strata(answered, confirmed, malignant):
    return Strata(FLAGGED, np.array(answered), np.array(confirmed), np.array(malignant))


def test_they_are_those_of_begg_and_greenes():
    # By hand: malignant 1000 x 5/50 = 100 missed, 200 x 80/100 = 160 found; others 900 and 40.
    found = field_figures(strata([1000, 200], [50, 100], [5, 80]))
    assert float(found.sensitivity.value) == pytest.approx(160 / 260)
    assert float(found.specificity.value) == pytest.approx(900 / 940)
    assert float(found.seen_sensitivity.value) == pytest.approx(80 / 85)
    assert float(found.seen_specificity.value) == pytest.approx(45 / 65)
    assert (found.answered, found.confirmed, found.malignant) == (1200, 150, 85)


def test_where_everybody_is_followed_up_both_are_the_same():
    found = field_figures(strata([90, 30], [90, 30], [3, 20]))
    assert float(found.sensitivity.value) == pytest.approx(float(found.seen_sensitivity.value))
    assert float(found.specificity.value) == pytest.approx(float(found.seen_specificity.value))


def test_a_stratum_without_an_outcome_leaves_the_figure_unknown_and_wide():
    found = field_figures(strata([1000, 200], [0, 100], [0, 80]))
    assert np.isnan(found.sensitivity.value)
    assert found.sensitivity.high - found.sensitivity.low > 0.5


def test_without_outcomes_nothing_is_known():
    found = field_figures(strata([1000, 200], [0, 0], [0, 0]))
    assert np.isnan(found.sensitivity.value)
    assert np.isnan(found.seen_sensitivity.value)
    assert (float(found.sensitivity.low), float(found.sensitivity.high)) == (0, 1)


def test_impossible_counts_are_refused():
    with pytest.raises(ValueError, match="more outcomes than answers"):
        strata([1, 1], [2, 0], [0, 0])
    with pytest.raises(ValueError, match="more malignant"):
        strata([9, 9], [2, 0], [3, 0])


def test_the_corrected_interval_holds_the_true_figure_and_the_seen_one_does_not():
    random = np.random.default_rng(1)
    held, held_as_seen = 0, 0
    for _ in range(200):
        malignant = random.random(4000) < 0.1
        called = random.random(4000) < np.where(malignant, 0.85, 0.3)
        followed = random.random(4000) < np.where(called, 0.4, 0.1)
        of = field_figures(Strata.count(called.astype(np.int64), FLAGGED, followed, malignant))
        held += of.sensitivity.low <= 0.85 <= of.sensitivity.high
        held_as_seen += of.seen_sensitivity.low <= 0.85 <= of.seen_sensitivity.high
    assert held >= 180  # 190 are expected, with a standard deviation of 3
    assert held_as_seen < 100


def test_where_nobody_malignant_came_back_nothing_is_nan():
    with np.errstate(all="raise"):
        found = field_figures(strata([0, 200], [0, 50], [0, 0]))
    for one in (found.sensitivity, found.specificity):
        assert 0 <= one.low <= one.high <= 1
