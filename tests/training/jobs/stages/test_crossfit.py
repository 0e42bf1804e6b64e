"""Cross-fitting from the head to the bundle: every training patient calibrates, scored by another's model."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import log_softmax

from personalization.calibration.temperature import RESOLUTION, TEMPERATURES
from personalization.stages.calibration_poll import Poll
from training.data.folds import in_folds
from training.jobs.job import Job
from training.models import initial_model
from training.rounds.server.metrics import MetricsLog

SIZES = {
    "north": {"light": (33, 0, 0, 6), "dark": (21, 0, 0, 4)},
    "south": {"dark": (29, 0, 0, 5)},
    "west": {"light": (24, 0, 0, 3), "undeclared": (13, 0, 0, 2)},
}
STAGES = [
    {"stage": "federate", "fit": "converged", "trainable": {"name": "head"}, "penalty": 0.1},
    {"stage": "personalize", "strategy": {"name": "none"}},
    {"stage": "export"},
    {"stage": "calibrate", "sensitivity": 0.5},
]
SPLIT = {"train": 0.8, "validation": 0, "calibration": 0, "test": 0.2}


@pytest.fixture
def crossfit_job(begun_job):
    """Jobs of an encoder from a file, three folds, and all stages up to calibration."""
    return lambda **privacy: begun_job(
        stages=STAGES,
        data={"crossfit": 3, "split": SPLIT},
        privacy={"min_count": 2, **privacy},
    )


@pytest.fixture
def pictures(make_dataset):
    return make_dataset(SIZES)


@pytest.mark.parametrize(
    "privacy",
    [
        pytest.param({}, id="in the clear"),
        pytest.param({"counts": {"masks": True}}, id="under masks", marks=pytest.mark.long),
    ],
)
def test_every_lesion_calibrates_by_a_model_that_did_not_learn_from_it(
    crossfit_job, run_job, pictures, privacy, monkeypatch
):
    asked, real = {}, Poll.likelihoods

    def likelihoods(self, name, graph):
        asked[name] = real(self, name, graph)
        return asked[name]

    monkeypatch.setattr(Poll, "likelihoods", likelihoods)
    job = crossfit_job(**privacy)
    ran = run_job(job, pictures)
    fitted = ran.result.stages["0-federate"].outcome
    model = initial_model(job.model, job.seed, job.data.image_size, len(pictures.labels)).eval()
    expected, n = np.zeros_like(TEMPERATURES), 0
    for client in pictures.clients:
        examples = in_folds(pictures.examples(client, "train"), client, pictures.subgroups, 3, 2)
        for fold, head in enumerate(fitted.folds["global"]):
            part = examples.where(examples.folds == fold)
            model.load_state_dict({**ran.weights(), **head}, strict=False)
            shown = torch.from_numpy(part.images[part.rows]).permute(0, 3, 1, 2).float() / 255
            with torch.no_grad():
                logits = model(shown).numpy().astype(np.float64)
            for place, temperature in enumerate(TEMPERATURES):
                expected[place] += log_softmax(logits / temperature, axis=1)[
                    np.arange(len(part)), part.labels
                ].sum()
            n += len(part)
    sums, counted = asked["global"][0]
    assert counted == n == 120  # fewer than two patients have a second picture of a lesion, so all count
    assert (
        np.abs(sums - expected) <= 4 * RESOLUTION / 2 + 1e-3
    ).all()  # each hospital's subgroup rounds once
    bundles = ran.result.stages["3-calibrate"].outcome.bundles
    assert set(bundles) == {"global", "light", "dark"}
    manifest = bundles["global"].manifest
    assert manifest.temperature.n == manifest.conformal.n == n
    assert manifest.basis == "cross-fitted"
    assert bundles["dark"].manifest.conformal.guarantee == "subgroup"
    assert bundles["dark"].manifest.out_of_distribution is not None
    test = sum(sum(sizes[3] for sizes in of.values()) for of in SIZES.values())
    assert manifest.metrics["n"] == test


def shrunk(job, **fit):
    """The job with heads that are drawn towards the global one, taken without proof."""
    personal = {"stage": "personalize", "strategy": {"name": "shrink"}, "selection": {"proof": None}}
    plain = job.resolved()
    return Job.model_validate({**plain, "stages": [{**plain["stages"][0], **fit}, personal]})


def turned(pictures, subgroup):
    """The pictures with the classes of one subgroup exchanged."""
    held = {
        key: replace(part, labels=np.where(part.subgroups == subgroup, 1 - part.labels, part.labels))
        for key, part in pictures.held.items()
    }
    return replace(pictures, held=held)


@pytest.mark.parametrize(
    "privacy",
    [
        pytest.param({"min_count": 1}, id="clear"),
        pytest.param({"counts": {"masks": True}}, id="masks", marks=pytest.mark.long),
    ],
)
def test_a_subgroup_that_is_otherwise_gets_a_head_of_its_own(crossfit_job, run_job, pictures, privacy):
    ran = run_job(shrunk(crossfit_job(**privacy)), turned(pictures, 1))
    outcome = ran.result.stages["1-personalize"].outcome
    told = outcome.facts["by_subgroup"]["dark"]
    best = min(told["left_out"], key=lambda name: told["left_out"][name])
    assert best == f"{told['strength']:g}"
    assert told["left_out"]["1"] < told["left_out"]["inf"]
    assert not torch.equal(outcome.models["dark"]["encoder.fc.weight"], ran.weights()["encoder.fc.weight"])
    assert len(outcome.folds["dark"]) == 3


def test_a_subgroup_head_is_that_of_its_pooled_data(crossfit_job, run_job, pictures):
    """By another optimiser, at the λ that was chosen, for all and without each fold."""
    job = shrunk(crossfit_job(min_count=1))
    ran = run_job(job, turned(pictures, 1))
    outcome, fitted = (ran.result.stages[key].outcome for key in ("1-personalize", "0-federate"))
    strength = outcome.facts["by_subgroup"]["dark"]["strength"]
    model = initial_model(job.model, job.seed, job.data.image_size, 2).eval()
    rows, labels, folds = [], [], []
    for client in pictures.clients:
        examples = in_folds(turned(pictures, 1).examples(client, "train"), client, pictures.subgroups, 3, 1)
        part = examples.where(examples.subgroups == 1)
        shown = torch.from_numpy(part.images[part.rows]).permute(0, 3, 1, 2).float() / 255
        with torch.no_grad():
            rows.append(model.features(shown).half().double())
        labels.append(torch.from_numpy(part.labels))
        folds.append(part.folds)
    x, y, of = torch.cat(rows), torch.cat(labels), np.concatenate(folds)
    scale = float(x.var(dim=0, unbiased=False).mean()) ** 0.5
    centre = x.mean(dim=0)
    z = (x - centre) / scale
    heads = [ran.weights(), *fitted.folds["global"]]
    found = [outcome.models["dark"], *outcome.folds["dark"]]
    for fold, (start, end) in enumerate(zip(heads, found, strict=True)):
        seen = torch.from_numpy(of != fold - 1)
        weight, bias = (start[f"encoder.fc.{name}"].double() for name in ("weight", "bias"))
        goal = torch.cat([weight * scale, (bias + weight @ centre)[:, None]], dim=1).flatten()

        def loss(point, seen=seen, goal=goal):
            at = torch.from_numpy(point).requires_grad_()
            head = at.view(2, -1)
            logits = z[seen] @ head[:, :-1].T + head[:, -1]
            losses = torch.nn.functional.cross_entropy(logits, y[seen], reduction="sum") / len(y)
            total = losses + strength / 2 * ((at - goal) ** 2).sum()
            total.backward()
            return total.item(), at.grad.numpy()

        best = minimize(loss, goal.numpy(), jac=True, method="BFGS", options={"gtol": 1e-9})
        head = torch.from_numpy(best.x).view(2, -1)
        expected = torch.softmax(z @ head[:, :-1].T + head[:, -1], dim=1)
        weight, bias = (end[f"encoder.fc.{name}"].double() for name in ("weight", "bias"))
        assert (torch.softmax(x @ weight.T + bias, dim=1) - expected).abs().max() < 5e-6


def test_classes_and_subgroups_that_are_not_fitted_are_said(
    crossfit_job, run_job, pictures, monkeypatch, caplog
):
    """A kind of lesion that is too rare in a tone, and a tone of which no hospital may send a sum."""
    said = []
    monkeypatch.setattr(MetricsLog, "log", lambda self, text: said.append(text))
    held = dict(pictures.held)
    north = held["north", "train"]
    labels = np.where(north.subgroups == 1, 0, north.labels)
    labels[np.flatnonzero(north.subgroups == 1)[:3]] = (
        1  # three malignant ones of dark skin, and 13 in the south
    )
    held["north", "train"] = replace(north, labels=labels)
    for client in ("north", "west"):  # of light skin three have a label at each
        part = held[client, "train"]
        hidden = (part.subgroups == 0) & (np.cumsum(part.subgroups == 0) > 3)
        held[client, "train"] = replace(part, labels=np.where(hidden, -1, part.labels))
    # Who is told apart does not depend on how far a fit is.
    monkeypatch.setattr("personalization.stages.personalize.EVALUATIONS", 4)
    job = shrunk(crossfit_job(min_count=4, counts={"masks": True}), evaluations=4)
    told = run_job(job, replace(pictures, held=held)).result.stages["1-personalize"].outcome.facts
    assert told["by_subgroup"]["light"] == {"epoch": 0, "strength": None, "n": 0, "held": 6, "left_out": {}}
    dark = told["by_subgroup"]["dark"]
    assert dark["held"] - dark["n"] > 3  # and a fold that, less these, would tell them
    assert "north: nothing is told of dark/" in caplog.text
    assert any(f"heads of dark are fitted to {dark['n']} of 50 labelled" in line for line in said)
    assert any("light keeps the global head" in line for line in said)
    assert "north: the head of dark is not fitted to malignant, of fewer than 4 patients" in caplog.text


def test_a_head_of_its_own_has_to_be_proven(crossfit_job, run_job, make_dataset, tmp_path):
    """A subgroup that is like all others keeps the global head; one with other classes is shown to gain."""
    plain = shrunk(crossfit_job(min_count=1)).resolved()
    plain["stages"][1]["selection"] = {}
    pictures = make_dataset({**SIZES, "south": {"dark": (140, 0, 0, 5)}, "west": {"light": (170, 0, 0, 3)}})
    for subgroup, own in ((None, False), (1, True)):
        shown = pictures if subgroup is None else turned(pictures, subgroup)
        ran = run_job(Job.model_validate(plain), shown, out=tmp_path / str(own))
        outcome = ran.result.stages["1-personalize"].outcome
        strength = outcome.facts["by_subgroup"]["dark"]["strength"]
        assert strength is None or outcome.facts["proofs"]["dark"]["holds"] is own
        same = torch.equal(outcome.models["dark"]["encoder.fc.weight"], ran.weights()["encoder.fc.weight"])
        assert same is not own, outcome.facts["by_subgroup"]["dark"]
