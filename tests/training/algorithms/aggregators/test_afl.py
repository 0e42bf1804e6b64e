"""Agnostic federated learning by hand, and its projection against a search over all faces of the simplex."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.algorithms.aggregators.afl import AFL, project
from training.algorithms.aggregators.base import Circumstances, Report
from training.algorithms.aggregators.fedequal import FedEqual


def reports(held="abc", **losses):
    """Clients of one subgroup each; the losses of their last epoch are others and must not be read."""
    sizes = {"a": 5, "b": 80, "c": 15}
    return [
        Report(name, {f"tone {name}": sizes[name]}, {f"tone {name}": 99.0}, {f"tone {name}": losses[name]})
        for name in held
    ]


def settled(step_size=0.5, unit="client", clients=("a", "b", "c"), subgroups=("light", "dark")):
    return AFL(unit=unit, step_size=step_size).for_job(Circumstances(clients, subgroups, True, 0.1))


def mixture_of(state):
    return {key.removeprefix("lambda/"): value for key, value in state.items()}


def test_three_rounds_by_hand():
    aggregator = settled(step_size=0.5)
    state = aggregator.initial_state()
    assert state == pytest.approx({"lambda/a": 1 / 3, "lambda/b": 1 / 3, "lambda/c": 1 / 3})

    first, state = aggregator.weigh(reports(a=0.2, b=0.8, c=0.5), state)
    assert first.clients == pytest.approx({"a": 1 / 3, "b": 1 / 3, "c": 1 / 3})
    assert first.previous == 0
    # 1/3 + (0.1, 0.4, 0.25) sums to 1.75: less 0.25 each.
    assert mixture_of(state) == pytest.approx({"a": 11 / 60, "b": 29 / 60, "c": 20 / 60})

    second, state = aggregator.weigh(reports(a=0.1, b=1.5, c=0.3), state)
    assert second.clients == pytest.approx({"a": 11 / 60, "b": 29 / 60, "c": 20 / 60})
    # (14, 74, 29)/60 less 19/60 each would leave a below 0; without a, (74 + 29 − 60)/2 = 21.5 off b and c.
    assert mixture_of(state) == pytest.approx({"a": 0, "b": 52.5 / 60, "c": 7.5 / 60}, abs=1e-15)

    third, state = aggregator.weigh(reports(a=1.0, b=0.0, c=0.0), state)
    assert third.clients == pytest.approx({"a": 0, "b": 52.5 / 60, "c": 7.5 / 60}, abs=1e-15)
    # (30, 52.5, 7.5)/60 sums to 1.5: less 10/60 each would leave c below 0; (30 + 52.5 − 60)/2 = 11.25.
    assert mixture_of(state) == pytest.approx({"a": 18.75 / 60, "b": 41.25 / 60, "c": 0}, abs=1e-15)


def test_who_did_not_answer_keeps_its_share_and_the_others_are_renormalised():
    state = {"lambda/a": 0.2, "lambda/b": 0.5, "lambda/c": 0.3}
    mixture, after = settled(step_size=0.1).weigh(reports("ac", a=2.0, c=1.0), state)
    assert mixture.clients == pytest.approx({"a": 0.4, "c": 0.6})
    # 0.2 + 0.2 and 0.3 + 0.1, less 0.15 each: together 0.5 as before.
    assert mixture_of(after) == pytest.approx({"a": 0.25, "b": 0.5, "c": 0.25})
    assert after["lambda/b"] == 0.5


def test_those_without_any_share_weigh_the_same_when_they_answer_alone():
    state = {"lambda/a": 0.0, "lambda/b": 1.0, "lambda/c": 0.0}
    mixture, after = settled().weigh(reports("ac", a=2.0, c=1.0), state)
    assert mixture.clients == {"a": 0.5, "c": 0.5}
    assert after == state


def test_a_client_that_misses_the_first_round_still_has_its_uniform_share():
    aggregator = settled(step_size=0.1)
    _, state = aggregator.weigh(reports("ab", a=1.0, b=1.0), aggregator.initial_state())
    assert mixture_of(state) == pytest.approx({"a": 1 / 3, "b": 1 / 3, "c": 1 / 3})


def test_a_unit_that_nobody_knew_of_enters_with_a_uniform_share():
    mixture, after = AFL(unit="client", step_size=0).weigh(
        reports(a=1.0, b=1.0, c=1.0), {"lambda/a": 0.25, "lambda/b": 0.75}
    )
    assert mixture.clients == pytest.approx({"a": 0.5 / 3, "b": 0.5, "c": 1 / 3})
    assert mixture_of(after) == pytest.approx(mixture.clients)


def test_subgroups_climb_by_the_mean_loss_over_those_who_hold_them():
    held = [
        Report("north", {"light": 30, "dark": 10}, {}, {"light": 0.2, "dark": 2.0}),
        Report("south", {"dark": 50}, {}, {"dark": 1.0}),
    ]
    aggregator = settled(step_size=0.6, unit="subgroup")
    mixture, state = aggregator.weigh(held, aggregator.initial_state())
    assert mixture.clients == pytest.approx({"north": 0.5 + 0.5 * 10 / 60, "south": 0.5 * 50 / 60})
    light, dark = 0.2, (10 * 2.0 + 50 * 1.0) / 60
    moved = 0.6 * (dark - light) / 2
    assert mixture_of(state) == pytest.approx({"light": 0.5 - moved, "dark": 0.5 + moved})


def test_without_a_step_it_is_fedequal():
    aggregator = settled(step_size=0)
    state = aggregator.initial_state()
    for losses in ({"a": 0.2, "b": 0.8, "c": 0.5}, {"a": 2.0, "b": 0.1, "c": 0.3}):
        mixture, state = aggregator.weigh(reports(**losses), state)
        equal, _ = FedEqual(unit="client").weigh(reports(**losses), {})
        assert mixture.clients == pytest.approx(equal.clients, rel=1e-12)


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
    np.testing.assert_allclose(list(found.values()), expected, atol=1e-7)  # the search's own rounding


@given(values=st.lists(st.floats(0, 1e12), min_size=1, max_size=8), mass=st.floats(0, 1))
def test_a_projection_keeps_the_mass_whatever_the_size_of_the_losses(values, mass):
    found = project({str(place): value for place, value in enumerate(values)}, mass)
    assert min(found.values()) >= 0
    assert sum(found.values()) == pytest.approx(mass, abs=1e-12)
