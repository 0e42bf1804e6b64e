"""Was it this patient, or another of the same class? Whoever knows all other pictures reads noisy answers.

The attacker is the coordinator: it knows the weights, every other picture and what the model answers for the
patient. It takes all that a run tells of a split, and goes by the likelihood ratio, which nothing beats. Over
many runs, at every threshold t, differential privacy keeps

    P(called this patient | it is) ≤ e^ε P(called this patient | it is another) + δ.
"""

from dataclasses import replace
from fractions import Fraction
from functools import partial
from math import erf, exp, sqrt
from random import Random

import numpy as np
import pytest

from tests.training.privacy.conftest import MemoryStore
from training.algorithms.client import Client
from training.algorithms.local_model import LocalModel
from training.engines.in_process import ClientAppParts
from training.jobs.noise_plan import NoisePlan, allowed, answer_with_noise
from training.messages import GLOBAL, Broadcast, Failure
from training.models import initial_model
from training.models.classifier import float_state
from training.privacy.noisy_counts import discrete_gaussian, rho_of
from training.rounds.client import disclosure
from training.rounds.client import evaluate as door
from training.rounds.requests import EVALUATE, TEST, EvaluateRequest, read_blocks

RUNS = 250
SIZES = {name: {"light": (3, 40, 3, 40)} for name in ("north", "south", "west")}
PATIENT = 7  # of north, a benign one; the model is right about it and wrong about who comes in its place
EPSILON, DELTA = 2.0, 1e-5


@pytest.fixture(autouse=True)
def answers_by_brightness(monkeypatch):
    """A model of which one can say beforehand what it answers."""

    def predict(local_model, examples):
        mean = examples.images[examples.rows].reshape(len(examples), -1).mean(axis=1)
        malignant = 1 / (1 + np.exp((mean - 110) / 10))
        return np.stack([1 - malignant, malignant], axis=1).astype(np.float32)

    monkeypatch.setattr(door, "predict", predict)
    monkeypatch.setattr(LocalModel, "load", lambda self, weights: None)


@pytest.fixture
def worlds(make_dataset):
    """Three hospitals, and the same where one patient of north is another, in all splits that judge."""
    data = make_dataset(SIZES)
    for split in ("validation", "test"):
        examples = data.held["north", split]
        images = examples.images.copy()
        images[PATIENT] = 170
        data.held["north", split] = replace(examples, images=images, lesions=np.arange(len(examples)))
    held = dict(data.held)
    for split in ("validation", "test"):
        examples = held["north", split]
        images = examples.images.copy()
        images[PATIENT] = 50
        held["north", split] = replace(examples, images=images)
    return data, replace(data, held=held)


@pytest.fixture
def job(make_job):
    return make_job(
        federate={"rounds": 6},
        privacy={"counts": {"epsilon": EPSILON, "delta": DELTA, "evaluations": 2}},
    )


def requests(job, split):
    """All that a run asks of a split."""
    weights = float_state(initial_model(job.model, job.seed, 16, 2))
    asked = EvaluateRequest(split=split, subgroups=("light",)).model_dump()
    rounds = sorted(job.privacy.counts.evaluated(6)) if split == "validation" else [0]
    ask = EVALUATE if split == "validation" else TEST
    return [Broadcast("north", "0-federate", round_, ask, GLOBAL, weights, asked) for round_ in rounds]


def parts_of(tensors):
    """Every number with noise in an answer, one after another."""
    (block,) = read_blocks(tensors).values()
    return np.concatenate([part.reshape(-1) for part in block.noisy.parts.values()])


class Hospitals:
    """What the coordinator is told of one world: by one hospital, or of the sum of three."""

    def __init__(self, job, data, together):
        self.job, self.data, self.together = job, data, together
        self.app = ClientAppParts(job, data, MemoryStore()).build()
        privacy = job.privacy.model_copy(
            update={"counts": job.privacy.counts.model_copy(update={"masks": True})}
        )
        self.requests = {split: requests(job, split) for split in ("validation", "test")}
        self.plan = NoisePlan(privacy if together else job.privacy, job.stages)

    def run(self, split):
        """All numbers that a run tells of a split."""
        self.app._store = MemoryStore()
        told = []
        for broadcast in self.requests[split]:
            if not self.together:
                told.append(parts_of(self.app.answer(broadcast).tensors))
                continue
            # What masks leave of three answers (tests/training/privacy/secagg).
            shares = [self.share(replace(broadcast, client=name)) for name in SIZES]
            told.append(np.sum(shares, axis=0))
        return np.concatenate(told)

    def share(self, broadcast):
        client = door_client(self.app, self.job, broadcast)
        return parts_of(answer_with_noise(self.plan, self.job.stages[0], broadcast, client).tensors)

    def variance(self, split):
        return float(self.plan.variance(split)) * (3 if self.together else 1)


