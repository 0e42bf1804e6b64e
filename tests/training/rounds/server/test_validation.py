"""Validation: reports are held against the census, and updates against each other."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from registry.bundle.counting import count
from tests.training.rounds.server.test_loop import (
    FormulaEngine,
    assert_model,
    by_hand,
    make_plan,
    rounds,
    trained,
)
from training.algorithms.aggregators.weighting import FedLoss
from training.data.dataset import SPLITS
from training.errors import MessageError
from training.messages import Update, reply
from training.rounds.census import CENSUS, Census, CensusBounds
from training.rounds.requests import EVALUATE, FIT, pack_blocks
from training.rounds.server.validation import norms_of, refuse_beyond_bound

__all__ = ["make_plan", "rounds"]  # fixtures
HELD = {"a": 10, "b": 30, "c": 60}
LABELS = [0] * 6 + [1] * 4


@pytest.fixture
def bounds():
    """Of three clients with light pictures alone, ten of them for validation: six benign, four malignant."""
    counts = {}
    for name, n in HELD.items():
        cells = np.zeros((len(SPLITS), 2, 3), dtype=np.int64)
        cells[SPLITS.index("train"), 0] = [n // 2, n - n // 2, 0]
        cells[SPLITS.index("validation"), 0] = [6, 4, 0]
        counts[name] = cells
    return CensusBounds(Census(("light",), ("benign", "malignant"), counts))


def lying(change, who="c", ask=FIT):
    """Clients of which one changes its report."""

    def answer(broadcast):
        if broadcast.ask == EVALUATE:
            told = reply(broadcast, tensors=pack_blocks({"light": block(LABELS)}))
        else:
            told = trained(broadcast)
        return change(told) if (broadcast.client, broadcast.ask) == (who, ask) else told

    return FormulaEngine(answer)


def block(labels):
    """Counts of answers that are all benign."""
    probabilities = np.tile([0.9, 0.1], (len(labels), 1))
    return count(probabilities, np.array(labels), malignant=np.array([False, True]))


LIES = {
    "a trillion pictures": (lambda told: replace(told, num_examples={"light": 10**12}), "1,000,000,000,000"),
    "one picture more": (
        lambda told: replace(told, num_examples={"light": 61}),
        "holds 60 by its own census",
    ),
    "pictures of none": (lambda told: replace(told, num_examples={"light": 60, "undeclared": 1}), "holds 0"),
    "a subgroup of its own": (
        lambda told: replace(told, num_examples={"light": 60, "violet": 5}),
        "does not have: violet",
    ),
    "a loss of its own": (lambda told: replace(told, losses={"violet": 1.0}), "does not have: violet"),
    "a loss below all": (lambda told: replace(told, losses={"light": -1e9}), "mean loss of -1e+09"),
    "a loss beyond all": (lambda told: replace(told, losses={"light": 1e9}), "mean loss of 1e+09"),
}


@pytest.mark.parametrize("lie", LIES)
def test_who_reports_what_it_does_not_hold_is_left_out_and_named(lie, make_plan, rounds, bounds, capsys):
    change, told = LIES[lie]
    _, [line, _], _ = rounds(make_plan(min_clients=2, bounds=bounds), lying(change))
    assert line["answered"] == ["a", "b"]
    [failed] = line["failed"]
    assert failed["client"] == "c"
    assert told in failed["reason"]


def test_without_the_bounds_one_report_is_the_whole_model(make_plan, rounds):
    """The controls: a trillion pictures take all weight, and a loss below all turns the weights round."""
    _, [line, _], _ = rounds(make_plan(min_clients=2), lying(LIES["a trillion pictures"][0]))
    assert line["models"]["global"]["weights"]["c"] > 0.999
    plan = make_plan(min_clients=2, aggregator=FedLoss())
    _, [line, _], _ = rounds(plan, lying(LIES["a loss below all"][0]))
    weights = line["models"]["global"]["weights"]
    assert max(map(abs, weights.values())) > 0.999


def test_honest_reports_are_as_they_were(make_plan, rounds, bounds):
    plan = make_plan(bounds=bounds, split="validation")
    states, [line, _], _ = rounds(plan, lying(lambda told: told))
    assert_model(states["global"], by_hand({"a": 0.1, "b": 0.3, "c": 0.6}, times=2))
    assert line["metrics"]["n"] == 30
    assert line["failed"] == []


@pytest.mark.parametrize(
    ("counted", "told"),
    [
        (
            {"light": [*LABELS, 1]},
            "counts 6 benign, 5 malignant validation pictures of light, and holds",
        ),
        ({"light": [0] * 5 + [1] * 5}, "5 benign, 5 malignant"),  # as many in all, and of another class
        ({"violet": LABELS}, "'violet', a subgroup that this run does not have"),
    ],
)
def test_counts_of_pictures_that_nobody_holds_are_left_out(counted, told, make_plan, rounds, bounds):
    def change(update):
        return replace(update, tensors=pack_blocks({name: block(labels) for name, labels in counted.items()}))

    plan = make_plan(bounds=bounds, split="validation", rounds=1)
    _, [line], _ = rounds(plan, lying(change, ask=EVALUATE))
    assert line["metrics"]["n"] == 20
    assert told in line["failed"][0]["reason"]


def test_without_the_bounds_they_are_counted(make_plan, rounds):
    def change(update):
        return replace(update, tensors=pack_blocks({"light": block([1] * 5000)}))

    _, [line], _ = rounds(make_plan(split="validation", rounds=1), lying(change, ask=EVALUATE))
    assert line["metrics"]["n"] == 5020


def test_of_a_sum_the_sum_is_held_against_what_all_hold(bounds):
    bounds.refuse_counts("the sum", list(HELD), "validation", {"light": block(LABELS * 3)})
    with pytest.raises(MessageError, match="the sum counts 18 benign, 13 malignant"):
        bounds.refuse_counts("the sum", list(HELD), "validation", {"light": block([*LABELS * 3, 1])})


@pytest.mark.parametrize("n", [-1, 10**12])
def test_a_census_of_what_no_hospital_holds_is_refused(n):
    counts = torch.zeros((len(SPLITS), 2, 3), dtype=torch.int64)
    counts[0, 0, 0] = n
    update = Update("c", CENSUS, 0, CENSUS, tensors={CENSUS: counts})
    with pytest.raises(MessageError, match="c counts"):
        Census.from_updates([update], ("light",), ("benign", "malignant"))
    fine = replace(update, tensors={CENSUS: counts.clamp(0, 10**9)})
    assert Census.from_updates([fine], ("light",), ("benign", "malignant")).counts["c"].sum() >= 0


def test_an_objective_may_say_that_its_loss_goes_below_zero(bounds):
    told = Update("c", "0-federate", 1, FIT, num_examples={"light": 60}, losses={"light": -2.0})
    with pytest.raises(MessageError, match="mean loss of -2"):
        bounds.refuse_training(told)
    replace(bounds, least_loss=-5.0).refuse_training(told)


START = {"layer.weight": torch.tensor([1.0, 2.0, -1.0]), "norm.running_var": torch.tensor([4.0])}
NAMES = list(START)


def moved(client, weight, statistic=1.0):
    """An update whose parameters moved by `weight` and whose statistics by `statistic`."""
    tensors = {
        "layer.weight": START["layer.weight"] + torch.tensor([0.6, 0.0, -0.8]) * weight,
        "norm.running_var": START["norm.running_var"] + statistic,
    }
    return Update(client, "0-federate", 1, "fit", tensors=tensors)


def refused(updates, sizes=None, limit=20.0):
    found = refuse_beyond_bound(updates, lambda client: START, NAMES, sizes or {}, limit)
    return {each.client: each.reason for each in found}


def test_a_hundred_times_the_others_is_refused_and_named():
    found = refused([moved("a", 1.0), moved("b", 2.0), moved("c", 0.5), moved("d", 100.0)])
    assert list(found) == ["d"]
    assert "d sent parameters that moved by 100, and half of the clients moved by 1 or less" in found["d"]
    assert "at most 20 is taken (engine.update_limit)" in found["d"]


def test_the_limit_is_that_of_the_job():
    updates = [moved("a", 1.0), moved("b", 1.0), moved("c", 7.9)]
    assert refused(updates, limit=8.0) == {}
    assert list(refused(updates, limit=7.8)) == ["c"]


def test_statistics_are_compared_among_themselves():
    # Beside statistics that move by 1,000 parameters that move by 100 would not be noticed.
    updates = [moved("a", 1, 1000), moved("b", 1, 1000), moved("c", 100, 1000), moved("d", 1, 90000)]
    found = refused(updates)
    assert sorted(found) == ["c", "d"]
    assert "statistics" in found["d"]


def test_whoever_has_more_pictures_may_go_farther():
    updates = [moved("a", 1.0), moved("b", 1.0), moved("c", 50.0)]
    assert list(refused(updates, {"a": 10, "b": 10, "c": 20})) == ["c"]
    assert refused(updates, {"a": 10, "b": 10, "c": 30}) == {}
    # Few pictures allow nobody less.
    assert refused([moved("a", 1.0), moved("b", 1.0), moved("c", 19.0)], {"a": 10, "b": 10, "c": 1}) == {}


@pytest.mark.parametrize("honest", [1.0, 0.0])
def test_of_two_nobody_is_told_apart_and_where_none_moves_nobody_is_far(honest):
    assert refused([moved("a", honest), moved("b", 100.0)]) == {}
    assert refused([moved("a", 0.0), moved("b", 0.0), moved("c", 0.1)]) == {}


def test_of_three_one_cannot_make_the_honest_look_far():
    assert refused([moved("a", 1.0), moved("b", 1.0), moved("c", 1e-9)]) == {}


@pytest.fixture
def exaggerating(on_answers):
    """South's update of round 1 goes 100 times as far."""

    def change(asked, answer):
        if (asked.client, asked.ask, asked.round) != ("south", "fit", 1):
            return answer
        far = {n: asked.tensors[n] + 100 * (t - asked.tensors[n]) for n, t in answer.tensors.items()}
        for name, value in far.items():
            if name.endswith("running_var"):
                value.clamp_(min=0)
        return replace(answer, tensors=far)

    on_answers(change)


