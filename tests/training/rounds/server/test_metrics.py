"""The log of a run, and the figures of a round."""

import json

import numpy as np
import pytest
from rich.console import Console

from registry.bundle.counting import count
from training.algorithms.aggregators.base import AggregationWeights
from training.errors import CheckpointError
from training.messages import Failure, Update
from training.rounds.server.metrics import MetricsLog, note_on, round_line


def test_lines_come_back_and_what_followed_a_checkpoint_is_cut(tmp_path):
    metrics_log = MetricsLog(tmp_path / "run" / "metrics.jsonl", Console(quiet=True))
    assert metrics_log.size == 0
    metrics_log.write({"round": 1, "loss": 0.5, "clinic": "Zürich"})
    size = metrics_log.size
    metrics_log.write({"round": 2})
    assert [line["round"] for line in metrics_log.lines()] == [1, 2]
    metrics_log.cut(size)
    metrics_log.write({"round": 2, "again": True})
    assert metrics_log.lines() == [{"round": 1, "loss": 0.5, "clinic": "Zürich"}, {"round": 2, "again": True}]


def test_a_disk_that_does_not_take_a_line_is_said(tmp_path):
    metrics_log = MetricsLog(tmp_path / "metrics.jsonl")
    (tmp_path / "metrics.jsonl").unlink()
    (tmp_path / "metrics.jsonl").mkdir()
    with pytest.raises(CheckpointError, match=r"cannot write .*metrics\.jsonl: .*--resume"):
        metrics_log.write({"round": 1})


def update(client, held, losses, track="light", scalars=None):
    return Update(
        client, "1-personalize", 4, "fit", track, num_examples=held, losses=losses, scalars=scalars or {}
    )


def block(labels, answers):
    """Counts of answers that are certain."""
    probabilities = np.eye(2)[answers] * 0.8 + 0.1
    return count(probabilities, np.array(labels), malignant=np.array([False, True]))


@pytest.fixture
def line():
    return round_line(
        "1-personalize",
        4,
        {"light": ("a", "b"), "dark": ("b", "c")},
        {
            "light": [update("a", {"light": 30}, {"light": 0.5}), update("b", {"light": 10}, {"light": 1.5})],
            "dark": [update("c", {"dark": 7, "light": 3}, {"dark": 2.0}, "dark", {"kept": 0.25})],
        },
        [Failure("b", "dark", "its disk is full")],
        {"light": AggregationWeights({"a": 0.75, "b": 0.25}), "dark": AggregationWeights({"c": 1.0})},
        {"light": block([0, 0, 1, 1], [0, 0, 1, 0]), "dark": block([0, 1], [1, 1])},
        {"light": {"a": {"peers": ["b"]}}},
    )


def test_losses_are_means_over_pictures_and_then_over_models(line):
    losses = {name: model["loss"] for name, model in line["models"].items()}
    assert losses == pytest.approx({"light": (30 * 0.5 + 10 * 1.5) / 40, "dark": 2.0})
    assert line["loss"] == pytest.approx((0.75 + 2.0) / 2)


def test_figures_are_of_all_pictures_and_of_each_subgroup(line):
    told = line
    assert told["by_subgroup"]["light"]["accuracy"] == 3 / 4
    assert told["by_subgroup"]["light"]["balanced_accuracy"] == (1 + 1 / 2) / 2
    assert told["by_subgroup"]["dark"]["accuracy"] == 1 / 2
    assert told["metrics"]["n"] == 6
    assert told["metrics"]["accuracy"] == pytest.approx(4 / 6)
    assert told["metrics"]["balanced_accuracy"] == pytest.approx((2 / 3 + 2 / 3) / 2)


def test_who_was_asked_who_answered_and_who_did_not_is_logged(line):
    told = json.loads(json.dumps(line))
    assert told["asked"] == ["a", "b", "c"]
    assert told["answered"] == ["a", "b", "c"]
    assert told["models"]["dark"] == {
        "asked": ["b", "c"],
        "answered": ["c"],
        "loss": 2.0,
        "weights": {"c": 1.0},
        "scalars": {"c": {"kept": 0.25}},
    }
    assert told["models"]["light"]["exchange"] == {"a": {"peers": ["b"]}}
    assert told["failed"] == [{"client": "b", "model": "dark", "reason": "its disk is full"}]
    told = "loss 1.375, balanced accuracy 0.667 (worst dark 0.500), 3 of 3 answered, in part without b"
    assert note_on(line) == told


def test_a_line_says_of_whom_what_is_missing():
    """`3 of 3 answered, without south` told of a hospital that trained, and gave no counts."""

    def note(failed, losses=None):
        updates = {"global": [update(name, {"light": 3}, losses or {}) for name in ("north", "south")]}
        asked = {"global": ("north", "south", "east")}
        failures = [Failure(name, "global", "why") for name in failed]
        return note_on(
            round_line("s", 1, asked, updates, failures, {"global": AggregationWeights({})}, {}, {})
        )

    assert note([], {"light": 0.25}) == "loss 0.250, 2 of 3 answered"
    assert note(["south"]) == "no loss told, 2 of 3 answered, no counts of south"
    assert note(["east", "south"]) == "no loss told, 2 of 3 answered, without east, no counts of south"


def test_a_figure_that_is_undefined_is_null_and_no_number():
    line = round_line(
        "s",
        1,
        {"global": ("a",)},
        {"global": [update("a", {}, {})]},
        [],
        {"global": AggregationWeights({"a": 1.0})},
        {"light": block([0, 0], [0, 1])},
        {},
    )
    assert line["by_subgroup"]["light"]["auroc"] is None
    assert line["loss"] is None, "nobody told one"
