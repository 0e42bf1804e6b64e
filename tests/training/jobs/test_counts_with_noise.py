"""Whole jobs whose counts get noise: what is evaluated when, what is told, and what is refused."""

import json
from dataclasses import replace
from functools import partial
from random import Random

import numpy as np
import pytest
import torch

from registry.bundle.counts.noisy import HISTOGRAM, MATRIX, NOISE
from training.engines.in_process import ClientAppParts
from training.federation.blocks import EvaluateQuestion
from training.federation.client import noisy_blocks
from training.federation.questions import EVALUATE, FIT, TEST
from training.jobs.noise_plan import NoisePlan
from training.messages.message import GLOBAL, Broadcast, Failure, Update
from training.models import initial_model
from training.models.groups import float_state
from training.updates.differential_privacy.concentrated import epsilon_of, rho_of_units
from training.updates.differential_privacy.discrete_gaussian import discrete_gaussian

NOISY = {"counts": {"epsilon": 4, "delta": 1e-5, "evaluations": 2}}
PERSONALIZE = {"stage": "personalize", "strategy": {"name": "finetune", "epochs": 3}}


@pytest.fixture
def seeded(monkeypatch):
    """Noise that is the same in every run of a test."""

    def seed(number=0):
        known = partial(discrete_gaussian, below=Random(number).randrange)
        monkeypatch.setattr(noisy_blocks, "discrete_gaussian", known)

    seed()
    return seed


@pytest.fixture
def noisy_job(make_job, federate_block):
    """Four rounds of which two are evaluated, then a model for each subgroup, and graphs of all."""

    def build(privacy=NOISY, **changes):
        stages = [federate_block(rounds=4), PERSONALIZE, {"stage": "export"}]
        return make_job(stages=stages, privacy=privacy, **changes)

    return build


def figures_of(lines):
    return {(line["stage"], line["round"]): line["metrics"] for line in lines}


@pytest.mark.parametrize("number", range(12))
def test_a_whole_job(noisy_job, run_job, seeded, number):
    seeded(number)
    job = noisy_job()
    ran = run_job(job)
    evaluated = {place for place, figures in figures_of(ran.lines).items() if figures}
    assert evaluated == {("0-federate", 2), ("0-federate", 4), ("1-personalize", 2), ("1-personalize", 3)}
    summary = ran.result.summary
    # Of the stages that can count test pictures the last one does.
    assert [stage["test"] is not None for stage in summary["stages"]] == [False, True, True]
    told = summary["privacy"]["counts"]
    assert (told["epsilon"], told["delta"], told["evaluations"]) == (4, 1e-5, 2)
    # A matrix of two rounds, of the global model before personalizing and of two epochs; a matrix and a histogram.
    assert {split: of["parts_told"] for split, of in told["by_split"].items()} == {"validation": 5, "test": 2}
    for of in told["by_split"].values():
        spent = epsilon_of(rho_of_units(of["parts_told"], of["deviation"] ** 2), 1e-5)
        assert spent == pytest.approx(4, rel=0.01)
        assert of["epsilon_of_own_noise"] == pytest.approx(4, rel=0.01)
    assert summary["test"]["ece"] is None
    assert summary["test"]["auprc"] is None
    assert summary["test"]["intervals"]["accuracy"] is not None
    json.dumps(summary, allow_nan=False)
