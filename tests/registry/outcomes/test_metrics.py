"""Metrics against the equations of their source, and evidence that holds however outcomes arrive."""

import math
from dataclasses import replace
from datetime import date, timedelta
from unittest.mock import ANY

import numpy as np
import pytest
from scipy.stats import binom

from registry.bundle.manifest import Conformal
from registry.outcomes.metrics import (
    LEAST,
    PERIOD_DAYS,
    SHARES,
    Monitored,
    Share,
    corrected,
    evidence,
    follow_up_weights,
    log_capital,
    metrics,
    monitored,
    released_report,
    report,
    targets,
    windows,
)
from registry.outcomes.store import Outcome, OutcomeStore
from tests.registry.drawn_outcomes import ARRIVALS, draw_year
from tests.registry.kept_answers import FIRST, WHERE, kept_answer
from tests.thorough import mostly_long

ABOVE = np.array([False, False, True, True])


def year(arrived, stratum, malignant, *, known=True, answered=None, first=date(2025, 1, 1)):
    """Outcomes of these days; by default five answers a day in each stratum."""
    arrived = np.asarray(arrived)
    size = len(arrived)
    days = max(400, int(arrived.max(initial=0)) + 1)
    table = np.full((days, 4), 5) if answered is None else np.asarray(answered)
    flags = [np.broadcast_to(np.asarray(one, dtype=bool), size) for one in (known, malignant, True)]
    stratum = np.broadcast_to(np.asarray(stratum), size)
    return Monitored(1, "global", "dark", first, table, 0, True, arrived, stratum, *flags)


def strata(answered, outcomes, x, *, malignant=True):
    """The corrected share of two strata, one on either side of the working point."""
    found = np.zeros((3, 4), dtype=np.int64)
    found[:, [0, 2]] = answered, outcomes, x
    return corrected(*found, ABOVE if malignant else ~ABOVE)


def test_corrected_metrics_are_those_of_begg_and_greenes():
    # By hand: malignant 1000 x 5/50 = 100 missed, 200 x 80/100 = 160 found; others 900 and 40.
    assert strata([1000, 200], [50, 100], [5, 80]).value == pytest.approx(160 / 260)
    assert strata([1000, 200], [50, 100], [45, 20], malignant=False).value == pytest.approx(900 / 940)
    assert strata([90, 30], [90, 30], [3, 20]).value == pytest.approx(20 / 23)  # as seen


@pytest.mark.parametrize(
    ("answered", "outcomes", "x", "expected"),
    [
        ([1000, 200], [0, 0], [0, 0], Share()),
        ([1000, 200], [0, 100], [0, 80], Share(None, ANY)),
        ([0, 200], [0, 50], [0, 0], Share(None, ANY)),
    ],
    ids=["no outcome", "a stratum without outcomes", "nothing malignant"],
)
def test_what_is_unknown_has_no_value_and_a_wide_interval(answered, outcomes, x, expected):
    with np.errstate(all="raise"):
        found = strata(answered, outcomes, x)
    assert found == expected
    low, high = found.interval
    assert 0 <= low < high <= 1
    assert high - low > 0.5 or answered[0] == 0


@pytest.fixture
def store(tmp_path):
    with OutcomeStore.open(f"sqlite:///{tmp_path / 'outcomes.db'}") as opened:
        yield opened


def test_metrics_are_counted_by_side_and_strata_and_corrections_count_as_they_stand(store):
    kinds = [  # malignancy, decision, outcomes, times
        (0.9, "report", ["MEL"], 4),
        (0.9, "refer", ["NV"], 3),
        (0.1, "report", ["MEL", "NV"], 2),
        (0.1, "report", ["BCC"], 1),
        (0.1, "refer", ["NV", None], 5),
        (0.1, "report", [], 7),
    ]
    for malignancy, decision, labels, times in kinds:
        for _ in range(times):
            answer = kept_answer(malignancy=malignancy, decision=decision)
            store.record([answer])
            for label in labels:
                store.give([Outcome(answer.id, label, "follow-up", FIRST, True)], "k1", FIRST)
    (one,) = report(store, "demo", lambda number: None)
    assert (one.version, one.made_for, one.subgroup, one.since) == (1, "global", "dark", FIRST)
    assert (one.answered, one.outcomes, one.malignant) == (22, 10, 5)
    assert one.reported == pytest.approx(14 / 22)
    of = one.metrics
    assert of.sensitivity.seen.value == pytest.approx(4 / 5)
    assert of.specificity.seen.value == pytest.approx(2 / 5)
    assert of.sensitivity.corrected.value is None  # of answers below that were not reported nothing is known
    assert of.coverage.seen.value == pytest.approx(4 / 10)
    assert of.coverage.seen.interval[0] < 0.4 < of.coverage.seen.interval[1]