def door_client(app, job, broadcast):
    """The client that answers a request."""
    dataset = allowed(app._dataset, broadcast, job.privacy)
    return Client(broadcast.client, 7, 2, dataset, app._store, app._local_model, noisy=True)


def ratios(job, worlds, split, together, scale=Fraction(1)):
    """The log-likelihood ratio of each of many runs, in the world of the patient and in the other one.

    Args:
        job, worlds, split, together: what is attacked.
        scale: the deviation of the noise that is really added, by that of the job's.
    """
    hospitals = [Hospitals(job, world, together) for world in worlds]
    variance = hospitals[0].variance(split)
    real = partial(discrete_gaussian, below=Random(8).randrange)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disclosure, "discrete_gaussian", lambda of, size: np.zeros(size, dtype=np.int64))
        first, second = (each.run(split) for each in hospitals)
        patch.setattr(disclosure, "discrete_gaussian", lambda of, size: real(of * scale**2, size))
        found = []
        for each in hospitals:
            runs = np.stack([each.run(split) for _ in range(RUNS)])
            offline = ((runs - second) ** 2 - (runs - first) ** 2).sum(axis=1) / (
                2 * variance * float(scale) ** 2
            )
            found.append(offline)
    assert np.abs(first - second).sum() == 4  # two parts, and two cells of each
    return found


def worst_excess(with_patient, without):
    """The largest P(called | it is) − e^ε P(called | it is not) − δ at any threshold, in standard errors."""
    worst = -np.inf
    for threshold in np.quantile(np.concatenate([with_patient, without]), np.linspace(0.02, 0.98, 49)):
        hit, false = (with_patient > threshold).mean(), (without > threshold).mean()
        likely = [(share * RUNS + 1) / (RUNS + 2) for share in (hit, false)]  # none of a few is not never
        spread = [share * (1 - share) / RUNS for share in likely]
        error = sqrt(spread[0] + exp(2 * EPSILON) * spread[1])
        worst = max(worst, (hit - exp(EPSILON) * false - DELTA) / error)
    return worst


@pytest.mark.parametrize(("split", "together"), [("validation", False), ("test", False), ("test", True)])
def test_no_more_is_told_than_promised(job, worlds, split, together):
    with_patient, without = ratios(job, worlds, split, together)
    assert worst_excess(with_patient, without) < 3
    assert worst_excess(-without, -with_patient) < 3
    # The account is of noise that is nearly normal, of which the best guess is known.
    advantage = (with_patient > 0).mean() - (without > 0).mean()
    best = erf(sqrt(2 * rho_of(EPSILON, DELTA)) / 2 / sqrt(2))
    assert advantage < best + 3 * sqrt(0.5 / RUNS)


@pytest.mark.parametrize("split", ["validation", "test"])
def test_with_less_noise_more_is_told(job, worlds, split):
    """The control: a quarter of the deviation, and the same attack tells more than the bound allows."""
    with_patient, without = ratios(job, worlds, split, together=False, scale=Fraction(1, 4))
    assert worst_excess(with_patient, without) > 3
    assert (with_patient > 0).mean() - (without > 0).mean() > 0.6


def test_without_noise_the_patient_is_known(make_job, worlds):
    """The control: exact counts name the patient, if one knows the others."""
    plain = make_job(federate={"rounds": 6})
    told = [
        ClientAppParts(plain, world, MemoryStore()).build().answer(requests(plain, "test")[0]).tensors
        for world in worlds
    ]
    first, second = (each["confusion/light"] for each in told)
    assert (first - second).abs().sum() == 2


def test_asking_again_does_not_take_the_noise_away(job, worlds):
    """The mean of many answers would; the same request has one answer, and others are refused."""
    hospital = Hospitals(job, worlds[0], together=False)
    (asked,) = requests(job, "test")
    again = [parts_of(hospital.app.answer(asked).tensors) for _ in range(20)]
    assert len({answer.tobytes() for answer in again}) == 1
    for other in (
        replace(asked, options={**asked.options, "one_per_lesion": not asked.options["one_per_lesion"]}),
        replace(asked, round=5),
        replace(asked, track="light"),
        replace(asked, ask=EVALUATE),
    ):
        assert isinstance(hospital.app.answer(other), Failure)
    # The control: of a hospital that forgets what it told, the mean of many answers is what it hides.
    with pytest.MonkeyPatch.context() as patch:
        known = partial(discrete_gaussian, below=Random(8).randrange)
        patch.setattr(disclosure, "discrete_gaussian", known)
        mean = np.mean([hospital.run("test") for _ in range(RUNS)], axis=0)
        patch.setattr(disclosure, "discrete_gaussian", lambda of, size: np.zeros(size, dtype=np.int64))
        exact = hospital.run("test")
    assert np.abs(mean - exact).max() < 4 * sqrt(hospital.variance("test") / RUNS)
