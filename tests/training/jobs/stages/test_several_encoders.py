"""A whole job of two encoders in two views, from the sums of its projection to calibrated bundles."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from registry.bundle.model import Graph
from tests.training.jobs.stages.test_crossfit import SIZES, SPLIT, STAGES
from tests.training.jobs.stages.test_federate_cases import CASES, OfCases, judged
from training.jobs.job import Job
from training.jobs.stages import features
from training.models import ModelConfig, build_model, initial_model
from training.rounds.client import embed
from training.rounds.requests import MOMENTS

ENCODERS = [
    {"name": "resnet18", "options": {"channels": [4, 8, 16, 32]}, "components": 5},
    {
        "name": "vit_tiny_patch16_224",
        "options": {"embed_dim": 12, "depth": 2, "num_heads": 2, "patch_size": 4},
        "layers": [0, 1],
        "components": 7,
    },
]


class WithUnlabelled(OfCases):
    """Those cases, where every fourth training case of north has no label."""

    def examples(self, client, split):
        examples = super().examples(client, split)
        unknown = (examples.rows % 4 == 1) & (split == "train") & (client == "north")
        return replace(examples, labels=np.where(unknown, -1, examples.labels))


@pytest.fixture
def job_of(make_job, tmp_path):
    """Jobs of both encoders, from files, and so many stages."""
    encoders = []
    for number, each in enumerate(ENCODERS):
        path = tmp_path / f"{number}.safetensors"
        one = ModelConfig(name=each["name"], options=each["options"])
        save_file(build_model(one, 0, 11 + number, 16).encoder.state_dict(), path)
        encoders.append({**each, "weights": str(path)})
    model = {"encoders": encoders, "views": ["full", "center"], "fusion": {"width": 0}}

    def build(stages, **privacy):
        data = {"crossfit": 3, "split": SPLIT, "unit": "lesion", "cases": CASES}
        one = {"weights": encoders[0]["weights"]}
        job = make_job(
            stages=stages,
            data=data,
            privacy={"min_count": 2, "counts": {"masks": True}, **privacy},
            model=one,
        )
        return Job.model_validate({**job.resolved(), "model": model})

    return build


@pytest.fixture
def cases(make_dataset):
    return WithUnlabelled(make_dataset(SIZES))


def pooled_projections(job, cases):
    """Of each block the mean and P/s, by a singular value decomposition of all training pictures."""
    model = initial_model(job.model, job.seed, 16, 2, cases.case).eval()
    shown = []
    for client in cases.clients:
        examples = cases.examples(client, "train")
        shown.append(torch.from_numpy(examples.images[np.unique(embed.rows_of(examples))]))
    with torch.no_grad():
        raw = model.encoder.forward_features(torch.cat(shown).permute(0, 3, 1, 2).float() / 255)
    for block, count in zip(raw, (5, 5, 7, 7), strict=True):
        values = block.half().double().numpy()
        mean = values.mean(axis=0)
        _, singular, right = np.linalg.svd(values - mean, full_matrices=False)
        yield mean, right[:count] / np.sqrt((singular[:count] ** 2).mean() / len(values))


def require_pooled(job, cases, weights):
    for n, (mean, rows) in enumerate(pooled_projections(job, cases)):
        np.testing.assert_allclose(weights[f"encoder.centre{n}"], mean, atol=1e-5)
        found = weights[f"encoder.components{n}"].double().numpy()
        sign = np.sign((found * rows).sum(axis=1, keepdims=True))
        np.testing.assert_allclose(found, sign * rows, atol=1e-3 * np.abs(rows).max())


@pytest.mark.long
def test_the_projection_is_that_of_pooled_pictures_and_the_graph_answers_as_judged(
    job_of, run_job, cases, monkeypatch
):
    made, real = [], embed.make_features
    monkeypatch.setattr(embed, "make_features", lambda *given: made.append(1) or real(*given))
    job = job_of(STAGES)
    ran = run_job(job, cases)
    weights = ran.weights()
    require_pooled(job, cases, weights)
    assert len(made) == 3 * 4, "raw features are made once of each client's splits"
    bundles = ran.result.stages["3-calibrate"].outcome.bundles
    manifest = bundles["global"].manifest
    assert [one.name for one in manifest.lineage.encoder] == [each["name"] for each in ENCODERS]
    assert manifest.picture.interpolation == "bilinear"
    assert manifest.basis == "cross-fitted"
    assert manifest.out_of_distribution is not None
    right, n = judged(Graph(bundles["global"].graph), cases)
    test = ran.result.stages["0-federate"].outcome.test
    assert sum(block.point.n for block in test.values()) == n == manifest.metrics["n"]
    assert round(ran.result.summary["test"]["accuracy"] * n) == right > n / 2


def test_a_run_that_ended_behind_the_projection_goes_on_with_the_same_sums(
    job_of, run_job, cases, tmp_path, monkeypatch
):
    job = job_of(STAGES[:1])
    whole = run_job(job, cases, out=tmp_path / "whole").weights()
    require_pooled(job, cases, whole)  # in the clear, too

    def killed(*given):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("training.jobs.stages.federate.fit_converged", killed)
        with pytest.raises(KeyboardInterrupt):
            run_job(job, cases, out=tmp_path / "again")
    asked, real = Counter(), features.ask_sum
    monkeypatch.setattr(features, "ask_sum", lambda *given: asked.update([given[2]]) or real(*given))
    resumed = run_job(job, cases, out=tmp_path / "again").weights()
    assert not asked[MOMENTS]
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_rounds_learn_a_head_on_projected_features(job_of, run_job, cases, federate_block):
    job = job_of(STAGES[:1])
    rounds = federate_block(
        rounds=1,
        evaluate_on=None,
        trainable={"name": "head", "views": 1},
        objective={"augment": {"flip": True}},
    )
    plain = {**job.resolved(), "stages": [rounds]}
    plain["data"]["crossfit"] = None
    weights = run_job(Job.model_validate(plain), cases).weights()
    assert all(weights[name].any() for name in ("encoder.components0", "head.weight"))
    assert weights["head.weight"].shape == (2, 3 * (24 + 1) + 6)
