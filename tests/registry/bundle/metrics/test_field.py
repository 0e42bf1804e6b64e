"""Figures of several hospitals: right where following up differs, and of one hospital its own."""

import numpy as np
import pytest

from registry.bundle.counts.field_counts import FieldStratum
from registry.bundle.metrics.field import FieldSums, pooled_figures
from registry.field.corrected import field_figures
from registry.field.strata import Strata


def stratum(flagged, answered, confirmed, malignant, in_set=0):
    return FieldStratum(
        flagged=flagged, answered=answered, confirmed=confirmed, malignant=malignant, in_set=in_set
    )


def pooled(*hospitals):
    return pooled_figures(sum((FieldSums.of(strata) for strata in hospitals), FieldSums.none()))


def naive(*hospitals):
    """One correction over counts that were added up."""
    counts = np.array([[[s.answered, s.confirmed, s.malignant] for s in strata] for strata in hospitals]).sum(
        0
    )
    return field_figures(Strata(np.array([s.flagged for s in hospitals[0]]), *counts.T))


# A: ill, and nearly all are followed up. B: well, large, and the unsuspected are hardly followed up.
ILL = (stratum(False, 1000, 800, 160), stratum(True, 500, 450, 360))
WELL = (stratum(False, 10000, 200, 2), stratum(True, 500, 450, 90))
TRUE_SENSITIVITY = (500 * 0.8 + 500 * 0.2) / (500 * 0.8 + 500 * 0.2 + 1000 * 0.2 + 10000 * 0.01)
TRUE_SPECIFICITY = (1000 * 0.8 + 10000 * 0.99) / (1000 * 0.8 + 10000 * 0.99 + 500 * 0.2 + 500 * 0.8)


def test_where_following_up_differs_added_corrections_are_right_and_corrected_sums_are_not():
    found, wrong = pooled(ILL, WELL), naive(ILL, WELL)
    assert float(found.sensitivity.value) == pytest.approx(TRUE_SENSITIVITY, abs=1e-9)
    assert float(found.specificity.value) == pytest.approx(TRUE_SPECIFICITY, abs=1e-9)
    assert found.sensitivity.low < TRUE_SENSITIVITY < found.sensitivity.high
    assert abs(float(wrong.sensitivity.value) - TRUE_SENSITIVITY) > 0.3
    assert not wrong.sensitivity.low < TRUE_SENSITIVITY < wrong.sensitivity.high


def test_where_following_up_is_alike_both_are_the_same():
    twice = (stratum(False, 2000, 1600, 320), stratum(True, 1000, 900, 720))
    assert float(pooled(ILL, twice).sensitivity.value) == pytest.approx(
        float(naive(ILL, twice).sensitivity.value)
    )


@pytest.mark.parametrize(("n", "m"), [(40, 3), (40, 0), (40, 40), (6, 2), (1, 1)])
def test_of_one_hospital_the_figures_are_its_own(n, m):
    strata = (stratum(False, 400, n, m), stratum(True, 90, 60, 45))
    found, own = pooled(strata), naive(strata)
    for name in ("seen_sensitivity", "seen_specificity", "sensitivity", "specificity"):
        for end in ("value", "low", "high"):
            expected = float(getattr(getattr(own, name), end))
            assert float(getattr(getattr(found, name), end)) == pytest.approx(expected, abs=0.01, nan_ok=True)


def test_two_strata_on_a_side_are_nearly_as_one_hospital_has_them():
    strata = (
        stratum(False, 400, 20, 1),
        stratum(False, 100, 50, 20),
        stratum(True, 90, 60, 45),
        stratum(True, 9, 5, 2),
    )
    found, own = pooled(strata), naive(strata)
    assert float(found.sensitivity.value) == pytest.approx(float(own.sensitivity.value))
    assert float(found.sensitivity.low) == pytest.approx(float(own.sensitivity.low), abs=0.02)
    assert float(found.sensitivity.high) == pytest.approx(float(own.sensitivity.high), abs=0.02)


def test_answers_of_which_no_outcome_says_anything_leave_the_figure_unknown_and_widen_it():
    silent = (stratum(False, 3000, 0, 0), stratum(True, 100, 0, 0))
    known, found = pooled(ILL), pooled(ILL, silent)
    assert np.isnan(found.sensitivity.value)
    assert found.without_outcome == 3100
    assert found.sensitivity.low < 0.2 < known.sensitivity.low
    assert found.sensitivity.high > known.sensitivity.high
    # Of a hospital that nobody has asked anything nothing changes.
    nothing = (stratum(False, 0, 0, 0), stratum(True, 0, 0, 0))
    assert float(pooled(ILL, nothing).sensitivity.value) == float(known.sensitivity.value)


def test_of_nobody_nothing_is_known():
    found = pooled_figures(FieldSums.none())
    assert np.isnan(found.sensitivity.value)
    assert (float(found.sensitivity.low), float(found.sensitivity.high)) == (0.0, 1.0)
    assert found.to_json()["figures"]["coverage"]["seen"]["value"] is None


def test_sets_that_held_what_it_was_are_counted_among_the_followed_up():
    found = pooled((stratum(False, 50, 20, 2, 18), stratum(True, 20, 20, 15, 19)))
    assert float(found.coverage.value) == pytest.approx(37 / 40)


def drawn_intervals(draws):
    """How often each interval holds the truth, over hospitals that follow up otherwise."""
    random = np.random.default_rng(1)
    prevalences = (0.2, 0.8), (0.01, 0.2), (0.05, 0.5)
    follow_ups = (0.8, 0.9), (0.05, 0.9), (0.2, 0.7)
    sizes = (600, 300), (4000, 200), (1500, 300)
    held = np.zeros(2)
    flagged = sum(n[1] * p[1] for n, p in zip(sizes, prevalences, strict=True))
    truth = flagged / (flagged + sum(n[0] * p[0] for n, p in zip(sizes, prevalences, strict=True)))
    for _ in range(draws):
        hospitals = []
        for n, p, f in zip(sizes, prevalences, follow_ups, strict=True):
            followed = [random.binomial(n[side], f[side]) for side in range(2)]
            ill = [random.binomial(followed[side], p[side]) for side in range(2)]
            hospitals.append([stratum(bool(side), n[side], followed[side], ill[side]) for side in range(2)])
        for place, found in enumerate((pooled(*hospitals), naive(*hospitals))):
            held[place] += found.sensitivity.low <= truth <= found.sensitivity.high
    return held / draws


@pytest.mark.long
def test_intervals_hold_the_truth_over_hospitals_and_those_of_added_counts_do_not():
    ours, added = drawn_intervals(200)
    assert ours >= 0.93
    assert added < 0.1
