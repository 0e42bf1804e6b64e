"""Evidence against a promise: looked at after every outcome, it still seldom accuses who keeps it."""

import numpy as np
import pytest

from registry.outcomes.monitoring import (
    LEAST,
    SHARES,
    KnownOutcomes,
    Windows,
    follow_up_weights,
    kept_promise,
    log_capital,
    log_gains,
    watch,
    windows,
)

SIDES = np.array([False, True])


def capital_by_hand(x, most, step, period):
    """Each gambler by themselves."""
    told = []
    for n in range(1, len(period) + 1):
        gamblers = []
        for share in SHARES:
            for start in range(5):
                betting = [i for i in range(len(x)) if step[i] < n and period[step[i]] >= start]
                gamblers.append(np.prod([1 - share * x[i] / most for i in betting]))
        told.append(np.mean(gamblers))
    return np.log(told)


def test_the_capital_is_the_mean_of_all_gamblers():
    random = np.random.default_rng(0)
    x = random.uniform(-0.8, 0.2, 40)
    step = random.integers(0, 12, 40)
    period = np.sort(random.integers(0, 5, 12))
    found = log_capital(log_gains(x, 0.2, step, 12), period, 5)
    assert found == pytest.approx(capital_by_hand(x, 0.2, step, period))


def test_capital_is_never_expected_to_grow_while_the_promise_holds():
    # Both values of X, weighed by their probabilities, for any capital before.
    for share in (0.1, 0.5, 0.9):
        for promised in (0.5, 0.85, 0.99):
            (hit, missed), most = kept_promise(np.array([True, False]), np.ones(2), promised)
            expected = promised * log_of(hit, most, share) + (1 - promised) * log_of(missed, most, share)
            assert expected <= 1 + 1e-12


@pytest.mark.parametrize("confirmed", [(40, 40), (400, 20), (30, 200)])
def test_a_bet_of_a_window_is_fair_whoever_was_followed_up(confirmed):
    """All that may come of it, given how many were followed up: a product of two binomial distributions."""
    weights = follow_up_weights(np.array([900, 300]), np.array(confirmed), SIDES)
    assert max(expected_of_a_bet(weights, share, confirmed) for share in SHARES) <= 1 + 1e-12
    assert min(expected_of_a_bet(weights, share, confirmed) for share in SHARES) > 0.85  # and tells something


def test_without_weights_bets_accuse_the_innocent_or_tell_nothing():
    assert expected_of_a_bet(np.ones(2), 0.05, (400, 20)) > 4
    assert expected_of_a_bet(np.ones(2), 0.05, (30, 200)) < 0.1


def expected_of_a_bet(weights, share, confirmed):
    malignant = np.array([0.01, 0.27])  # of 900 and 300: 9 missed, 81 called, a sensitivity of 0.9
    x, most = kept_promise(SIDES, weights, 0.9)
    return np.prod((1 - malignant * share * x / most) ** np.array(confirmed))


def log_of(x, most, share):
    return 1 - share * x / most


def test_what_cannot_be_bet_on_is_refused():
    with pytest.raises(ValueError, match="above the bound"):
        log_gains(np.array([0.3]), 0.2, np.array([0]), 1)
    with pytest.raises(ValueError, match="order of their periods"):
        log_capital(np.zeros((4, 2)), np.array([1, 0]), 2)
    with pytest.raises(ValueError, match="between 0 and 1"):
        kept_promise(np.array([True]), np.ones(1), 1.0)


def daily(day, hit):
    """Outcomes of one stratum, and a window for each day."""
    closed_on = np.unique(day)
    known = KnownOutcomes(day, np.zeros(len(day), dtype=np.int64), hit)
    return known, Windows(closed_on, np.ones((len(closed_on), 2)))


def drawn(random, n, share):
    return daily(np.sort(random.integers(0, 365, n)), random.random(n) < share)


