"""q-FFL, AFL and group DRO against their equations."""

from itertools import combinations
from math import exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from training.algorithms.aggregators.base import JobContext, Report
from training.algorithms.aggregators.weighting import AFL, QFFL, FedAuto, GroupDRO, project
from training.errors import JobError

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
    context = JobContext(tuple("abc"), ("light", "dark"), True, RATE)
    return QFFL(unit=unit, **given_settings).for_job(context)


def applied(aggregation):
    """θ^{t+1} of a mixture."""
    moved = aggregation.previous * THETA
    for name, weight in aggregation.clients.items():
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
    aggregation, state = settled(q=q, lipschitz=lipschitz).aggregate(REPORTS, {})
    np.testing.assert_allclose(applied(aggregation), paper(q, lipschitz or 1 / RATE), rtol=1e-12)
    assert state == {}


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
    aggregation, _ = settled("subgroup", q=q).aggregate(MIXED, {})
    np.testing.assert_allclose(applied(aggregation), THETA - step / total, rtol=1e-12)


def test_losses_of_zero_and_losses_whose_power_overflows_are_no_trouble():
    still = [Report(name, {"light": 5}, {}, {"light": 0.0}, 0.25) for name in "ab"]
    aggregation, _ = settled(q=1).aggregate(still, {})
    # h = ‖Δw‖² + Lip F with F = 1e-10: all but nothing moves.
    assert aggregation.clients["a"] == pytest.approx(20 * 1e-10 / (2 * (400 * 0.25)), rel=1e-6)
    loud = [Report(name, {"light": 5}, {}, {"light": loss}, 1e-3) for name, loss in (("a", 1e90), ("b", 1.0))]
    assert settled(q=5).aggregate(loud, {})[0].clients == pytest.approx({"a": 1.0, "b": 0.0})


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
    aggregation, _ = settled(q=q, lipschitz=lipschitz).aggregate(reports, {})
    assert all(weight >= 0 for weight in aggregation.clients.values())
    assert aggregation.previous >= 0
    assert sum(aggregation.clients.values()) + aggregation.previous == pytest.approx(1, rel=1e-12)


def reports(held="abc", **losses):
    """Clients of one subgroup each; the losses of their last epoch are others and must not be read."""
    sizes = {"a": 5, "b": 80, "c": 15}
    return [
        Report(name, {f"tone {name}": sizes[name]}, {f"tone {name}": 99.0}, {f"tone {name}": losses[name]})
        for name in held
    ]


def settled_afl(step_size=0.5, unit="client", clients=("a", "b", "c"), subgroups=("light", "dark")):
    return AFL(unit=unit, step_size=step_size).for_job(JobContext(clients, subgroups, True, 0.1))


def mixture_of(state):
    return {key.removeprefix("lambda/"): value for key, value in state.items()}


def test_three_rounds_by_hand():
    aggregator = settled_afl(step_size=0.5)
    state = aggregator.initial_state()
    assert state == pytest.approx({"lambda/a": 1 / 3, "lambda/b": 1 / 3, "lambda/c": 1 / 3})

    first, state = aggregator.aggregate(reports(a=0.2, b=0.8, c=0.5), state)
    assert first.clients == pytest.approx({"a": 1 / 3, "b": 1 / 3, "c": 1 / 3})
    assert first.previous == 0
    # 1/3 + (0.1, 0.4, 0.25) sums to 1.75: less 0.25 each.
    assert mixture_of(state) == pytest.approx({"a": 11 / 60, "b": 29 / 60, "c": 20 / 60})

    second, state = aggregator.aggregate(reports(a=0.1, b=1.5, c=0.3), state)
    assert second.clients == pytest.approx({"a": 11 / 60, "b": 29 / 60, "c": 20 / 60})
    # (14, 74, 29)/60 less 19/60 each would leave a below 0; without a, (74 + 29 − 60)/2 = 21.5 off b and c.
    assert mixture_of(state) == pytest.approx({"a": 0, "b": 52.5 / 60, "c": 7.5 / 60}, abs=1e-15)

    third, state = aggregator.aggregate(reports(a=1.0, b=0.0, c=0.0), state)
    assert third.clients == pytest.approx({"a": 0, "b": 52.5 / 60, "c": 7.5 / 60}, abs=1e-15)
    # (30, 52.5, 7.5)/60 sums to 1.5: less 10/60 each would leave c below 0; (30 + 52.5 − 60)/2 = 11.25.
    assert mixture_of(state) == pytest.approx({"a": 18.75 / 60, "b": 41.25 / 60, "c": 0}, abs=1e-15)


def test_who_did_not_answer_keeps_its_share_and_the_others_are_renormalised():
    state = {"lambda/a": 0.2, "lambda/b": 0.5, "lambda/c": 0.3}
    aggregation, after = settled_afl(step_size=0.1).aggregate(reports("ac", a=2.0, c=1.0), state)
    assert aggregation.clients == pytest.approx({"a": 0.4, "c": 0.6})
    # 0.2 + 0.2 and 0.3 + 0.1, less 0.15 each: together 0.5 as before.
    assert mixture_of(after) == pytest.approx({"a": 0.25, "b": 0.5, "c": 0.25})
    assert after["lambda/b"] == 0.5