def test_a_round_goes_on_without_it(run_job, make_job, exaggerating, tmp_path):
    ran = run_job(make_job(engine={"min_clients": 2}), out=tmp_path / "limited")
    assert [line["answered"] for line in ran.lines] == [["north", "west"], ["north", "south", "west"]]
    assert "south sent parameters that moved by" in json.dumps(ran.lines[0]["failed"])
    unlimited = make_job(engine={"min_clients": 2, "update_limit": None})
    spoiled = run_job(unlimited, out=tmp_path / "unlimited")
    assert spoiled.lines[0]["failed"] == []


WAYS = {
    "one value": (torch.tensor(3.5), torch.tensor(-1.25)),
    "nothing": (torch.empty(0), torch.empty(0)),
    "nothing in two dimensions": (torch.empty(3, 0), torch.empty(3, 0)),
    "no difference": (torch.full((5,), 7.0), torch.full((5,), 7.0)),
    "squares that single precision cannot hold": (torch.full((3, 2), 4e25), torch.full((3, 2), -1e25)),
    "a sum that single precision cannot hold": (torch.full((1000,), 9e17), torch.zeros(1000)),
    "squares that single precision loses": (torch.full((4,), 3e-23), torch.zeros(4)),
    "beside a large piece a lost one": (torch.tensor([1e-30] * 8 + [2.0]), torch.zeros(9)),
    "not a number": (torch.tensor([1.0, torch.nan, 2.0]), torch.zeros(3)),
    "infinite": (torch.tensor([1.0, -torch.inf, 2.0]), torch.zeros(3)),
    "a difference beyond single precision": (torch.full((2,), 3e38), torch.full((2,), -3e38)),
    "whole numbers": (torch.tensor([[5, -3], [2**20, 0]]), torch.tensor([[1, 1], [1, 1]])),
    "half precision": (torch.tensor([1.5, -60000.0]).half(), torch.tensor([0.25, 60000.0]).half()),
    "double precision": (torch.tensor([1e-3, 2.0]).double(), torch.tensor([1.0, -2.0]).double()),
}


@pytest.mark.parametrize("name", ["x.weight", "x.running_mean"])
@pytest.mark.parametrize("way", WAYS)
def test_the_norm_is_that_of_the_difference_in_double_precision(way, name):
    own, received = WAYS[way]
    part, other = ("parameters", "statistics") if name == "x.weight" else ("statistics", "parameters")
    norms = norms_of({name: own}, {name: received}, [name])
    expected = np.linalg.norm((own.float() - received.float()).double().numpy())
    assert norms[part] == pytest.approx(expected, rel=1e-6, abs=0, nan_ok=True)
    assert norms[other] == 0
