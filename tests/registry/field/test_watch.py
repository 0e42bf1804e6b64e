"""Evidence against a promise: looked at after every outcome, it still seldom accuses who keeps it."""

import numpy as np
import pytest

from registry.field.e_process import SHARES, log_capital
from registry.field.promises import follow_up_weights, kept_promise
from registry.field.watch import MATURE_DAYS, KnownOutcomes, watch, weights_by_day


def capital_by_hand(x, most, period, periods):
    """Each gambler by themselves."""
    told = []
    for n in range(1, len(x) + 1):
        gamblers = []
        for share in SHARES:
            for start in range(periods):
                factors = [1 - share * x[i] / most for i in range(n) if period[i] >= start]
                gamblers.append(np.prod(factors))
        told.append(np.mean(gamblers))
    return np.log(told)


def test_the_capital_is_the_mean_of_all_gamblers():
    random = np.random.default_rng(0)
    x = random.uniform(-0.8, 0.2, 40)
    period = np.sort(random.integers(0, 5, 40))
    assert log_capital(x, 0.2, period, 5) == pytest.approx(capital_by_hand(x, 0.2, period, 5))


def test_capital_is_never_expected_to_grow_while_the_promise_holds():
    # Both values of X, weighed by their probabilities, for any capital before.
    for share in (0.1, 0.5, 0.9):
        for promised in (0.5, 0.85, 0.99):
            (hit, missed), most = kept_promise(np.array([True, False]), np.ones(2), promised)
            expected = promised * log_of(hit, most, share) + (1 - promised) * log_of(missed, most, share)
            assert expected <= 1 + 1e-12


def log_of(x, most, share):
    return 1 - share * x / most


def test_what_cannot_be_bet_on_is_refused():
    with pytest.raises(ValueError, match="above the bound"):
        log_capital(np.array([0.3]), 0.2, np.array([0]), 1)
    with pytest.raises(ValueError, match="order of their periods"):
        log_capital(np.array([0.1, 0.1]), 0.2, np.array([1, 0]), 2)
    with pytest.raises(ValueError, match="between 0 and 1"):
        kept_promise(np.array([True]), np.ones(1), 1.0)


def outcomes(random, n, share):
    day = np.sort(random.integers(0, 365, n))
    return KnownOutcomes(day, day, np.zeros(n, dtype=np.int64), random.random(n) < share)


def test_a_kept_promise_is_seldom_accused_and_a_broken_one_is_told():
    random = np.random.default_rng(2)
    kept = [watch(outcomes(random, 400, 0.9), None, 0.9, 0.05).alarm_on for _ in range(300)]
    broken = [watch(outcomes(random, 400, 0.7), None, 0.9, 0.05).alarm_on for _ in range(100)]
    assert sum(day is not None for day in kept) <= 25  # 15 at most are expected, deviation 3.8
    assert sum(day is not None for day in broken) >= 95


def test_a_release_that_turns_bad_is_told_although_all_was_well_for_long():
    random = np.random.default_rng(3)
    day = np.arange(365).repeat(3)
    hit = random.random(len(day)) < np.where(day < 180, 0.95, 0.7)
    found = watch(KnownOutcomes(day, day, np.zeros(len(day), dtype=np.int64), hit), None, 0.9, 0.05)
    assert found.alarm_on is not None
    assert found.alarm_on >= 180


def test_weights_make_up_for_who_is_followed_up():
    # 1,000 of either stratum; 500 of one are followed up, 50 of the other, which counts ten times as much.
    weights = follow_up_weights(np.array([1000, 1000]), np.array([500, 50]))
    assert weights == pytest.approx([51 / 501, 1])


def test_a_weight_knows_nothing_of_its_own_day_and_later():
    answered = np.full((400, 2), 10)
    day = np.arange(0, 200)
    before = weights_by_day(answered, day, day + 30, day % 2)
    later = np.concatenate([day, np.full(50, 250)])
    known = np.concatenate([day + 30, np.full(50, 260)])
    stratum = np.concatenate([day % 2, np.zeros(50, dtype=np.int64)])
    after = weights_by_day(answered, later, known, stratum)
    assert before[: 250 + MATURE_DAYS] == pytest.approx(after[: 250 + MATURE_DAYS])
    assert not np.allclose(before[-1], after[-1])


def test_a_year_that_is_over_says_what_it_said():
    random = np.random.default_rng(4)
    day = np.arange(365).repeat(2)
    first = KnownOutcomes(day, day, np.zeros(len(day), dtype=np.int64), random.random(len(day)) < 0.7)
    more = np.concatenate([day, day + 365])
    good = np.concatenate([first.hit, np.ones(len(day), dtype=np.bool_)])
    both = KnownOutcomes(more, more, np.zeros(len(more), dtype=np.int64), good)
    one, two = (watch(each, None, 0.9, 0.05) for each in (first, both))
    assert one.alarm_on is not None
    assert two.alarm_on == one.alarm_on
    assert two.evidence[:365] == pytest.approx(one.evidence)
    assert two.evidence[-1] < 0


def test_the_order_within_a_file_counts_for_nothing():
    """Of a file that holds a quarter, all that was missed may stand first; there is one bet for each file."""
    day = np.arange(4).repeat(100) * 91
    hit = np.tile(np.arange(100) >= 8, 4)  # 0.92, and the missed ones first
    for order in (slice(None), slice(None, None, -1)):
        file = KnownOutcomes(day, day, np.zeros(400, dtype=np.int64), hit[order])
        assert watch(file, None, 0.9, 0.05).alarm_on is None
