"""The mixture over cells by hand, and who of them has a part in it."""

from math import exp

import pytest
from pydantic import ValidationError

from training.algorithms.aggregators.base import Circumstances, Report
from training.algorithms.aggregators.group_dro import GroupDRO
from training.errors import JobError

A, B, C = "other, light", "malignant, light", "malignant, dark"
HELD = {
    A: {"north": 60, "south": 20},
    B: {"north": 4, "south": 6},
    C: {"north": 0, "south": 10},
    "other, undeclared": {"north": 2, "south": 1},
    "malignant, undeclared": {"north": 0, "south": 0},
}


def settled(held=HELD, least=5, **settings):
    return GroupDRO(**settings).for_job(Circumstances(("north", "south"), (), True, 0.1, held, least))


def report(client, n, **losses):
    told = {{"a": A, "b": B, "c": C}[name]: loss for name, loss in losses.items()}
    return Report(client, {"light": n}, {"light": 99.0}, told)


def q_of(state):
    return {key.removeprefix("q/"): value for key, value in state.items()}


def test_two_rounds_by_hand():
    rule = settled(step_size=0.5, adjustment=2.0)
    state = rule.initial_state()
    assert q_of(state) == pytest.approx({A: 1 / 3, B: 1 / 3, C: 1 / 3})
    # 100 pictures are in cells that q is over; 80, 10 and 10 of them.
    assert rule.cell_weights(state) == pytest.approx({A: 100 / 80 / 3, B: 10 / 3, C: 10 / 3})

    told = [report("north", 66, a=0.2, b=1.0), report("south", 37, a=0.6, b=2.0, c=3.0)]
    mixture, state = rule.weigh(told, state)
    # 60 of A, 4 of B and 2 that count 1; 20 of A, 6 of B, 10 of C and 1 that counts 1.
    north, south = (60 / 80 + 4 / 10) * 100 / 3 + 2, (20 / 80 + 6 / 10 + 10 / 10) * 100 / 3 + 1
    assert mixture.clients == pytest.approx({"north": north / 103, "south": south / 103})
    assert mixture.previous == 0
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

    mixture, state = rule.weigh(told, state)
    north = (expected[A] * 60 / 80 + expected[B] * 4 / 10) * 100 + 2
    assert mixture.clients["north"] == pytest.approx(north / 103)
    scores = {cell: score * expected[cell] for cell, score in scores.items()}
    assert q_of(state) == pytest.approx(
        {cell: score / sum(scores.values()) for cell, score in scores.items()}
    )


def test_what_clients_weigh_is_one_on_the_mean_over_the_pictures():
    rule = settled()
    state = {"q/" + A: 0.1, "q/" + B: 0.2, "q/" + C: 0.7}
    weights = rule.cell_weights(state)
    assert (80 * weights[A] + 10 * weights[B] + 10 * weights[C]) / 100 == pytest.approx(1)
    assert [weights[A] * 80, weights[B] * 10, weights[C] * 10] == pytest.approx([10, 20, 70])


def test_a_cell_that_no_client_may_tell_of_is_left_as_it_is():
    rule = settled(least=5)
    assert list(q_of(rule.initial_state())) == [A, B, C]
    assert rule.facts(rule.initial_state())["cells"] == {
        A: {"n": 80, "q": 1 / 3},
        B: {"n": 10, "q": 1 / 3},
        C: {"n": 10, "q": 1 / 3},
        "other, undeclared": {"n": 3, "q": None},
    }
    # 4 and 6 pictures of B: south tells of 6 patients, and nobody of 7.
    assert list(q_of(settled(least=6).initial_state())) == [A, B, C]
    assert list(q_of(settled(least=7).initial_state())) == [A, C]


