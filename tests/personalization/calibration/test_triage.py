"""Triage against the binomial distribution, and against the scores where hospitals merge."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from personalization.calibration.at_thresholds import (
    LEVEL,
    STEPS,
    CountsAt,
    fit_working_point,
    propose_working_points,
    read_counts,
)
from personalization.calibration.triage import (
    MalignancyRules,
    RuledOut,
    TriageConfig,
    count_malignancies,
    fit_ruled_out,
    fit_urgent,
    most_thresholds,
    propose_ruled_out,
    propose_urgent,
)
from registry.bundle.score_bins import SCORE_BINS, highest, lowest, merge, score_bin
from training.errors import MessageError
from training.messages import Update

KINDS = np.array([-1, 0, 1])  # of three classes: benign, and two kinds of malignancy


def histogram(*rows):
    """Scores of lesions that are not malignant and of each kind, unmerged."""
    return np.stack(
        [np.bincount(score_bin(np.array(each, dtype=float)), minlength=SCORE_BINS) for each in rows]
    )


def spread(n, shift=0.0):
    """n scores in as many bins."""
    return 1 / (1 + np.exp(-np.linspace(-6, 6, n) - shift))


LIGHT = histogram(spread(90), spread(400), spread(300))


def ruled_out(counts, beta=0.1):
    return fit_ruled_out(CountsAt.of(counts, propose_ruled_out(counts, beta)), beta)


def urgent(counts, alpha=0.1):
    return fit_urgent(CountsAt.of(counts, propose_urgent(counts, alpha)), alpha)


def shown(x, n, most):
    """Whether x of n show, by the binomial distribution, that the share is at most `most`."""
    return n > 0 and binom.cdf(x, n, most) <= 1 - LEVEL


@pytest.mark.parametrize("beta", [0.05, 0.1, 0.3])
@pytest.mark.parametrize(("n", "m"), [(28, 200), (29, 200), (58, 59), (113, 30), (400, 300)])
def test_the_threshold_is_the_largest_with_a_proof_for_each_kind(n, m, beta):
    counts = histogram(spread(50, -3), spread(n), spread(m, 1))
    below = counts.cumsum(axis=1) - counts  # at each bin
    proven = [
        bin_of
        for bin_of in range(SCORE_BINS)
        if all(shown(below[kind, bin_of], counts[kind].sum(), beta) for kind in (1, 2))
    ]
    found = ruled_out(counts, beta)
    assert found.below == (proven[-1] if proven else 0)
    assert [share.n for share in found.missed] == [n, m]
    assert [share.x for share in found.missed] == [int(below[kind, found.below]) for kind in (1, 2)]
    for share in found.missed:
        assert binom.cdf(share.x, share.n, share.high) == pytest.approx(1 - LEVEL)


def test_a_kind_that_nobody_has_is_not_proven():
    assert not ruled_out(histogram(spread(50), spread(200), [])).below


@pytest.mark.parametrize("alpha", [0.05, 0.1])
@pytest.mark.parametrize("n", [28, 29, 60, 300])
def test_urgent_is_the_lowest_threshold_with_few_false_alarms(n, alpha):
    counts = histogram(spread(n), spread(80, 2), spread(20, 2))
    above = counts[:, ::-1].cumsum(axis=1)[:, ::-1]
    proven = [bin_of for bin_of in range(SCORE_BINS) if shown(above[0, bin_of], n, alpha)]
    occupied = [bin_of for bin_of in proven if above[0, bin_of] == above[0, proven[0]]]
    found = urgent(counts, alpha)
    assert found.from_bin == (occupied[0] if proven else SCORE_BINS)
    assert found.false_alarms.x == (above[0, found.from_bin] if proven else 0)
    assert found.false_alarms.n == n


def test_limits_of_predictive_values_are_exact_at_975():
    """Lower ones of others ruled out and of malignant ones found, upper ones of misses and false alarms."""
    counts = histogram(spread(200, -2), spread(60, 1), spread(400, 2))
    outside, alarm = ruled_out(counts), urgent(counts)
    below = counts[:, : outside.below].sum(axis=1)
    assert below[0] > 0
    assert binom.sf(below[0] - 1, 200, outside.others_low) == pytest.approx(0.025)
    missed = [binom.cdf(below[of], counts[of].sum(), outside.missed_high) for of in (1, 2)]
    assert missed[0] == pytest.approx(0.025), "of the kind with the largest limit"
    assert missed[1] < missed[0]
    above = counts[:, alarm.from_bin :].sum(axis=1)
    assert above[0] > 0
    assert binom.cdf(above[0], 200, alarm.false_alarms_high) == pytest.approx(0.025)
    assert binom.sf(above[1:].sum() - 1, 460, alarm.found_low) == pytest.approx(0.025)


def test_each_threshold_goes_by_its_own_target():
    part = histogram(spread(300), spread(400, 2), spread(300, 2))
    found, counts = rules([part], TriageConfig(missed=0.02, false_alarms=0.2))
    fitted = found.fit_triage(counts, [True])
    assert fitted.ruled_out == ruled_out(part, 0.02)
    assert fitted.urgent == urgent(part, 0.2) != urgent(part, 0.02)


def test_no_lesion_at_the_working_point_or_above_is_ruled_out():
    part = LIGHT
    for sensitivity, capped in ((0.99, True), (0.5, False)):
        found, counts = rules([part], sensitivity=sensitivity)
        point, fitted = found.working_point(counts), found.fit_triage(counts, [True]).ruled_out
        own = ruled_out(part).below
        assert fitted.below == min(own, point.threshold_bin)
        assert (fitted.below < own) is capped
        assert fitted == RuledOut.at(fitted.below, counts), "with the counts that are there"


def test_a_target_over_all_malignant_lesions_misses_the_rare_kind():
    """The control: where common lesions score high, one limit for all lets most of the rare kind through."""
    counts = histogram(spread(300, -4), spread(900, 6), spread(40, -2))
    together = counts[1:].sum(axis=0)
    at = propose_working_points(together, 0.95)
    point = fit_working_point(CountsAt.of(together[np.newaxis], at), 0.95)
    rare = counts[2].cumsum() - counts[2]
    assert point.reached
    assert rare[point.threshold_bin] / 40 > 0.5
    assert rare[ruled_out(counts, 0.1).below] / 40 <= 0.1


def rules(parts, triage=TriageConfig(), sensitivity=None):  # noqa: B008 - frozen
    found = MalignancyRules(np.stack(parts), sensitivity, triage)
    counts = CountsAt.of(np.concatenate(parts), found.proposed)
    return found, counts


def test_who_declares_no_tone_is_ruled_out_by_the_lowest_threshold_and_the_worst_limits():
    dark, light = histogram(spread(60, -2), spread(40), spread(50)), LIGHT
    own = [ruled_out(each) for each in (dark, light)]
    found, counts = rules([dark, light])
    everybody = found.fit_triage(counts, [True, True]).ruled_out
    assert everybody.below == min(fit.below for fit in own) < max(fit.below for fit in own)
    assert [share.n for share in everybody.missed] == [40, 50], "limits are widest where there are fewest"
    of_each = [RuledOut.at(everybody.below, CountsAt.of(each, [everybody.below])) for each in (dark, light)]
    assert everybody.others_low == min(each.others_low for each in of_each) < of_each[0].others_low
    assert everybody.missed_high == max(each.missed_high for each in of_each) > of_each[1].missed_high
    assert found.fit_triage(counts, [True, False]).ruled_out == own[0], "of one tone, its own"


def test_nothing_is_ruled_out_for_an_undeclared_tone_where_one_tone_has_no_proof():
    dark, light = histogram(spread(60), spread(20), spread(50)), LIGHT
    for parts, named in (([dark, light], [True, True]), ([light], [False])):
        found, counts = rules(parts)
        assert not found.fit_triage(counts, named).ruled_out.below
    found, counts = rules([light, light])
    assert found.fit_triage(counts, [True, True]).ruled_out.below, "the control"


def test_working_point_and_triage_are_fitted_from_one_set_of_counts():
    part = LIGHT
    found, counts = rules([part, part], sensitivity=0.9)
    malignant = 2 * part[1:].sum(axis=0)
    alone = fit_working_point(CountsAt.of(malignant[np.newaxis], propose_working_points(malignant, 0.9)), 0.9)
    assert found.working_point(counts) == alone
    assert len(found.proposed) <= most_thresholds(2)
    assert rules([part])[0].working_point(counts) is None
    assert rules([part], triage=None, sensitivity=0.9)[0].fit_triage(counts, [True]) is None


@given(st.integers(0, 2**32), st.integers(1, 60), st.integers(1, 3), st.sampled_from([1, 3, 5]))
def test_merged_histograms_count_no_fewer_misses_and_no_fewer_false_alarms(seed, n, hospitals, smallest):
    """So limits hold for what is served, whatever is merged."""
    random = np.random.default_rng(seed)
    labels, scores = random.integers(0, 3, n), random.beta(1, 2, n)
    probabilities = np.stack([1 - scores, scores / 2, scores / 2], axis=1)
    places, patients = random.integers(0, hospitals, n), random.integers(0, 40, n)
    told = []
    for at in (places == place for place in range(hospitals)):
        told.append(count_malignancies(probabilities[at], labels[at], KINDS, patients[at], smallest))
        assert told[-1].sum() == at.sum()
    both = sum(told)
    bins = score_bin(probabilities[:, 1:].sum(axis=1))
    for threshold in range(SCORE_BINS):
        for kind in (1, 2):
            assert (bins[labels == kind] < threshold).sum() <= both[kind, :threshold].sum()
        assert (bins[labels == 0] >= threshold).sum() <= both[0, threshold:].sum()


@given(st.integers(0, 2**32), st.integers(2, 60), st.sampled_from([2, 3, 5]))
def test_the_two_places_of_a_run_tell_no_more_of_it_than_one(seed, n, smallest):
    """Both sides are counted in the same runs of neighbours: each is at one place or the other."""
    random = np.random.default_rng(seed)
    scores, patients = score_bin(random.beta(1, 2, n)), random.integers(0, 40, n)
    low, high = (merge(scores, patients, smallest, pick, from_below=True) for pick in (lowest, highest))
    runs = sorted(set(zip(low.tolist(), high.tolist(), strict=True)))
    assert all(
        len(np.unique(patients[low == at])) >= min(smallest, len(np.unique(patients))) for at, _ in runs
    )
    assert all(ends <= begins for (_, ends), (begins, _) in pairwise(runs))


@pytest.mark.parametrize(
    "sent",
    [
        None,
        torch.zeros(1, 2, SCORE_BINS),
        torch.full((1, 2, SCORE_BINS), -1),
        torch.zeros(1, 1, SCORE_BINS, dtype=torch.int32),
    ],
)
def test_what_is_no_histogram_is_refused(sent):
    tensors = {} if sent is None else {"malignancy": sent}
    update = Update("north", "calibrate", 0, "malignancy", "global", tensors, {}, {})
    with pytest.raises(MessageError, match="as `malignancy`; expected whole numbers"):
        read_counts(update, "malignancy", (1, 2, SCORE_BINS))


def test_no_more_thresholds_are_asked_at_than_hospitals_allow():
    random = np.random.default_rng(0)
    parts = [random.integers(0, 9, (3, SCORE_BINS)) for _ in range(4)]
    found = MalignancyRules(np.stack(parts), 0.95, TriageConfig())
    assert STEPS < len(found.proposed) <= most_thresholds(4)