def test_outcomes_are_counted_by_triage_whatever_else_was_answered(store):
    kinds = [  # triage, decision, malignancy, label, times
        ("ruled-out", "refer", 0.1, "NV", 8),
        ("ruled-out", "report", 0.9, "MEL", 2),
        ("ruled-out", "refer", 0.1, None, 3),
        ("urgent", "refer", 0.9, "BCC", 5),
        ("urgent", "refer", 0.1, "NV", 1),
        (None, "retake", 0.1, "MEL", 4),
    ]
    for level, decision, malignancy, label, times in kinds:
        for _ in range(times):
            answer = kept_answer(malignancy=malignancy, decision=decision, triage=level)
            store.record([answer])
            if label is not None:
                store.give([Outcome(answer.id, label, "follow-up", FIRST)], "k1", FIRST)
    (one,) = report(store, "demo", lambda number: None)
    assert [(of.level, of.outcomes, of.malignant) for of in one.triage] == [
        ("urgent", 6, {"MEL": 0, "BCC": 5}),
        ("routine", 0, {"MEL": 0, "BCC": 0}),
        ("ruled-out", 10, {"MEL": 2, "BCC": 0}),
    ]
    assert one.triage[2].share.value == pytest.approx(0.2)
    assert (one.answered, one.outcomes, one.malignant) == (23, 20, 11)
    assert one.metrics.sensitivity.seen.value == pytest.approx(7 / 11)  # the side is read as before
    assert one.reported == pytest.approx(2 / 23)
    assert released_report(store, "demo")[0].triage == ()


def test_answers_without_triage_are_counted_as_before(store):
    answer = kept_answer(side="above", decision="refer")
    assert answer.cell == 7
    store.record([answer])
    store.give([Outcome(answer.id, "MEL", "follow-up", FIRST)], "k1", FIRST)
    (one,) = report(store, "demo", lambda number: None)
    assert one.triage == ()


def test_an_outcome_counts_from_its_first_arrival_as_it_is_known_now(store):
    answer = kept_answer()
    store.record([answer])
    for days, label in ((9, "NV"), (40, None), (70, "MEL")):
        given = Outcome(answer.id, label, "follow-up", FIRST, True)
        store.give([given], "k1", FIRST + timedelta(days=days))
    (of,) = monitored(store, "demo")
    assert (of.arrived.tolist(), of.known.tolist(), of.malignant.tolist()) == ([9], [True], [True])


def test_without_a_working_point_only_the_coverage_is_known(store):
    answer = kept_answer(side="none", label="NV", in_set=frozenset({"NV"}))
    store.record([answer])
    store.give([Outcome(answer.id, "NV", "follow-up", FIRST)], "k1", FIRST)
    (one,) = report(store, "demo", lambda number: None)
    assert (one.answered, one.outcomes, one.malignant) == (1, 1, 0)
    assert one.metrics.sensitivity == one.metrics.specificity == type(one.metrics.sensitivity)()
    assert one.metrics.coverage.seen.value == 1


def figures(low):
    row = {"n": 50, WHERE: low + 0.05, "intervals": {WHERE: [low, low + 0.1]}}
    return {"n": 50, "by_subgroup": {"dark": row}, **row}


def conformal(guarantee="subgroup", n=99, alpha=0.1):
    return Conformal(alpha=alpha, threshold_bin=0 if guarantee == "none" else 20, n=n, guarantee=guarantee)


