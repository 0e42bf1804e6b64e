"""The stage `field`: sums over hospitals, who tells of what, and what no coordinator sees."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError
from rich.console import Console

from clients.store import ClientStore
from registry.bundle.metrics.field import FieldSums, pooled_figures
from tests.field_files import FIRST, SECOND, cell, file, stratum
from training.algorithms.release_store import FolderReleases
from training.engines.in_process import ClientAppParts, InProcessEngine
from training.errors import QuorumError
from training.federation.client.field import COUNTED, FieldQuestion, read_sums
from training.federation.questions import FIELD
from training.federation.server.ask import Traffic, ask_all, ask_sums
from training.federation.server.metrics_log import MetricsLog
from training.jobs.pipeline import run_stages
from training.messages.message import GLOBAL, Broadcast, Update
from training.updates.secure_aggregation import cohorts

FOUR = ("north", "south", "east", "west")
MASKS = {"min_count": 10, "counts": {"masks": True}}
CLEAR = {"min_count": 10}
VERSIONS = [{"name": "1", "digest": FIRST}, {"name": "2", "digest": SECOND}]
KNOWN = {
    "north": file(cell(stratum(False, 1000, 800, 160), stratum(True, 500, 450, 360))),
    "south": file(cell(stratum(False, 10000, 200, 2), stratum(True, 500, 450, 90))),
    "east": file(
        cell(stratum(False, 300, 60, 3), stratum(True, 90, 70, 40)),
        cell(stratum(False, 70, 20, 3), stratum(True, 30, 20, 10), version=SECOND),
    ),
}


class Federation:
    """Four hospitals in one process, and what their coordinator hears of them."""

    def __init__(self, job, dataset, folder: Path, known) -> None:
        store = ClientStore(folder / "clients")
        parts = ClientAppParts(job, dataset, store, FolderReleases(folder / "releases"), known)
        self.job, self.dataset, self.folder = job, dataset, folder
        self.heard: list[Update] = []
        (folder / "spool").mkdir(parents=True, exist_ok=True)
        self._engine = InProcessEngine(parts, folder / "spool")

    def run_round(self, broadcasts):
        """As an engine, with everything noted that reaches the coordinator."""
        answers = self._engine.run_round(broadcasts)
        self.heard += [
            replace(answer, tensors=dict(answer.tensors.items()))
            for answer in answers
            if isinstance(answer, Update)
        ]
        return answers

    def run(self):
        """The facts of the stage."""
        with MetricsLog(self.folder / "metrics.jsonl", Console(quiet=True)) as log:
            done = run_stages(self.job, self.dataset, self, log, self.folder)
        return done.stages["0-field"].outcome.facts

    def ask(self, clients, **changes):
        """The sum of some hospitals, asked as a coordinator likes."""
        question = FieldQuestion(split="field", versions=(FIRST,), subgroups=("dark",), cells=((0, 0),))
        options = {**question.model_dump(mode="json"), **changes}
        asked = [Broadcast(client, "0-field", 0, FIELD, GLOBAL, {}, options) for client in clients]
        masks = self.job.privacy.masked_counts
        if masks is None:
            updates = ask_all(self, asked, Traffic())
        else:
            updates = ask_sums(self, asked, Traffic(), masks)
        return sum((read_sums(each.tensors, 1)[0] for each in updates), FieldSums.none())


@pytest.fixture
def federation(make_job, make_dataset, tmp_path):
    """`federation(privacy, known)`."""
    sizes = {name: {"light": (4, 2, 2, 2), "dark": (4, 2, 2, 2)} for name in FOUR}
    dataset = make_dataset(sizes)

    def build(privacy, known=KNOWN, name="run"):
        job = make_job(stages=[{"stage": "field", "versions": VERSIONS}], privacy=privacy)
        return Federation(job, dataset, tmp_path / name, known)

    return build


def expected(*names):
    return sum((FieldSums.of(KNOWN[name].cell(FIRST, "dark").strata) for name in names), FieldSums.none())


@pytest.mark.parametrize("privacy", [CLEAR, MASKS], ids=["clear", "masks"])
def test_figures_are_those_of_all_hospitals_and_who_has_none_is_told(federation, privacy):
    facts = federation(privacy).run()
    found = {(row["version"], row["subgroup"]): row for row in facts["field"]}
    figures = pooled_figures(expected("north", "south", "east"))
    of_first = found["1", "dark"]
    assert of_first["hospitals"] == 3
    assert of_first["outcomes"] == figures.confirmed
    corrected = of_first["figures"]["sensitivity"]["corrected"]
    assert corrected["value"] == pytest.approx(float(figures.sensitivity.value), abs=1e-6)
    assert corrected["interval"] == pytest.approx(
        [float(figures.sensitivity.low), float(figures.sensitivity.high)], abs=1e-4
    )
    assert (facts["hospitals"], facts["with_outcomes"]) == (4, 3)
    assert facts.get("without_outcomes") == (["west"] if privacy == CLEAR else None)
    silent = {(row["version"], row["subgroup"]): row["hospitals"] for row in facts["not_told"]}
    assert silent["1", "light"] == 0
    # Of the second version one hospital tells alone.
    assert ("2", "dark") in (found if privacy == CLEAR else silent)


def held_by_one(update: Update) -> bool:
    """Whether an answer shows the counts of one hospital."""
    return any(
        np.array_equal(tensor.numpy()[0], FieldSums.of(known.cell(FIRST, "dark").strata).counted)
        for name, tensor in update.tensors.items()
        for known in KNOWN.values()
        if name == COUNTED
    )


def test_under_masks_the_coordinator_hears_no_hospitals_counts(federation):
    masked, clear = federation(MASKS), federation(CLEAR, name="clear")
    masked.run()
    clear.run()
    assert any(map(held_by_one, clear.heard))  # the control
    assert not any(map(held_by_one, masked.heard))
    assert not any(COUNTED in update.tensors for update in masked.heard)
    # What one hospital alone tells of is not even asked for: the sum would be its own.
    total = masked.ask(FOUR)
    assert np.array_equal(total.counted, expected("north", "south", "east").counted)


def test_a_sum_without_one_hospital_is_refused_in_a_run(federation, monkeypatch):
    made = federation(MASKS)
    made.run()
    for changes in ({}, {"versions": [SECOND, FIRST], "cells": [[1, 0]]}):
        with pytest.raises(QuorumError, match=r"the sum of `field` over .* was unmasked in this run"):
            made.ask(FOUR[:3], **changes)
    monkeypatch.setattr(cohorts, "entries", lambda client: {})  # the control: hospitals that keep nothing
    without = ("north", "south", "west")
    difference = made.ask(FOUR).counted - made.ask(without).counted
    assert np.array_equal(difference, expected("east").counted)


def test_a_question_that_says_not_what_is_counted_is_no_question(federation):
    """Without it the sums would be of a round each, over whomever the coordinator likes."""
    options = FieldQuestion(split="field", versions=(FIRST,), subgroups=("dark",)).model_dump()
    for wrong in ({"split": "test"}, {"split": None}):
        with pytest.raises(ValidationError):
            FieldQuestion.model_validate({**options, **wrong})
    options.pop("split")
    with pytest.raises(ValidationError):
        FieldQuestion.model_validate(options)


def grown(more: int, answered: int = 0):
    """A hospital with so many more outcomes than ten, all of missed lesions."""
    return file(cell(stratum(False, 100 + answered, 5 + more, 1 + more), stratum(True, 30, 5, 4)))


def told(federation, more, answered=0, privacy=CLEAR):
    return int(federation(privacy, {"north": grown(more, answered)}).ask(["north"]).total("confirmed"))


def test_one_more_outcome_is_not_told_until_enough_have_come(federation):
    exact = {**CLEAR, "min_count": 1}
    assert told(federation, 1, privacy=exact) - told(federation, 0, privacy=exact) == 1  # the control
    assert [told(federation, more) for more in (0, 1, 9, 0, 10, 11, 20, 15)] == [
        10,
        10,
        10,
        10,
        20,
        20,
        30,
        30,
    ]


def test_one_more_answer_is_not_told_beside_outcomes(federation):
    assert told(federation, 0) == 10
    assert told(federation, 10, answered=1) == 10
    assert told(federation, 10, answered=10) == 20


def test_below_the_minimum_nothing_is_told(federation):
    for more, said in ((-1, 0), (0, 10)):
        assert told(federation, more) == said
    facts = federation(CLEAR, {"north": grown(-1)}, name="few").run()
    assert facts["field"] == []
    assert facts["with_outcomes"] == 1


def test_noise_on_counts_covers_no_field(make_job):
    privacy = {"counts": {"epsilon": 1.0}}
    with pytest.raises(ValidationError, match="stage field asks for sums"):
        make_job(stages=[{"stage": "field", "versions": VERSIONS}], privacy=privacy)
