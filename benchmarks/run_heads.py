"""Heads on the frozen features that a finished run has of its lesions, fitted again on any of them.

A run of `quick` or `best`, at the run's hospitals. Of several encoders the projection has
seen all of the run's training lesions, without labels.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from honesty import Bools, Ints, Lesions, kinds_of, scored
from numpy.typing import NDArray
from recipe_runs import RecipeRun, read_recipe, run_all

from clients.store import ClientStore
from personalization.calibration.temperature import (
    fit_temperature,
    log_likelihoods,
    subgroup_temperature,
)
from training.algorithms.client import Client, HeadRows
from training.algorithms.local_model import LocalModel
from training.data.dataset import Examples
from training.data.folds import in_folds
from training.jobs.job import Job, read_job
from training.jobs.run_folder import load_finished
from training.messages.message import GLOBAL, Shapes, Tensors
from training.models import initial_model
from training.rounds.client.embed import on_features
from training.rounds.client.head_gradient import make_rows, sums_of_gradient, sums_of_rows
from training.rounds.requests import BIAS, SPREAD, WEIGHT
from training.rounds.server.head_fit import HeadFit, Heads, KeptSums, fit_head
from training.wiring import load_data

STAGE = "0-federate"


@dataclass(frozen=True)
class Hospital:
    """All lesions of one hospital: what a head takes of each, and what folds follow from."""

    name: str
    rows: torch.Tensor
    examples: Examples
    trained_on: Bools


@dataclass(frozen=True)
class Study:
    """The lesions of a run, and how its job fits and judges."""

    job: Job
    hospitals: Sequence[Hospital]
    subgroups: Sequence[str]
    codes: Sequence[str]
    penalty: float
    evaluations: int

    @property
    def classes(self) -> int:
        """How many there are."""
        return len(self.codes)

    def held(self, keep: Sequence[Bools], folds: int) -> list[HeadRows]:
        """The rows of some lesions of each hospital, in folds."""
        found = []
        for hospital, kept in zip(self.hospitals, keep, strict=True):
            some = hospital.examples.where(kept)
            least = self.job.privacy.min_count
            placed = in_folds(some, hospital.name, self.subgroups, folds, least)
            assert placed.folds is not None
            found.append(
                HeadRows(
                    hospital.rows[torch.from_numpy(kept)],
                    torch.from_numpy(some.labels),
                    torch.ones(len(some), dtype=torch.float64),
                    torch.from_numpy(placed.folds),
                )
            )
        return found

    def fit(
        self,
        held: Sequence[HeadRows],
        folds: int,
        penalty: float | None = None,
        most: int | None = None,
        towards: Heads | None = None,
    ) -> HeadFit:
        """Heads fitted as the stage `federate` does, or `shrink`, on sums over hospitals."""

        def ask(request: str, tensors: Tensors, shapes: Shapes) -> Tensors:
            answers = [
                sums_of_rows(each, self.classes)
                if request == SPREAD
                else sums_of_gradient(each, tensors[WEIGHT], tensors[BIAS])
                for each in held
            ]
            return {name: sum((answer[name] for answer in answers[1:]), answers[0][name]) for name in shapes}

        with tempfile.TemporaryDirectory() as folder:
            return fit_head(
                ask,
                KeptSums(Path(folder), "job"),
                self.classes,
                held[0].rows.shape[1],
                self.penalty if penalty is None else penalty,
                self.evaluations if most is None else most,
                folds=folds,
                towards=towards,
            )


def read(run: Path) -> Study:
    """The lesions of a finished run."""
    path = run / "job.resolved.yaml"
    job = read_job(path)
    data = load_data(job, path)
    model = initial_model(job.model, job.seed, job.data.image_size, len(data.labels), job.data.case)
    store, least = ClientStore(run / "clients"), job.privacy.min_count
    hospitals = []
    for name in data.clients:
        client = Client(name, job.seed, least, data, store, LocalModel(model, "cpu"))
        seeing = on_features(client, STAGE)
        parts = [seeing.examples(split) for split in ("train", "test")]
        parts = [part.where(part.labels >= 0) for part in parts]
        rows = torch.cat([make_rows(STAGE, seeing, part).rows for part in parts])
        joined = {
            of: np.concatenate([getattr(part, of) for part in parts])
            for of in ("rows", "labels", "subgroups", "lesions", "names")
        }
        trained_on = np.arange(len(rows)) < len(parts[0])
        hospitals.append(Hospital(name, rows, Examples(parts[0].images, **joined), trained_on))
    stage = job.stages[0]
    return Study(
        *(job, hospitals, data.subgroups, [label.code for label in data.labels]),
        *(stage.penalty, stage.evaluations),
    )


def in_parts(study: Study, parts: int, random: np.random.Generator) -> list[Ints]:
    """The part of each lesion, by hospital: patients are dealt whole."""
    people = np.unique(np.concatenate([each.examples.people for each in study.hospitals]))
    of = random.permutation(len(people)) % parts
    return [of[np.searchsorted(people, each.examples.people)] for each in study.hospitals]


@dataclass(frozen=True)
class Answered:
    """Logits of some lesions `(lesions, classes)`, with their classes, tones, hospitals and patients."""

    logits: NDArray[np.float64]
    labels: Ints
    tones: Ints
    hospital: Ints
    people: Ints

    def of(self, tone: int) -> "Answered":
        """Those of one tone."""
        chosen = self.tones == tone
        return Answered(*(values[chosen] for values in vars(self).values()))

    def lesions(self, temperature: float, kinds: Ints) -> Lesions:
        """As thresholds are fitted to them."""
        scaled = torch.softmax(torch.from_numpy(self.logits / temperature), dim=1).numpy()
        return replace(scored(scaled, self.labels, kinds), hospital=self.hospital)


def answered(study: Study, keep: Sequence[Bools], logits: Sequence[torch.Tensor]) -> Answered:
    """These logits of some lesions of each hospital, with what is known of them."""
    some = [each.examples.where(kept) for each, kept in zip(study.hospitals, keep, strict=True)]
    place = np.repeat(np.arange(len(some)), [len(each) for each in some])
    joined = [np.concatenate([getattr(each, of) for each in some]) for of in ("labels", "subgroups")]
    people = np.concatenate([each.people for each in some])
    return Answered(torch.cat(list(logits)).numpy(), *joined, place, people)


def answered_by(study: Study, keep: Sequence[Bools], heads: Heads) -> Answered:
    """The answers of the first head to some lesions of each hospital."""
    weight, bias = heads[0][0], heads[1][0]
    rows = [each.rows[torch.from_numpy(kept)] for each, kept in zip(study.hospitals, keep, strict=True)]
    return answered(study, keep, [each @ weight.T + bias for each in rows])


def left_out(held: HeadRows, heads: Heads) -> torch.Tensor:
    """Each row's logits by the head without its fold."""
    weight, bias = heads
    logits = torch.zeros(len(held.rows), weight.shape[1], dtype=torch.float64)
    assert held.folds is not None
    for fold in held.folds.unique().tolist():
        own = held.folds == fold
        logits[own] = held.rows[own] @ weight[1 + fold].T + bias[1 + fold]
    return logits


