"""Noise on counts: its distribution, its (ε, δ), and what a client's account allows."""

from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import erfc, exp, sqrt
from random import Random

import numpy as np
import pytest
import torch
from scipy import stats

from tests.thorough import mostly_long
from tests.training.privacy.conftest import MemoryStore, bare_client
from training.errors import MessageError
from training.messages import Broadcast, request_digest
from training.privacy.noisy_counts import (
    ANSWER,
    delta_of,
    discrete_gaussian,
    earlier_answer,
    epsilon_of,
    rho_of,
    rho_of_units,
    spend,
    spent_on,
    variance_for,
)

COUNT = 20_000


def probabilities(variance, farthest):
    """P(x) of N_Z(0, σ²) for |x| ≤ farthest."""
    x = np.arange(-farthest, farthest + 1)
    weight = np.exp(-(x**2) / (2 * float(variance)))
    return x, weight / weight.sum()


@pytest.mark.parametrize(
    "variance", [Fraction(1, 16), Fraction(1, 2), Fraction(1), Fraction(43, 8), Fraction(100)]
)
def test_draws_have_the_probabilities(variance):
    drawn = discrete_gaussian(variance, COUNT, Random(3).randrange)
    x, exact = probabilities(variance, 60 + int(10 * float(variance) ** 0.5))
    expected = COUNT * exact
    inner = expected >= 5
    seen = np.array([(drawn == each).sum() for each in x[inner]])
    tail, rest = COUNT - seen.sum(), COUNT - expected[inner].sum()
    statistic = ((seen - expected[inner]) ** 2 / expected[inner]).sum() + (tail - rest) ** 2 / max(rest, 1.0)
    assert statistic < stats.chi2.ppf(0.999, inner.sum())


def test_another_variance_would_be_seen():
    """The control: draws of a variance a tenth too small do not pass for those of the right one."""
    drawn = discrete_gaussian(Fraction(9), COUNT, Random(3).randrange)
    x, exact = probabilities(Fraction(10), 80)
    expected = COUNT * exact
    inner = expected >= 5
    seen = np.array([(drawn == each).sum() for each in x[inner]])
    assert ((seen - expected[inner]) ** 2 / expected[inner]).sum() > stats.chi2.ppf(0.999, inner.sum())


def test_nobody_foresees_a_draw(monkeypatch):
    monkeypatch.setattr("random.random", None)
    monkeypatch.setattr("numpy.random.default_rng", None)
    first, second = (discrete_gaussian(Fraction(400), 200) for _ in range(2))
    assert (first != second).any()


def test_rho_by_hand():
    # Δ² = 2: two cells change by 1. Three parts with noise of variance 12 cost 3 · 2 / (2 · 12).
    assert rho_of_units(3, 12.0) == pytest.approx(0.25)
    assert rho_of_units(3, 4.0, sharers=3) == pytest.approx(0.25)  # three hospitals add a third each
    assert rho_of_units(3, 4.0) == pytest.approx(0.75)  # and what one of them has alone


@pytest.mark.parametrize("rho", [0.01, 0.2, 2.0])
def test_epsilon_is_that_of_another_library(rho):
    rdp = pytest.importorskip("opacus.accountants.analysis.rdp")
    orders = np.concatenate([1 + np.geomspace(0.01, 10, 400), np.arange(12, 2000, 0.5)])
    epsilon, _ = rdp.get_privacy_spent(orders=orders, rdp=rho * orders, delta=1e-5)
    assert epsilon_of(rho, 1e-5) == pytest.approx(epsilon, rel=1e-3)


def test_delta_covers_what_gaussian_noise_discloses():
    """Balle and Wang 2018, Theorem 8: the exact δ of normal noise, which no valid account is below."""

    def normal(x):
        return erfc(-x / sqrt(2)) / 2

    for rho in (0.05, 0.5, 2.0):
        change = sqrt(2 * rho)  # Δ / σ
        for epsilon in (0.5, 1.0, 4.0):
            exact = normal(change / 2 - epsilon / change) - exp(epsilon) * normal(
                -change / 2 - epsilon / change
            )
            assert exact <= delta_of(rho, epsilon) < max(30 * exact, 1e-6)