def test_those_without_any_share_weigh_the_same_when_they_answer_alone():
    state = {"lambda/a": 0.0, "lambda/b": 1.0, "lambda/c": 0.0}
    aggregation, after = settled_afl().aggregate(reports("ac", a=2.0, c=1.0), state)
    assert aggregation.clients == {"a": 0.5, "c": 0.5}
    assert after == state


def test_a_unit_that_nobody_knew_of_enters_with_a_uniform_share():
    aggregation, after = AFL(unit="client", step_size=0).aggregate(
        reports(a=1.0, b=1.0, c=1.0), {"lambda/a": 0.25, "lambda/b": 0.75}
    )
    assert aggregation.clients == pytest.approx({"a": 0.5 / 3, "b": 0.5, "c": 1 / 3})
    assert mixture_of(after) == pytest.approx(aggregation.clients)


def test_subgroups_climb_by_the_mean_loss_over_those_who_hold_them():
    held = [
        Report("north", {"light": 30, "dark": 10}, {}, {"light": 0.2, "dark": 2.0}),
        Report("south", {"dark": 50}, {}, {"dark": 1.0}),
    ]
    aggregator = settled_afl(step_size=0.6, unit="subgroup")
    aggregation, state = aggregator.aggregate(held, aggregator.initial_state())
    assert aggregation.clients == pytest.approx({"north": 0.5 + 0.5 * 10 / 60, "south": 0.5 * 50 / 60})
    light, dark = 0.2, (10 * 2.0 + 50 * 1.0) / 60
    moved = 0.6 * (dark - light) / 2
    assert mixture_of(state) == pytest.approx({"light": 0.5 - moved, "dark": 0.5 + moved})


def nearest_on_simplex(point, mass):
    """The best over all supports of the projection onto the plane through that support."""
    best, distance = None, np.inf
    for size in range(1, len(point) + 1):
        for support in map(list, combinations(range(len(point)), size)):
            candidate = np.zeros(len(point))
            candidate[support] = point[support] - (point[support].sum() - mass) / size
            if candidate.min() >= -1e-12 and ((candidate - point) ** 2).sum() < distance:
                best, distance = candidate, ((candidate - point) ** 2).sum()
    return best


points = st.lists(st.floats(-20, 20), min_size=1, max_size=6)


@given(values=points, mass=st.floats(0.01, 1))
def test_the_projection_is_the_nearest_point_of_the_simplex(values, mass):
    found = project({str(place): value for place, value in enumerate(values)}, mass)
    expected = nearest_on_simplex(np.array(values), mass)
    np.testing.assert_allclose(list(found.values()), expected, atol=2e-6)  # roots of its squares' rounding


A, B, C = "other, light", "malignant, light", "malignant, dark"
HELD_GROUP_DRO = {
    A: {"north": 60, "south": 20},
    B: {"north": 4, "south": 6},
    C: {"north": 0, "south": 10},
    "other, undeclared": {"north": 2, "south": 1},
    "malignant, undeclared": {"north": 0, "south": 0},
}


def settled_group_dro(held=HELD_GROUP_DRO, least=5, **settings):
    return GroupDRO(**settings).for_job(JobContext(("north", "south"), (), True, 0.1, held, least))


def report_group_dro(client, n, **losses):
    told = {{"a": A, "b": B, "c": C}[name]: loss for name, loss in losses.items()}
    return Report(client, {"light": n}, {"light": 99.0}, told)


def q_of(state):
    return {key.removeprefix("q/"): value for key, value in state.items()}


def test_two_rounds_by_hand():
    rule = settled_group_dro(step_size=0.5, adjustment=2.0)
    state = rule.initial_state()
    assert q_of(state) == pytest.approx({A: 1 / 3, B: 1 / 3, C: 1 / 3})
    # 100 pictures are in cells that q is over; 80, 10 and 10 of them.
    assert rule.cell_weights(state) == pytest.approx({A: 100 / 80 / 3, B: 10 / 3, C: 10 / 3})

    told = [report_group_dro("north", 66, a=0.2, b=1.0), report_group_dro("south", 37, a=0.6, b=2.0, c=3.0)]
    aggregation, state = rule.aggregate(told, state)
    # 60 of A, 4 of B and 2 that count 1; 20 of A, 6 of B, 10 of C and 1 that counts 1.
    north, south = (60 / 80 + 4 / 10) * 100 / 3 + 2, (20 / 80 + 6 / 10 + 10 / 10) * 100 / 3 + 1
    assert aggregation.clients == pytest.approx({"north": north / 103, "south": south / 103})
    assert aggregation.previous == 0
    scores = {
        A: exp(0.5 * ((60 * 0.2 + 20 * 0.6) / 80 + 2 / 80**0.5)),
        B: exp(0.5 * ((4 * 1.0 + 6 * 2.0) / 10 + 2 / 10**0.5)),
        C: exp(0.5 * (3.0 + 2 / 10**0.5)),
    }
    expected = {cell: score / sum(scores.values()) for cell, score in scores.items()}
    assert q_of(state) == pytest.approx(expected)
    assert rule.cell_weights(state) == pytest.approx(
        {A: expected[A] * 100 / 80, B: expected[B] * 10, C: expected[C] * 10}
    )

    aggregation, state = rule.aggregate(told, state)
    north = (expected[A] * 60 / 80 + expected[B] * 4 / 10) * 100 + 2
    assert aggregation.clients["north"] == pytest.approx(north / 103)
    scores = {cell: score * expected[cell] for cell, score in scores.items()}
    assert q_of(state) == pytest.approx(
        {cell: score / sum(scores.values()) for cell, score in scores.items()}
    )