def test_of_whom_nobody_tells_keeps_its_share_and_the_others_share_theirs():
    rule = settled(step_size=1.0)
    state = {"q/" + A: 0.5, "q/" + B: 0.2, "q/" + C: 0.3}
    _, after = rule.weigh([report("north", 66, a=0.0, b=1.0)], state)
    assert after["q/" + C] == 0.3
    a, b = 0.5, 0.2 * exp(1.0)
    assert after["q/" + A] == pytest.approx(0.7 * a / (a + b))
    assert after["q/" + B] == pytest.approx(0.7 * b / (a + b))
    _, silent = rule.weigh([report("north", 66)], state)
    assert silent == state


def test_a_loss_counts_as_its_clients_pictures_of_the_cell_do():
    rule = settled(step_size=1.0)
    state = rule.initial_state()
    one = rule.weigh([report("north", 66, b=1.0), report("south", 37, b=2.0, c=0.0)], state)[1]
    other = rule.weigh([report("south", 37, b=1.6, c=0.0)], state)[1]
    assert one == pytest.approx(other)


def test_losses_of_any_size_keep_the_mass_and_what_is_gone_stays_gone():
    rule = settled(step_size=1e6)
    state = rule.initial_state()
    told = [report("south", 37, a=0.0, b=1e9, c=2e9)]
    for _ in range(3):
        _, state = rule.weigh(told, state)
        assert sum(state.values()) == pytest.approx(1)
    assert q_of(state) == {A: 0.0, B: 0.0, C: 1.0}
    assert rule.cell_weights(state)[A] == 0
    mixture, _ = rule.weigh([report("north", 66), report("south", 37)], state)
    assert mixture.clients == pytest.approx({"north": 2 / 103, "south": 101 / 103})


def test_where_nothing_is_left_of_q_at_those_that_answered_they_count_as_they_hold():
    held = {A: {"north": 30, "south": 0, "west": 10}, B: {"north": 0, "south": 20, "west": 0}}
    rule = settled(held)
    alone = [Report("north", {"light": 30}, {}, {}), Report("west", {"light": 10}, {}, {})]
    mixture, _ = rule.weigh(alone, {"q/" + A: 0.0, "q/" + B: 1.0})
    assert mixture.clients == {"north": 0.75, "west": 0.25}


def test_little_of_q_at_those_that_answered_is_still_what_they_are_weighed_by():
    held = {A: {"north": 30, "west": 10}, C: {"north": 10, "west": 30}, B: {"south": 20}}
    alone = [Report("north", {"light": 40}, {}, {}), Report("west", {"light": 40}, {}, {})]
    mixture, _ = settled(held).weigh(alone, {"q/" + A: 1e-4, "q/" + C: 3e-4, "q/" + B: 0.9996})
    assert mixture.clients == pytest.approx({"north": (3 + 3) / 16, "west": (1 + 9) / 16})


def test_with_fewer_than_two_cells_there_is_nothing_to_weigh():
    with pytest.raises(
        JobError, match=r"of which a client holds 61 .*two; .* other, light: 80; malignant, l"
    ):
        settled(least=61)
    with pytest.raises(JobError, match=r"Lower privacy\.min_count, or use the aggregator fedavg"):
        settled(least=20)


@pytest.mark.parametrize("settings", [{"step_size": -0.1}, {"adjustment": -1}, {"cells": "tone"}])
def test_what_makes_no_sense_is_refused(settings):
    with pytest.raises(ValidationError):
        GroupDRO(**settings)


def test_a_cell_that_went_with_its_client_leaves_its_share_to_the_others():
    state = {"q/" + A: 0.1, "q/" + B: 0.3, "q/" + C: 0.6}
    left = settled({A: HELD[A], B: HELD[B]})
    assert left.cell_weights(state) == pytest.approx({A: 0.25 * 90 / 80, B: 0.75 * 90 / 10})
    assert left.cell_weights({**state, "q/" + A: 0.0, "q/" + B: 0.0}) == pytest.approx(
        {A: 0.5 * 90 / 80, B: 0.5 * 90 / 10}
    )
    _, after = left.weigh([report("north", 64, a=1.0, b=1.0)], state)
    assert after == pytest.approx(state)
