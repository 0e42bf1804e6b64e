"""Log-likelihoods over a grid of temperatures: in double precision they were the margins of ten pictures."""

import numpy as np
import pytest

from personalization.calibration.temperature import TEMPERATURES
from tests.attacks.guessing import holds
from tests.attacks.margins import as_before, as_now, draw_margins, found, try_sums

TEN = 10


@pytest.fixture(scope="module")
def tried():
    return try_sums(25, TEN)


def test_before_margins_were_read_from_the_sums(tried):
    before, _, guessed = tried
    assert not holds(before, guessed)
    assert np.mean(before) > TEN / 2


def test_of_rounded_sums_no_more_are_read_than_guessed(tried):
    _, now, guessed = tried
    assert holds(now, guessed)


def only_wrong(rng):
    """Margins of ten pictures of which one is answered wrongly, that one first."""
    while True:
        margins = np.sort(draw_margins(rng, TEN))
        if (margins < 0).sum() == 1:
            return margins


def test_the_one_wrong_answer_is_not_told_by_the_coldest_sums():
    """At T → 0 the sum is −Σ max(0, −m) / T: of one wrong answer, its margin.

    Rounded, it is named in one of nine such hospitals; who says that it was nearly right, in one of fifty.
    """
    rng = np.random.default_rng(4)
    read = {as_before: 0, as_now: 0}
    guessed = 0
    for _ in range(1000):
        margins = only_wrong(rng)
        for told in read:
            read[told] += found(told(margins)[:1] * TEMPERATURES[0], margins[:1])
        guessed += found(np.array([-0.01]), margins[:1])
    assert read[as_before] > 700
    assert read[as_now] <= guessed + 100


def test_the_difference_to_one_picture_of_each_lesion_does_not_tell_the_other():
    """The control is asked for both sums; today's are of one population, and rounded besides."""
    rng = np.random.default_rng(5)
    usual = np.median(draw_margins(rng, 1000))
    read = {as_before: 0, as_now: 0}
    guessed = 0
    at_one = int(np.abs(TEMPERATURES - 1).argmin())
    for _ in range(100):
        margins = draw_margins(rng, TEN)
        for told in read:
            loss = min((told(margins) - told(margins[1:]))[at_one], -1e-9)
            read[told] += found(-np.log(np.expm1([-loss])), margins[:1])
        guessed += found(np.array([usual]), margins[:1])
    assert read[as_before] == 100
    assert read[as_now] <= guessed + 10
