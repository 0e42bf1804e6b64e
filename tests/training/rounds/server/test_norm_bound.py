"""Updates that go too far: refused against the others of the round, and only against those."""

import json

import numpy as np
import pytest
import torch

from training.engines.in_process import InProcessEngine
from training.messages.message import Update
from training.rounds.server.norm_bound import norms_of, refuse_beyond_bound

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
def exaggerating(monkeypatch):
    """South's update of round 1 goes 100 times as far."""
    real = InProcessEngine.run_round

    def run(self, broadcasts):
        answers = list(real(self, broadcasts))
        for place, (asked, answer) in enumerate(zip(broadcasts, answers, strict=True)):
            if (asked.client, asked.ask, asked.round) == ("south", "fit", 1):
                tensors = {
                    n: asked.tensors[n] + 100 * (t - asked.tensors[n]) for n, t in answer.tensors.items()
                }
                for name, value in tensors.items():
                    if name.endswith("running_var"):
                        value.clamp_(min=0)
                answers[place] = Update(
                    *answer.address, tensors, answer.num_examples, answer.losses, answer.scalars
                )
        return answers

    monkeypatch.setattr(InProcessEngine, "run_round", run)


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