def test_targets_are_what_the_test_was_sure_of(bundle, dark):
    sensitivity, coverage = targets(bundle(dark, figures(0.8), conformal=conformal()).manifest, "dark")
    assert (sensitivity.of, sensitivity.least, coverage.of) == ("sensitivity", 0.8, "coverage")
    assert 0.8 < coverage.least < 0.9
    everybody = bundle(metrics=figures(0.8)).manifest
    assert [one.of for one in targets(everybody, "dark")] == ["sensitivity"]
    assert targets(everybody, "light") == ()  # it was not tested on them
    assert targets(None, "dark") == ()
    full = bundle(dark, figures(0.8), conformal=conformal("none")).manifest
    assert [one.of for one in targets(full, "dark")] == ["sensitivity"]


@pytest.mark.parametrize("n", [30, 99, 400])
def test_all_but_one_in_forty_calibrations_reach_the_target_of_coverage(bundle, dark, n):
    (coverage,) = targets(bundle(dark, conformal=conformal(n=n)).manifest, "dark")
    scores = np.sort(np.random.default_rng(n).random((4000, n)), axis=1)
    covered = scores[:, math.ceil((n + 1) * 0.9) - 1]  # of uniform scores, the threshold is the coverage
    assert 0.015 < (covered < coverage.least).mean() < 0.035
    assert (covered < 0.9).mean() > 0.3  # what the sets aim at, so many miss


def test_the_capital_is_the_mean_of_all_gamblers():
    random = np.random.default_rng(0)
    gains = random.normal(0, 0.3, (len(SHARES), 12))
    period = np.sort(random.integers(0, 6, 12))
    by_hand = [
        [gains[share, : n + 1][period[: n + 1] >= start].sum() for share in range(len(SHARES))]
        for n in range(12)
        for start in range(6)
    ]
    expected = np.log(np.exp(np.array(by_hand).reshape(12, -1)).mean(axis=1))
    assert log_capital(gains, period) == pytest.approx(expected)


@pytest.mark.parametrize(("below", "above"), [(40, 40), (400, 20), (30, 200)])
def test_a_bet_is_fair_whoever_was_followed_up_and_is_not_without_weights(below, above):
    """All outcomes that may come of it, given how many came: a product of two binomial distributions."""
    answered, outcomes = np.array([900, 0, 300, 0]), np.array([below, 0, above, 0])

    def expected(weights, share):
        factors = []
        for stratum, p in ((0, 0.01), (2, 0.27)):  # 9 missed, 81 found: a sensitivity of 0.9
            x = weights[stratum] * (ABOVE[stratum] - 0.9) / 0.1
            ill = np.arange(outcomes[stratum] + 1)
            factors.append(binom.pmf(ill, outcomes[stratum], p) @ (1 - share * x) ** ill)
        return np.prod(factors)

    weights = follow_up_weights(answered, outcomes)
    fair = [expected(weights, share) for share in SHARES[:, 0]]
    assert max(fair) <= 1 + 1e-12
    assert min(fair) > 0.85  # and it can show something
    if below == 400:
        assert expected(np.ones(4), 0.05) > 4


@pytest.mark.parametrize(
    ("answered", "outcomes", "expected"),
    [
        ([1000, 0, 1000, 0], [500, 0, 50, 0], [0.1, 0, 1, 0]),
        ([500, 100, 200, 50], [40, 2, 20, 10], [1, 1, 0.7, 0.35]),  # a stratum of few with its side
        ([500, 100, 200, 50], [40, 5, 20, 10], [0.625, 1, 0.5, 0.25]),
        ([0, 0, 200, 0], [30, 0, 20, 0], [0, 0, 1, 0]),  # nobody was answered there lately
    ],
)
def test_weights_make_up_for_who_is_followed_up(answered, outcomes, expected):
    found = follow_up_weights(np.array(answered), np.array(outcomes))
    assert found == pytest.approx(np.array(expected))


