"""`fit: converged`: hospitals together get the head that pooled data would give, and nobody is told apart."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from tests.thorough import mostly_long
from training.algorithms.client import Client, FeatureMemory, HeadRows, MemoryReleases
from training.algorithms.local_model import LocalModel
from training.data.folds import in_folds
from training.errors import JobError, MessageError, QuorumError
from training.jobs.job import Job
from training.messages import Broadcast
from training.models import initial_model
from training.models.classifier import float_state
from training.privacy.secagg.messages import topic_of
from training.rounds.client import head_gradient
from training.rounds.client.head_gradient import answer_gradient, answer_spread, head_rows
from training.rounds.requests import SPREAD
from training.rounds.server import head_fit
from training.rounds.server.metrics import MetricsLog

CONVERGED = {"fit": "converged", "trainable": {"name": "head"}, "penalty": 0.1}
STAGES = [{"stage": "federate", **CONVERGED}]
SPLIT = {"split": "train"}
CLEAR, MASKS = ({"min_count": 1}, 2e-6), ({"min_count": 1, "counts": {"masks": True}}, 1e-4)
ALL_TRAIN = {"train": 0.8, "validation": 0, "calibration": 0, "test": 0.2}
FOLDED = {"crossfit": 3, "split": ALL_TRAIN}


@pytest.fixture
def make_job(begun_job):
    """Jobs whose encoder begins with weights from a file."""
    return begun_job


def pooled_head(job, dataset, penalty=0.1, fold=None):
    """The head of all hospitals' training pictures together, by another optimiser, without dermfed's fit.

    Of all but one fold, it has the same total penalty.
    """
    model = initial_model(job.model, job.seed, job.data.image_size, len(dataset.labels))
    rows, labels, folds = [], [], []
    for client in dataset.clients:
        examples = dataset.examples(client, "train")
        if fold is not None:
            examples = in_folds(examples, client, dataset.subgroups, job.data.crossfit, job.privacy.min_count)
        pictures = torch.from_numpy(examples.images[examples.rows]).permute(0, 3, 1, 2).float() / 255
        with torch.no_grad():
            features = model.eval().features(pictures)
        keep = examples.labels >= 0
        rows.append(features.numpy().astype(np.float16).astype(np.float64)[keep])
        labels.append(examples.labels[keep])
        folds.append(examples.folds[keep] if fold is not None else np.zeros(keep.sum()))
    x, y, shown = np.concatenate(rows), np.concatenate(labels), np.concatenate(folds) != fold
    x_all, (x, y), penalty = x, (x[shown], y[shown]), penalty * len(x) / shown.sum()
    centre = x.mean(axis=0)
    scale = np.sqrt(x_all.var(axis=0).mean())
    z, classes = (x - centre) / scale, len(dataset.labels)

    def loss(point):
        weight = point[: classes * z.shape[1]].reshape(classes, -1)
        logits = z @ weight.T + point[classes * z.shape[1] :]
        top = logits.max(axis=1, keepdims=True)
        shares = np.exp(logits - top)
        each = np.log(shares.sum(axis=1)) + top[:, 0] - logits[np.arange(len(y)), y]
        wrong = shares / shares.sum(axis=1, keepdims=True)
        wrong[np.arange(len(y)), y] -= 1
        slope = np.concatenate([(wrong.T @ z / len(y) + penalty * weight).ravel(), wrong.mean(axis=0)])
        return each.mean() + penalty / 2 * (weight**2).sum(), slope

    found = minimize(
        loss, np.zeros(classes * (z.shape[1] + 1)), jac=True, method="BFGS", options={"gtol": 1e-9}
    )
    weight = found.x[: classes * z.shape[1]].reshape(classes, -1)
    logits = z @ weight.T + found.x[classes * z.shape[1] :]
    assert fold is None or 0 < shown.sum() < len(x_all)
    return x, np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


def answers(weights, x):
    logits = x @ weights["encoder.fc.weight"].double().numpy().T + weights["encoder.fc.bias"].double().numpy()
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


@pytest.mark.long
@pytest.mark.parametrize(("privacy", "within"), [CLEAR, MASKS])
def test_hospitals_get_the_head_of_pooled_data(make_job, run_job, dataset, privacy, within):
    job = make_job(stages=STAGES, privacy=privacy)
    ran = run_job(job)
    x, expected = pooled_head(job, dataset)
    weights = ran.weights()
    assert np.abs(answers(weights, x) - expected).max() < within
    assert np.abs(answers(weights, x) - 1 / len(dataset.labels)).max() > 0.05  # and it has learned something
    begun = float_state(initial_model(job.model, job.seed, job.data.image_size, len(dataset.labels)))
    moved = {name for name in begun if not torch.equal(begun[name], weights[name])}
    assert moved == {"encoder.fc.weight", "encoder.fc.bias"}


@pytest.mark.parametrize(("privacy", "within"), mostly_long([CLEAR, MASKS], MASKS))
def test_each_fold_has_the_head_of_the_others_pooled_data(make_job, run_job, dataset, privacy, within):
    job = make_job(stages=STAGES, privacy=privacy, data=FOLDED)
    ran = run_job(job)
    folds = ran.result.stages["0-federate"].outcome.folds["global"]
    assert len(folds) == 3
    for fold, weights in enumerate(folds):
        x, expected = pooled_head(job, dataset, fold=fold)
        assert np.abs(answers(weights, x) - expected).max() < within
    x, expected = pooled_head(job, dataset)
    assert np.abs(answers(ran.weights(), x) - expected).max() < within


@pytest.mark.parametrize(
    "data", [pytest.param({}, id="one head", marks=pytest.mark.long), pytest.param(FOLDED, id="folds")]
)
def test_a_fit_that_was_killed_goes_on_where_it_was(make_job, run_job, tmp_path, monkeypatch, data):
    job = make_job(stages=STAGES, privacy={"min_count": 1}, data=data)
    whole = run_job(job, out=tmp_path / "whole")
    asked, real = [], head_fit.KeptSums.put

    def put(self, place, digest, answer):
        real(self, place, digest, answer)
        asked.append(place)
        if len(asked) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(head_fit.KeptSums, "put", put)
    with pytest.raises(KeyboardInterrupt):
        run_job(job, out=tmp_path / "again")
    resumed = run_job(job, out=tmp_path / "again")
    assert asked[:5] == [0, 1, 2, 3, 4]
    for ran in (resumed, run_job(job, out=tmp_path / "again")):  # gone on, and read back
        for one, other in zip(everything(whole), everything(ran), strict=True):
            assert all(torch.equal(one[name], other[name]) for name in one)


def everything(ran):
    outcome = ran.result.stages["0-federate"].outcome
    return [ran.weights(), *outcome.folds.get("global", ())]


def test_a_rare_class_is_refused_in_the_clear_where_masks_take_it(make_job, run_job, tmp_path):
    """A gradient at W = 0 is a sum of rows by class: of one patient it would be that patient's picture."""
    with pytest.raises(QuorumError, match=r"fewer than 5 patients .*counts.masks"):
        run_job(make_job(stages=STAGES, privacy={"min_count": 5}))
    few = [{**STAGES[0], "evaluations": 3}]
    masked = make_job(stages=few, privacy={"min_count": 5, "counts": {"masks": True}})
    assert run_job(masked, out=tmp_path / "masked").weights()