def test_a_cell_that_no_client_may_tell_of_is_left_as_it_is():
    rule = settled_group_dro(least=5)
    assert list(q_of(rule.initial_state())) == [A, B, C]
    assert rule.facts(rule.initial_state())["cells"] == {
        A: {"n": 80, "q": 1 / 3},
        B: {"n": 10, "q": 1 / 3},
        C: {"n": 10, "q": 1 / 3},
        "other, undeclared": {"n": 3, "q": None},
    }
    # 4 and 6 pictures of B: south tells of 6 patients, and nobody of 7.
    assert list(q_of(settled_group_dro(least=6).initial_state())) == [A, B, C]
    assert list(q_of(settled_group_dro(least=7).initial_state())) == [A, C]


def test_of_whom_nobody_tells_keeps_its_share_and_the_others_share_theirs():
    rule = settled_group_dro(step_size=1.0)
    state = {"q/" + A: 0.5, "q/" + B: 0.2, "q/" + C: 0.3}
    _, after = rule.aggregate([report_group_dro("north", 66, a=0.0, b=1.0)], state)
    assert after["q/" + C] == 0.3
    a, b = 0.5, 0.2 * exp(1.0)
    assert after["q/" + A] == pytest.approx(0.7 * a / (a + b))
    assert after["q/" + B] == pytest.approx(0.7 * b / (a + b))
    _, silent = rule.aggregate([report_group_dro("north", 66)], state)
    assert silent == state


def test_where_nothing_is_left_of_q_at_those_that_answered_they_count_as_they_hold():
    held = {A: {"north": 30, "south": 0, "west": 10}, B: {"north": 0, "south": 20, "west": 0}}
    rule = settled_group_dro(held)
    alone = [Report("north", {"light": 30}, {}, {}), Report("west", {"light": 10}, {}, {})]
    aggregation, _ = rule.aggregate(alone, {"q/" + A: 0.0, "q/" + B: 1.0})
    assert aggregation.clients == {"north": 0.75, "west": 0.25}


def test_little_of_q_at_those_that_answered_is_still_what_they_are_weighed_by():
    held = {A: {"north": 30, "west": 10}, C: {"north": 10, "west": 30}, B: {"south": 20}}
    alone = [Report("north", {"light": 40}, {}, {}), Report("west", {"light": 40}, {}, {})]
    aggregation, _ = settled_group_dro(held).aggregate(
        alone, {"q/" + A: 1e-4, "q/" + C: 3e-4, "q/" + B: 0.9996}
    )
    assert aggregation.clients == pytest.approx({"north": (3 + 3) / 16, "west": (1 + 9) / 16})


def test_with_fewer_than_two_cells_there_is_nothing_to_weigh():
    with pytest.raises(
        JobError, match=r"of which a client holds 61 .*two; .* other, light: 80; malignant, l"
    ):
        settled_group_dro(least=61)
    with pytest.raises(JobError, match=r"Lower privacy\.min_count, or use the aggregator fedavg"):
        settled_group_dro(least=20)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (FedAuto, {"loss_ratio": 1.0}),
        (FedAuto, {"max_scale": 0}),
        (QFFL, {"q": -0.1}),
        (QFFL, {"lipschitz": 0}),
        (GroupDRO, {"step_size": -0.1}),
        (GroupDRO, {"adjustment": -1}),
        (GroupDRO, {"cells": "tone"}),
    ],
)
def test_settings_without_a_meaning_are_refused(kind, settings):
    with pytest.raises(ValidationError, match=f"1 validation error.*\\n{next(iter(settings))}"):
        kind(**settings)


def test_a_cell_that_went_with_its_client_leaves_its_share_to_the_others():
    state = {"q/" + A: 0.1, "q/" + B: 0.3, "q/" + C: 0.6}
    left = settled_group_dro({A: HELD_GROUP_DRO[A], B: HELD_GROUP_DRO[B]})
    assert left.cell_weights(state) == pytest.approx({A: 0.25 * 90 / 80, B: 0.75 * 90 / 10})
    assert left.cell_weights({**state, "q/" + A: 0.0, "q/" + B: 0.0}) == pytest.approx(
        {A: 0.5 * 90 / 80, B: 0.5 * 90 / 10}
    )
    _, after = left.aggregate([report_group_dro("north", 64, a=1.0, b=1.0)], state)
    assert after == pytest.approx(state)