def discrete(variance, farthest=400):
    x = np.arange(-farthest, farthest + 1)
    weight = np.exp(-(x**2) / (2 * variance))
    return weight / weight.sum()


@pytest.mark.parametrize(
    ("epsilon", "sharers"),
    mostly_long(product([1.0, 4.0, 8.0], [1, 3, 5]), (1.0, 1), (4.0, 3), (8.0, 5)),
)
def test_what_is_added_discloses_no_more_than_promised(sharers, epsilon):
    """The exact δ of the sum of shares: one count in two cells, whose change is seen in both."""
    delta = 1e-5
    variance = variance_for(1, epsilon, delta, sharers)
    one = discrete(float(variance))
    summed = one
    for _ in range(sharers - 1):
        summed = np.convolve(summed, one)
    changed = np.roll(summed, 1)
    both = np.outer(summed, summed), np.outer(changed, np.roll(summed, -1))
    disclosed = np.maximum(both[1] - exp(epsilon) * both[0], 0).sum()
    assert disclosed <= delta
    # And noise of a third of it would disclose more: the account is not idle.
    less = np.outer(*(2 * [discrete(float(variance) * sharers / 3)]))
    moved = np.roll(np.roll(less, 1, axis=0), -1, axis=1)
    assert np.maximum(moved - exp(epsilon) * less, 0).sum() > delta


def test_the_variance_is_the_least_in_sixteenths():
    variance = variance_for(6, 1.0, 1e-5)
    assert variance.denominator in (1, 2, 4, 8, 16)
    assert epsilon_of(rho_of_units(6, float(variance)), 1e-5) <= 1.0
    assert epsilon_of(rho_of_units(6, float(variance - Fraction(1, 16))), 1e-5) > 1.0
    assert rho_of(1.0, 1e-5) == pytest.approx(6 / float(variance), rel=1e-3)


QUESTION = Broadcast(
    "north", "0-federate", 2, "evaluate", "global", {"w": torch.ones(3)}, {"split": "validation"}
)
TOLD = {"confusion/light": torch.tensor([[3, -1], [0, 5]])}


@pytest.fixture
def client():
    return bare_client("north", MemoryStore())


@pytest.mark.parametrize(
    "other",
    [
        replace(QUESTION, round=3),
        replace(QUESTION, track="light"),
        replace(QUESTION, options={"split": "test"}),
        replace(QUESTION, tensors={"w": torch.tensor([1.0, 1.0, 1.0000001])}),
        replace(QUESTION, tensors={"w": torch.ones(3, 1)}),
    ],
)
def test_a_question_is_every_byte_of_it(other):
    for_south = replace(QUESTION, client="south", tensors={"w": torch.ones(3)})
    assert request_digest(for_south) == request_digest(QUESTION)
    assert request_digest(other) != request_digest(QUESTION)


def test_an_answer_is_kept_and_paid_for_once(client):
    asked = request_digest(QUESTION)
    assert earlier_answer(client, asked) is None
    spend(client, asked, "validation", ["light", "dark"], 2, 5, TOLD)
    assert torch.equal(earlier_answer(client, asked)["confusion/light"], TOLD["confusion/light"])
    assert sum(spent_on(client, "validation", "dark").values()) == 2
    assert not spent_on(client, "test", "dark")


def test_more_than_planned_is_refused(client):
    spend(client, "a", "test", ["light"], 2, 3, TOLD)
    spend(client, "b", "test", ["dark"], 2, 3, TOLD)  # others' patients
    with pytest.raises(MessageError, match="cost 3 units of noise, 2 are spent and this would cost 2"):
        spend(client, "c", "test", ["dark", "light"], 2, 3, TOLD)
    assert earlier_answer(client, "c") is None
    assert sum(spent_on(client, "test", "dark").values()) == 2  # nothing is charged for what is refused
    spend(client, "d", "test", ["light"], 1, 3, TOLD)


def test_an_account_without_its_answer_is_paid_for_once(client):
    """As a power cut leaves it: what was not told yet may be told."""
    spend(client, "a", "test", ["light"], 2, 2, TOLD)
    del client.store.kept["north", f"{ANSWER}/a"]
    assert earlier_answer(client, "a") is None
    spend(client, "a", "test", ["light"], 2, 2, TOLD)
