"""q-FedAvg against Algorithm 2 of Li et al. 2020, written out with the models' vectors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from training.algorithms.aggregators.base import Circumstances, Report
from training.algorithms.aggregators.fedequal import FedEqual
from training.algorithms.aggregators.qffl import QFFL

RATE = 0.05
THETA = np.array([1.0, -2.0, 0.5])
TRAINED = {"a": np.array([0.9, -1.7, 0.6]), "b": np.array([1.4, -2.1, 0.1]), "c": np.array([-0.5, -2.0, 2.5])}
LOSSES = {"a": 0.3, "b": 1.9, "c": 0.7}
HELD = {"a": 5, "b": 80, "c": 15}


def report(name, held=None, losses=None):
    held = held or {f"tone {name}": HELD[name]}
    losses = losses or {f"tone {name}": LOSSES[name]}
    change = float(((THETA - TRAINED[name]) ** 2).sum())
    # The loss over the last epoch is another one and must not be read.
    return Report(name, held, dict.fromkeys(held, 99.0), losses, change)


REPORTS = [report(name) for name in "abc"]
MIXED = [
    report("a", {"light": 30, "dark": 10}, {"light": 0.2, "dark": 2.0}),
    report("b", {"dark": 50}, {"dark": 1.0}),
    report("c", {"light": 10, "undeclared": 4}, {"light": 1.0, "undeclared": 0.7}),
]


def settled(unit="client", **given_settings):
    circumstances = Circumstances(tuple("abc"), ("light", "dark"), True, RATE)
    return QFFL(unit=unit, **given_settings).for_job(circumstances)


def applied(mixture):
    """θ^{t+1} of a mixture."""
    moved = mixture.previous * THETA
    for name, weight in mixture.clients.items():
        moved = moved + weight * TRAINED[name]
    return moved


def paper(q, lipschitz, names="abc"):
    """θ^t − Σ Δ_k / Σ h_k, term by term."""
    step, total = np.zeros(3), 0.0
    for name in names:
        loss = LOSSES[name] + 1e-10
        delta_w = lipschitz * (THETA - TRAINED[name])
        step += np.float_power(loss, q) * delta_w
        total += q * np.float_power(loss, q - 1) * (delta_w**2).sum() + lipschitz * np.float_power(loss, q)
    return THETA - step / total


@pytest.mark.parametrize("q", [0, 0.3, 1, 5])
@pytest.mark.parametrize("lipschitz", [None, 3.0])
def test_three_clients_move_the_model_as_algorithm_2_does(q, lipschitz):
    mixture, state = settled(q=q, lipschitz=lipschitz).weigh(REPORTS, {})
    np.testing.assert_allclose(applied(mixture), paper(q, lipschitz or 1 / RATE), rtol=1e-12)
    assert state == {}


def test_one_client_with_numbers_that_can_be_checked_in_the_head():
    """F = 2, q = 1, Lip = 4, ‖θ − θ_k‖² = 1/8: ‖Δw‖² = 2, h = 2 + 8 = 10, and θ_k weighs 8/10."""
    alone = Report("a", {"light": 3}, {}, {"light": 2.0}, 0.125)
    mixture, _ = settled(q=1, lipschitz=4).weigh([alone], {})
    assert mixture.clients == pytest.approx({"a": 0.8}, rel=1e-9)
    assert mixture.previous == pytest.approx(0.2, rel=1e-9)


def test_subgroups_are_the_formula_with_means_over_those_who_hold_them():
    q, lipschitz = 2.0, 1 / RATE
    shares = {
        "light": {"a": 30 / 40, "c": 10 / 40},
        "dark": {"a": 10 / 60, "b": 50 / 60},
        "undeclared": {"c": 1.0},
    }
    losses = {"light": (30 * 0.2 + 10 * 1.0) / 40, "dark": (10 * 2.0 + 50 * 1.0) / 60, "undeclared": 0.7}
    step, total = np.zeros(3), 0.0
    for name, held in shares.items():
        loss = losses[name] + 1e-10
        changes = {client: lipschitz * (THETA - TRAINED[client]) for client in held}
        step += loss**q * sum(share * changes[client] for client, share in held.items())
        bound = sum(share * (changes[client] ** 2).sum() for client, share in held.items())
        exact = (sum(share * changes[client] for client, share in held.items()) ** 2).sum()
        assert bound >= exact
        total += q * loss ** (q - 1) * bound + lipschitz * loss**q
    mixture, _ = settled("subgroup", q=q).weigh(MIXED, {})
    np.testing.assert_allclose(applied(mixture), THETA - step / total, rtol=1e-12)


@pytest.mark.parametrize("unit", ["client", "subgroup"])
def test_with_q_zero_it_is_fedequal(unit):
    mixture, _ = settled(unit, q=0).weigh(MIXED, {})
    equal, _ = FedEqual(unit=unit).weigh(MIXED, {})
    assert mixture.clients == pytest.approx(equal.clients, rel=1e-12)
    assert mixture.previous == pytest.approx(0, abs=1e-12)


def test_a_larger_q_gives_the_worst_served_a_larger_part_of_the_step():
    parts = []
    for q in (0, 1, 5):
        clients = settled(q=q).weigh(REPORTS, {})[0].clients
        parts.append(clients["b"] / sum(clients.values()))
    assert parts == sorted(parts)
    assert parts[-1] > 0.99


def test_those_who_did_not_answer_are_not_in_the_sums():
    mixture, _ = settled(q=1).weigh([REPORTS[0], REPORTS[2]], {})
    np.testing.assert_allclose(applied(mixture), paper(1, 1 / RATE, "ac"), rtol=1e-12)


def test_the_default_of_lip_is_one_over_the_learning_rate_and_the_unit_follows_the_job():
    assert settled().lipschitz == 1 / RATE
    assert settled(lipschitz=7.0).lipschitz == 7.0
    assert QFFL().for_job(Circumstances(("a",), (), False, RATE)).unit == "client"
    assert QFFL().for_job(Circumstances(("a",), ("light",), True, RATE)).unit == "subgroup"


def test_losses_of_zero_and_losses_whose_power_overflows_are_no_trouble():
    still = [Report(name, {"light": 5}, {}, {"light": 0.0}, 0.25) for name in "ab"]
    mixture, _ = settled(q=1).weigh(still, {})
    # h = ‖Δw‖² + Lip F with F = 1e-10: all but nothing moves.
    assert mixture.clients["a"] == pytest.approx(20 * 1e-10 / (2 * (400 * 0.25)), rel=1e-6)
    loud = [Report(name, {"light": 5}, {}, {"light": loss}, 1e-3) for name, loss in (("a", 1e90), ("b", 1.0))]
    assert settled(q=5).weigh(loud, {})[0].clients == pytest.approx({"a": 1.0, "b": 0.0})


finite = st.floats(0, 1e6)


@given(
    numbers=st.lists(st.tuples(st.integers(1, 10_000), finite, finite), min_size=1, max_size=6),
    q=st.floats(0, 8),
    lipschitz=st.floats(1e-3, 1e6),
)
def test_the_next_model_lies_between_the_last_one_and_the_clients(numbers, q, lipschitz):
    reports = [
        Report(f"client {place}", {"light": n}, {}, {"light": loss}, change)
        for place, (n, loss, change) in enumerate(numbers)
    ]
    mixture, _ = settled(q=q, lipschitz=lipschitz).weigh(reports, {})
    assert all(weight >= 0 for weight in mixture.clients.values())
    assert mixture.previous >= 0
    assert sum(mixture.clients.values()) + mixture.previous == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("wrong", [{"q": -0.1}, {"lipschitz": 0}])
def test_settings_without_a_meaning_are_refused(wrong):
    with pytest.raises(ValidationError, match="greater than"):
        QFFL(**wrong)