def test_a_class_of_few_pictures_at_all_hospitals_is_refused_before_anything_is_asked(make_job, run_job):
    with pytest.raises(JobError, match="fewer than 1000"):
        run_job(make_job(stages=STAGES, privacy={"min_count": 1000, "counts": {"masks": True}}))


@pytest.mark.parametrize(
    ("privacy", "before"),
    [
        ({"counts": {"epsilon": 1.0}}, []),
        ({"client_level": {"clip": 1.0, "noise_multiplier": 1.0}}, []),
        ({}, [{"objective": {"name": "dp-sgd", "noise_multiplier": 1.0, "optimizer": {"name": "sgd"}}}]),
    ],
)
def test_exact_gradients_are_refused_where_noise_is_promised(make_job, federate_block, privacy, before):
    """When the job is read: a node, too, refuses it, whoever sends it. Without the noise it is read."""
    with pytest.raises(ValueError, match="exact gradients"):
        make_job(stages=[*(federate_block(**each) for each in before), *STAGES], privacy=privacy)
    job = make_job(stages=[*(federate_block() for _ in before), *STAGES])
    assert Job.model_validate(job.model_dump(mode="json")) == job


@pytest.mark.parametrize(("known", "rows"), [(MemoryReleases(), 0), (None, 17)], ids=["attack", "control"])
def test_gradients_with_and_without_a_patient_do_not_leave_both(make_job, dataset, known, rows):
    """The difference of two sums would be one patient's features; hospitals that forget tell both."""
    job = make_job(stages=STAGES, privacy={"min_count": 5})
    model = initial_model(job.model, job.seed, job.data.image_size, len(dataset.labels))
    local_model = LocalModel(model, "cpu").behind_encoder()

    def rows_of(keep, releases):
        examples = dataset.examples("north", "train")
        examples = examples.where(np.arange(len(examples)) < keep)
        features = np.random.default_rng(0).normal(size=(len(examples), 32)).astype(np.float16)
        shown = replace(examples, images=features, rows=np.arange(len(examples)), names=examples.identities)
        client = Client(
            "north",
            0,
            5,
            SimpleNamespace(labels=dataset.labels, subgroups=(), examples=lambda client, split: shown),
            None,
            local_model,
            releases=releases,
            masked=True,
        )
        return len(head_rows(Broadcast("north", "0-federate", 0, SPREAD, "global", {}, SPLIT), client).rows)

    first = MemoryReleases() if known is None else known
    assert rows_of(18, first) == 18
    assert rows_of(17, known or MemoryReleases()) == rows


