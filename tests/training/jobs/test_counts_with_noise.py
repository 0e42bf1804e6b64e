"""Whole jobs whose counts get noise: what is evaluated when, what is told, and what is refused."""

import json
from functools import partial
from random import Random

import numpy as np
import pytest
import torch

from clients.store import ClientStore
from personalization.report.data import report_data
from personalization.report.page import render_report
from registry.bundle.counting import HISTOGRAM, MATRIX, NOISE
from training.engines.in_process import ClientAppParts
from training.jobs import noise_plan
from training.jobs.noise_plan import NoisePlan
from training.messages import GLOBAL, Broadcast, Failure, Update
from training.models import initial_model
from training.models.classifier import float_state
from training.privacy.noisy_counts import discrete_gaussian, epsilon_of, rho_of_units
from training.rounds.client import disclosure
from training.rounds.requests import EVALUATE, FIT, TEST, EvaluateRequest

NOISY = {"counts": {"epsilon": 4, "delta": 1e-5, "evaluations": 2}}
PERSONALIZE = {
    "stage": "personalize",
    "strategy": {"name": "finetune", "epochs": 3},
    "selection": {"proof": None},
}


@pytest.fixture
def seeded(monkeypatch):
    """Noise that is the same in every run of a test."""

    def seed(number=0):
        known = partial(discrete_gaussian, below=Random(number).randrange)
        monkeypatch.setattr(disclosure, "discrete_gaussian", known)

    seed()
    return seed


@pytest.fixture
def noisy_job(make_job, federate_block):
    """Four rounds of which two are evaluated, then a model for each subgroup."""

    def build(privacy=NOISY, last=PERSONALIZE, **changes):
        stages = [federate_block(rounds=4), last]
        return make_job(stages=stages, privacy=privacy, **changes)

    return build


def figures_of(lines):
    return {(line["stage"], line["round"]): line["metrics"] for line in lines}


@pytest.mark.usefixtures("seeded")
def test_a_whole_job(noisy_job, run_job):
    job = noisy_job()
    ran = run_job(job)
    evaluated = {place for place, figures in figures_of(ran.lines).items() if figures}
    assert evaluated == {("0-federate", 2), ("0-federate", 4), ("1-personalize", 2), ("1-personalize", 3)}
    summary = ran.result.summary
    # Of the stages that can count test pictures the last one does.
    assert [stage["test"] is not None for stage in summary["stages"]] == [False, True]
    told = summary["privacy"]["counts"]
    assert (told["epsilon"], told["delta"], told["evaluations"]) == (4, 1e-5, 2)
    # Matrices of two rounds, of the model before personalizing and of two epochs; a matrix and a histogram.
    assert {split: of["parts_told"] for split, of in told["by_split"].items()} == {"validation": 5, "test": 2}
    for of in told["by_split"].values():
        spent = epsilon_of(rho_of_units(of["parts_told"], of["deviation"] ** 2), 1e-5)
        assert spent == pytest.approx(4, rel=0.01)
        assert of["epsilon_of_own_noise"] == pytest.approx(4, rel=0.01)
    assert summary["test"]["ece"] is None
    assert summary["test"]["auprc"] is None
    assert summary["test"]["intervals"]["accuracy"] is not None
    json.dumps(summary, allow_nan=False)
    page = render_report(report_data(ran.result))
    assert "(4, 1e-05)-differential privacy of what the models answered for one patient" in page


def request(job, ask=EVALUATE, round_=2, client="north", stage="0-federate", seed=1, **options):
    """A request about a model of these weights."""
    torch.manual_seed(seed)
    weights = {
        name: tensor + 0.1 * torch.randn_like(tensor)
        for name, tensor in float_state(initial_model(job.model, job.seed, 16, 2)).items()
    }
    asked = EvaluateRequest(**{"split": "validation", "subgroups": ("light", "dark"), **options})
    return Broadcast(client, stage, round_, ask, GLOBAL, weights, asked.model_dump())


@pytest.fixture
def app(noisy_job, dataset, tmp_path):
    """`app(job)`: what answers for all clients; a second one finds what the first one kept."""

    def build(job=None):
        return ClientAppParts(job or noisy_job(), dataset, ClientStore(tmp_path / "kept")).build()

    return build


def told(answer):
    assert isinstance(answer, Update), answer.reason
    return {name: tensor.numpy() for name, tensor in answer.tensors.items()}