def test_a_kept_promise_is_seldom_accused_and_a_broken_one_is_told():
    random = np.random.default_rng(2)
    kept = [watch(*drawn(random, 400, 0.9), 0.9, 0.05).alarm_on for _ in range(300)]
    broken = [watch(*drawn(random, 400, 0.7), 0.9, 0.05).alarm_on for _ in range(100)]
    assert sum(day is not None for day in kept) <= 25  # 15 at most are expected, deviation 3.8
    assert sum(day is not None for day in broken) >= 95


def test_a_release_that_turns_bad_is_told_although_all_was_well_for_long():
    random = np.random.default_rng(3)
    day = np.arange(365).repeat(3)
    hit = random.random(len(day)) < np.where(day < 180, 0.95, 0.7)
    found = watch(*daily(day, hit), 0.9, 0.05)
    assert found.alarm_on is not None
    assert found.alarm_on >= 180


def test_weights_make_up_for_who_is_followed_up():
    # 1,000 of either stratum; 500 of one are followed up, 50 of the other, which counts ten times as much.
    assert follow_up_weights(np.array([1000, 1000]), np.array([500, 50]), SIDES) == pytest.approx([0.1, 1])


def test_a_stratum_of_few_outcomes_is_weighed_with_its_side():
    sides = np.array([False, False, True, True])
    weights = follow_up_weights(np.array([500, 100, 200, 50]), np.array([40, 2, 20, 10]), sides)
    assert weights == pytest.approx(np.array([600 / 42, 600 / 42, 10, 5]) / (600 / 42))


def test_a_window_closes_with_enough_of_either_side_and_looks_at_the_answers_until_then():
    answered = np.tile([3, 1], (400, 1))
    known_on = np.arange(400).repeat(2)
    stratum = np.tile([0, 1], 400)
    late = (stratum == 0) & (known_on < 100)  # of this side nothing is known before
    found = windows(answered, known_on[~late], stratum[~late], SIDES)
    assert found.closed_on[:3].tolist() == [100 + LEAST - 1, 100 + 2 * LEAST - 1, 100 + 3 * LEAST - 1]
    assert found.weights[0] == pytest.approx([1, (LEAST / 3) / (100 + LEAST)])
    assert found.weights[1] == pytest.approx([1, 1 / 3])
    more = np.tile([3, 1], (500, 1))
    more[400:] = 1000
    assert windows(more, known_on[~late], stratum[~late], SIDES).weights == pytest.approx(found.weights)


def test_where_one_side_is_never_followed_up_nothing_is_held_against_anybody():
    found = windows(np.full((100, 2), 5), np.arange(100), np.zeros(100, dtype=np.int64), SIDES)
    assert not len(found.closed_on)
    known = KnownOutcomes(np.arange(100), np.zeros(100, dtype=np.int64), np.zeros(100, dtype=np.bool_))
    assert watch(known, found, 0.9, 0.05).alarm_on is None


def test_a_year_that_is_over_says_what_it_said():
    random = np.random.default_rng(4)
    day = np.arange(365).repeat(2)
    hit = random.random(len(day)) < 0.7
    both = daily(np.concatenate([day, day + 365]), np.concatenate([hit, np.ones(len(day), dtype=np.bool_)]))
    one, two = watch(*daily(day, hit), 0.9, 0.05), watch(*both, 0.9, 0.05)
    assert one.alarm_on is not None
    assert two.alarm_on == one.alarm_on
    assert two.evidence[:365] == pytest.approx(one.evidence)
    assert two.evidence[-1] < 0


def test_the_order_within_a_file_counts_for_nothing():
    """Of a file that holds a quarter, all that was missed may stand first."""
    day = np.arange(4).repeat(100) * 91
    hit = np.tile(np.arange(100) >= 8, 4)  # 0.92, and the missed ones first
    turned = np.tile(np.arange(100) < 92, 4)
    one, two = (watch(*daily(day, each), 0.9, 0.05) for each in (hit, turned))
    assert one.alarm_on is None
    assert one.evidence == pytest.approx(two.evidence)