def answers(
    study: Study, heads: Heads, fitted: Sequence[Bools], rest: Sequence[Bools], folds: int
) -> list[tuple[str, Lesions, Lesions]]:
    """By tone the lesions that heads are fitted to, scored without their fold, and others, by the first."""
    kinds, least = kinds_of(study.codes), study.job.privacy.min_count
    seen = answered(study, fitted, [left_out(each, heads) for each in study.held(fitted, folds)])
    other = answered_by(study, rest, heads)
    of_all = fit_temperature(log_likelihoods(seen.logits, seen.labels), len(seen.labels))
    found = []
    for number, tone in enumerate(study.subgroups):
        own = seen.of(number)
        sums = log_likelihoods(own.logits, own.labels)
        temperature = subgroup_temperature(sums, len(own.labels), of_all, least).value
        found.append((tone, own.lesions(temperature, kinds), other.of(number).lesions(temperature, kinds)))
    return found


def heads_of(study: Study, run: Path) -> Heads:
    """The head of a run, and those without each fold."""
    finished = load_finished(run / "checkpoints" / STAGE, study.job.digest)
    assert finished is not None, "the run has finished its first stage"
    own = [finished.outcome.models[GLOBAL], *finished.outcome.folds.get(GLOBAL, ())]
    weight, bias = (torch.stack([head[f"head.{of}"] for head in own]) for of in ("weight", "bias"))
    return weight.double(), bias.double()


def run_of(run: Path | None, out: Path) -> Path:
    """The run, or one of `quick` that is done first."""
    if run is not None:
        return run
    wanted = RecipeRun("quick", read_recipe("quick"))
    run_all([wanted], out, 1)
    return wanted.folder(out)