def test_what_leaves_is_noise_added_to_one_picture_per_patient(app, noisy_job, monkeypatch):
    added = []

    def ones(variance, size):
        added.append((variance, size))
        return np.ones(size, dtype=np.int64)

    monkeypatch.setattr(disclosure, "discrete_gaussian", ones)
    job = noisy_job()
    found = told(app(job).answer(request(job)))
    variance = NoisePlan(job.privacy, job.stages).variance("validation")
    assert added == [(variance, 4)] * 2
    assert {name.partition("/")[0] for name in found} == {MATRIX, "patients", NOISE}
    # North has 4 light and 3 dark validation pictures; the first two of a draw are of one lesion.
    assert found["patients/light"].sum() == 3
    assert found["confusion/light"].sum() == 3 + 4
    tested = told(app(job).answer(request(job, TEST, split="test")))
    assert HISTOGRAM in {name.partition("/")[0] for name in tested}
    assert tested[f"{HISTOGRAM}/light"].sum() == tested["patients/light"].sum() + 2 * 16


def test_more_questions_than_the_job_has(app, noisy_job):
    job, asked = noisy_job(), app()
    for seed in range(5):
        told(asked.answer(request(job, seed=seed)))
    refused = asked.answer(request(job, seed=5))
    assert isinstance(refused, Failure)
    assert "5 units of noise, 5 are spent" in refused.reason
    told(asked.answer(request(job, seed=0)))  # that one was answered
    told(asked.answer(request(job, client="south", seed=5)))  # and others have accounts of their own


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"split": "calibration"}, "tells nothing of its calibration pictures: no stage of the job asks"),
        ({"ask": FIT, "split": "test"}, None),
        ({"ask": "parity", "stage": "1-export"}, "a request about validation pictures of north was refused"),
        ({"ask": "likelihoods", "split": "test"}, "likelihoods"),
    ],
)
def test_other_questions_tell_nothing_of_pictures_that_judge(
    app, noisy_job, dataset, asked, reason, monkeypatch
):
    seen = []
    real = type(dataset).examples

    def examples(self, client, split):
        seen.append(split)
        return real(self, client, split)

    monkeypatch.setattr(type(dataset), "examples", examples)
    job = noisy_job(last={"stage": "export"})
    answer = app(job).answer(request(job, **asked))
    assert set(seen) <= {"train"}
    if reason is not None:
        assert isinstance(answer, Failure)
        assert reason in answer.reason


def test_training_pictures_are_counted_as_ever(app, noisy_job):
    """`privacy.min_count` holds, and the ledger: noise is for what judges."""
    job = noisy_job(privacy={**NOISY, "min_count": 14})
    found = told(app(job).answer(request(job, split="train")))
    assert not found  # of 13 and 5 pictures


def test_a_run_that_is_killed_goes_on_with_the_same_answers(noisy_job, run_killed, monkeypatch):
    """Noise is nobody's seed, so the logs of two runs differ; of one run, the answers of before are kept."""
    job = noisy_job()
    answers = []
    real = disclosure.noisy_blocks

    def remember(update, *rest, **options):
        answers.append((update.client, update.stage, update.round, update.ask, update.track))
        return real(update, *rest, **options)

    monkeypatch.setattr(noise_plan, "noisy_blocks", remember)
    ran = run_killed(job)
    assert len(answers) == len(set(answers))  # nobody's pictures were counted twice for one request
    assert ran.result.summary["privacy"]["counts"]["epsilon"] == 4


def test_graphs_are_compared_on_training_pictures(noisy_job, run_job):
    """How far they differ is told without noise."""
    ran = run_job(noisy_job(last={"stage": "export"}))
    assert ran.result.stages["1-export"].outcome.facts["parity"]["global"] < 1e-4
    assert ran.result.summary["test"] == ran.result.summary["stages"][0]["test"] is not None


def test_masks_share_the_noise(noisy_job, run_job, seeded, dataset):
    job = noisy_job(privacy={"counts": {**NOISY["counts"], "masks": True}})
    alone, together = (NoisePlan(each.privacy, each.stages) for each in (noisy_job(), job))
    assert together.variance("test") * 3 == pytest.approx(alone.variance("test"), abs=3 / 16)
    ran = run_job(job)
    block = ran.result.stages["1-personalize"].outcome.test["dark"]
    assert block.noisy.variance == float(together.variance("test")) * 3
    facts = ran.result.summary["privacy"]["counts"]
    assert facts["against"].startswith("whoever sees sums of 3 hospitals")
    assert facts["by_split"]["test"]["epsilon_of_own_noise"] > 4
    held = [dataset.held[client, "test"] for client in ("north", "south")]
    # West has no dark picture, and adds its share of the noise to their counts all the same.
    assert block.noisy.patients.sum() == sum(len(set(of.people[of.subgroups == 1])) for of in held)
