"""Reports held against the census: each lie alone, what it does without the check, and who is named."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from registry.bundle.counts.counting import count
from tests.training.federation.server.test_round_loop import (
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
from training.federation.blocks import pack_blocks
from training.federation.census import CENSUS, Census
from training.federation.questions import EVALUATE, FIT
from training.federation.server.census_bounds import CensusBounds
from training.messages.message import Update, reply

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


def test_the_log_names_whoever_is_left_out_and_why(make_plan, rounds, bounds, monkeypatch):
    from training.federation.server.metrics_log import MetricsLog

    said = []
    monkeypatch.setattr(MetricsLog, "log", lambda self, text: said.append(text))
    rounds(make_plan(min_clients=2, bounds=bounds, rounds=1), lying(LIES["a trillion pictures"][0]))
    assert said == [
        "0-federate 1: without c: c reports 1,000,000,000,000 training pictures of light, and holds 60 by "
        "its own census; its report is left out"
    ]


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


def test_a_census_in_fractions_is_refused():
    counts = torch.full((len(SPLITS), 2, 3), 0.5)
    with pytest.raises(MessageError, match="float32"):
        Census.from_updates(
            [Update("c", CENSUS, 0, CENSUS, tensors={CENSUS: counts})], ("light",), ("a", "b")
        )


def test_an_objective_may_say_that_its_loss_goes_below_zero(bounds):
    told = Update("c", "0-federate", 1, FIT, num_examples={"light": 60}, losses={"light": -2.0})
    with pytest.raises(MessageError, match="mean loss of -2"):
        bounds.refuse_training(told)
    replace(bounds, least_loss=-5.0).refuse_training(told)