def test_a_window_ends_with_enough_of_either_side_and_looks_at_the_answers_until_then():
    answered = np.tile([3, 0, 1, 0], (400, 1))
    days = np.arange(300).repeat(2)
    stratum = np.tile([0, 2], 300)
    late = (stratum == 0) & (days < 100)  # nothing is known of this side before
    of = year(days[~late], stratum[~late], True, answered=answered)
    _, ends, weights = windows(of)
    assert ends[:3].tolist() == [100 + LEAST - 1, 100 + 2 * LEAST - 1, 100 + 3 * LEAST - 1]
    assert weights[:2, [0, 2]] == pytest.approx(np.array([[1, LEAST / 3 / (100 + LEAST)], [1, 1 / 3]]))
    more = answered.copy()
    more[ends[-1] + 1 :] = 1000
    assert windows(replace(of, answered=more)).weights == pytest.approx(weights)
    assert windows(of, since=200).last[0] == 200 + LEAST - 1
    long_ago = np.concatenate([np.tile([10**6, 0, 1, 0], (20, 1)), answered])
    old = year(np.arange(360, 400).repeat(2), stratum[:80], True, answered=long_ago, first=date(2024, 2, 10))
    assert windows(old).weights[:, 2] == pytest.approx([0, 1 / 3], abs=1e-3)  # answers of 365 days count


def test_with_one_side_never_followed_up_there_is_no_evidence():
    of = year(np.arange(100), 0, True)
    ends, capital = evidence(of, "sensitivity", 0.9)
    assert (len(ends), len(capital)) == (0, 0)
    one_sided = np.tile([5, 5, 0, 0], (400, 1))
    assert len(windows(replace(of, answered=one_sided)).last) == 5  # the control: nobody was above


def steady(share, days=360, a_day=3, first=date(2025, 1, 1), seed=0):
    """Everybody is followed up at once: malignant lesions alone, so many a day on average."""
    random = np.random.default_rng(seed)
    day = np.sort(np.tile(np.arange(days), a_day))
    found = random.random(len(day)) < (share[day] if isinstance(share, np.ndarray) else share)
    table = np.zeros((days, 4), dtype=np.int64)
    np.add.at(table, (day, 2 * found), 1)
    return year(day, 2 * found, True, answered=table, first=first)


def test_a_version_that_turns_bad_brings_an_alarm_although_all_was_well_for_long():
    ends, capital = evidence(steady(np.where(np.arange(360) < 180, 0.95, 0.6)), "sensitivity", 0.9)
    alarm = ends[np.flatnonzero(capital >= np.log(20))[0]]
    assert 180 <= alarm < 330
    assert evidence(steady(0.95), "sensitivity", 0.9)[1].max() < np.log(20)