@pytest.mark.parametrize("options", [{}, {"split": "validation"}])
def test_a_question_cannot_choose_a_cohort_of_its_own(options):
    """Of another topic a second sum could lack one hospital, and tell it; of {split: train} none can."""
    held = HeadRows(torch.ones(6, 4).double(), torch.arange(6) % 2, torch.ones(6).double())
    client = SimpleNamespace(
        id="a",
        features=FeatureMemory(rows={("a", "0/"): held}),
        dataset=SimpleNamespace(labels=range(2), subgroups=()),
    )

    def asked(options):
        return Broadcast("a", "0", 0, SPREAD, "global", {}, options)

    assert topic_of(asked(SPLIT)).whole
    assert topic_of(asked(options)).name != topic_of(asked(SPLIT)).name
    assert answer_spread(asked(SPLIT), client).tensors
    with pytest.raises(MessageError, match="split: train"):
        answer_spread(asked(options), client)


def test_examples_that_are_held_back_are_counted_and_said(make_job, run_job, monkeypatch):
    """A hospital whose account lets nothing leave is not in the head: a line says so, and the facts do."""
    disclosable, said = head_gradient.disclosable, []
    monkeypatch.setattr(
        head_gradient,
        "disclosable",
        lambda client, *rest: {} if client.id == "west" else disclosable(client, *rest),
    )
    monkeypatch.setattr(MetricsLog, "log", lambda self, text: said.append(text))
    told = run_job(make_job(stages=STAGES, privacy={"min_count": 1})).result.stages["0-federate"]
    assert told.outcome.facts["converged"]["held"] - told.outcome.facts["converged"]["n"] == 7
    assert any("fitted to 27 of 34 labelled training examples" in line for line in said)


def test_clients_are_asked_no_more_often_than_the_job_says(make_job, run_job):
    ran = run_job(make_job(stages=[{**STAGES[0], "evaluations": 3}], privacy={"min_count": 1}))
    told = ran.result.stages["0-federate"].outcome.facts["converged"]
    assert told["evaluations"] == 3
    assert told["gradient"] > 1e-6


def test_rare_classes_do_not_hold_a_fit_up(tmp_path):
    """Of 2,000 rows 8 are of the rarest of eight classes; in unscaled variables it takes 78 evaluations."""
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(8), [1100, 500, 200, 100, 50, 30, 12, 8])
    turned = np.linalg.qr(random.normal(size=(300, 300)))[0]
    rows = random.normal(size=(2000, 300)) * np.geomspace(1, 0.1, 300) @ turned
    rows += 0.2 * random.normal(size=(8, 300))[labels]
    held = HeadRows(torch.from_numpy(rows), torch.from_numpy(labels), torch.ones(2000).double())
    client = SimpleNamespace(
        id="a",
        crossfit=None,
        features=FeatureMemory(rows={("a", "0/"): held}),
        dataset=SimpleNamespace(labels=range(8), subgroups=()),
    )

    def ask(request, tensors, shapes):
        answer = answer_spread if request == SPREAD else answer_gradient
        return answer(Broadcast("a", "0", 0, request, "global", tensors, SPLIT), client).tensors

    found = head_fit.fit_head(ask, head_fit.KeptSums(tmp_path, "job"), 8, 300, penalty=0.1, most=120)
    assert found.gradient < 1e-7
    assert found.evaluations < 65