def test_a_year_begins_anew_and_leaves_the_one_before_as_it_was():
    day = np.concatenate([np.arange(60), np.arange(355, 425)]).repeat(2)
    of = year(day, np.tile([0, 2], len(day) // 2), day < 365)  # half of them missed, later benign ones
    ends, capital = evidence(of, "sensitivity", 0.9)
    assert ends.tolist() == [19, 39, 59, 384, 404, 424]
    assert capital[2] > capital[1] > capital[0] > 1
    assert capital[3:] == pytest.approx([0, 0, 0])


def test_answers_that_are_forgotten_do_not_rearrange_the_windows_that_are_left():
    """Else a database that forgets each night would be a new test each night."""
    of = steady(0.85, days=1000, first=date(2023, 3, 1))
    new_year = (date(2025, 1, 1) - of.first).days
    ends, capital = evidence(of, "sensitivity", 0.9)
    for forgotten in (100, 270):  # 730 days are left
        left = of.arrived >= forgotten
        rest = replace(
            of,
            first=of.first + timedelta(days=forgotten),
            answered=of.answered[forgotten:],
            arrived=of.arrived[left] - forgotten,
            **{name: getattr(of, name)[left] for name in ("stratum", "known", "malignant", "in_set")},
        )
        later_ends, later = evidence(rest, "sensitivity", 0.9)
        this_year = later_ends + forgotten >= new_year
        assert (later_ends[this_year] + forgotten).tolist() == ends[ends >= new_year].tolist()
        assert later[this_year] == pytest.approx(capital[ends >= new_year])


def test_gamblers_begin_with_the_calendars_months():
    """The same outcomes later in the year: those who began before have their whole capital until then."""
    bad = steady(0.6, days=40, a_day=20)
    early = evidence(bad, "sensitivity", 0.9)[1]
    late = evidence(replace(bad, first=date(2025, 1, 1) + timedelta(5 * PERIOD_DAYS)), "sensitivity", 0.9)[1]
    assert late[-1] > early[-1] + 1


def test_the_order_within_a_file_does_not_count():
    day = np.arange(4).repeat(100) * 91
    one, other = (np.tile(hit, 4) for hit in (np.arange(100) >= 30, np.arange(100) < 70))
    found = [evidence(year(day, 2 * hit, True), "sensitivity", 0.9)[1] for hit in (one, other)]
    assert found[0] == pytest.approx(found[1])


def test_a_corrected_or_withdrawn_outcome_moves_no_window():
    of = draw_year(np.random.default_rng(1), "in a file a week", a_day=100).monitored
    random = np.random.default_rng(2)
    changed = replace(
        of,
        known=random.random(len(of.known)) < 0.7,
        malignant=of.malignant ^ (random.random(len(of.known)) < 0.3),
    )
    assert windows(changed).last.tolist() == windows(of).last.tolist()
    assert len(windows(of).last) > 5


def test_of_a_window_whose_outcomes_of_a_side_were_withdrawn_nothing_is_held_against_a_version():
    """A laboratory withdraws its file: the missed lesions that are left say nothing without those found."""
    of = year([3] * 60, [0] * 30 + [2] * 30, True, known=[True] * 30 + [False] * 30)
    assert evidence(of, "sensitivity", 0.9)[1].tolist() == [pytest.approx(0)]
    assert evidence(replace(of, known=of.stratum == 0), "coverage", 0.9)[1].tolist() == [pytest.approx(0)]
    assert evidence(replace(of, known=of.arrived == 3), "sensitivity", 0.9)[1][0] > 1  # the control


YEARS = 60


LOTS = "in late lots, with corrections"


@pytest.mark.parametrize("arrival", mostly_long(ARRIVALS, "in a file a quarter", LOTS))
def test_intervals_and_alarms_hold_however_outcomes_arrive(arrival):
    """Each file is looked at. Of 60 years of a version as good as its target, three at most are expected."""
    accused = caught = covered = seen = 0
    for number in range(YEARS):
        random = np.random.default_rng([number, len(arrival)])
        drawn = {
            kept: draw_year(random, arrival, a_day=60, sensitivity=share, malignant_share=0.2)
            for kept, share in ((True, 0.9), (False, 0.6))
        }
        looks = range(27, 365, 28) if "lots" in arrival else [364]
        alarm = {
            kept: any(
                (evidence(one.on(day), "sensitivity", 0.9)[1] >= np.log(20)).any() for day in (*looks, 364)
            )
            for kept, one in drawn.items()
        }
        accused, caught = accused + alarm[True], caught + alarm[False]
        found = metrics(drawn[True].on(364)).sensitivity
        covered += found.corrected.interval[0] <= 0.9 <= found.corrected.interval[1]
        seen += found.seen.interval[0] <= 0.9 <= found.seen.interval[1]
    assert accused <= 7
    assert caught > YEARS / 2
    assert covered >= 0.9 * YEARS
    assert seen < 0.7 * YEARS  # the control: without the correction


def test_without_corrections_looking_at_each_file_is_looking_at_its_end():
    drawn = draw_year(np.random.default_rng(3), "in a file a quarter", a_day=100, malignant_share=0.2)
    ends, capital = evidence(drawn.on(364), "sensitivity", 0.9)
    for day in range(91, 365, 91):
        then, value = evidence(drawn.on(day), "sensitivity", 0.9)
        assert then.tolist() == ends[ends <= day].tolist()
        assert value == pytest.approx(capital[ends <= day])
