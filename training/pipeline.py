"""The stages of a job, one after another, and what a run leaves behind."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any
from urllib.parse import quote

from registry.bundle.folder import write_bundle
from registry.bundle.metrics.summary import summarise
from training.census import CENSUS, Census
from training.data import Dataset
from training.engines.base import Engine
from training.files import write_text
from training.job import Job
from training.journal import Journal
from training.messages import GLOBAL, Broadcast
from training.models import initial_model
from training.models.groups import float_state
from training.outcome_file import Finished, load_finished, save_finished
from training.polling import Traffic, ask_all
from training.privacy.account import privacy_facts
from training.registrar import Registrar, no_registry
from training.stages.base import Outcome, Setting

NOBODY: Mapping[str, str] = {}


@dataclass(frozen=True)
class RunResult:
    """What a finished run knows.

    Attributes:
        job: the job.
        setting: of its last stage.
        stages: what each stage left, by key in order.
        summary: `summary.json`.
    """

    job: Job
    setting: Setting
    stages: Mapping[str, Finished]
    summary: Mapping[str, Any]


def ask_census(job: Job, dataset: Dataset, engine: Engine, dismissed: Collection[str] = ()) -> Census:
    """Who holds what, refused where it cannot be trained on.

    A subgroup may be nobody's any more where hospitals were dismissed from a run that has begun.

    Raises:
        DataError: for a client or a subgroup without training pictures.
    """
    broadcasts = [Broadcast(client, CENSUS, 0, CENSUS) for client in dataset.clients]
    updates = ask_all(engine, broadcasts, Traffic())
    codes = [label.code for label in dataset.labels]
    census = Census.from_updates(updates, dataset.subgroups, codes, dataset.unseen)
    census.check(whole=not dismissed)
    return census


def run_stages(
    job: Job,
    dataset: Dataset,
    engine: Engine,
    journal: Journal,
    out: Path,
    registrar: Registrar = no_registry,
    dismissed: Mapping[str, str] = NOBODY,
) -> RunResult:
    """All stages of a job; those that have finished before are taken from `out`.

    `dismissed` are clients that took part and are asked no more, and since when.

    Raises:
        TrainingError: whatever stops the run; all that was finished stays in `out`.
    """
    census = ask_census(job, dataset, engine, dismissed)
    model = initial_model(job, len(dataset.labels))
    initial = {name: tensor.clone() for name, tensor in float_state(model).items()}
    outcome, log_bytes = Outcome({GLOBAL: initial}), 0
    finished: dict[str, Finished] = {}
    for place, stage in enumerate(job.stages):
        key = job.key(place)
        setting = Setting(
            job=job,
            key=key,
            folder=out / "checkpoints" / key,
            engine=engine,
            journal=journal,
            labels=dataset.labels,
            subgroups=tuple(dataset.subgroups),
            census=census,
            fingerprint=dataset.fingerprint,
            communities=dataset.communities,
            model=model,
            registrar=registrar,
            dismissed=dismissed,
        )
        journal.stage_start = log_bytes
        done = load_finished(setting.folder, job.digest)
        if done is None:
            started = perf_counter()
            left = stage.run(setting, outcome)
            done = Finished(left, round(perf_counter() - started, 3), journal.size)
            save_finished(setting.folder, job.digest, done)
        stage.tidy(setting.folder)
        finished[key] = done = in_order(done, setting.places)
        outcome, log_bytes = done.outcome, done.log_bytes
    journal.cut(log_bytes)
    summary = summarise_run(setting, finished)
    release(out / "bundles", outcome)
    write_text(out / "summary.json", json.dumps(summary, indent=2) + "\n")
    return RunResult(job, setting, finished, summary)


def in_order(done: Finished, places: Sequence[str]) -> Finished:
    """The same with its test counts in the order of the job's subgroups, as they are not on disk."""
    test = done.outcome.test
    return replace(
        done, outcome=replace(done.outcome, test={name: test[name] for name in places if name in test})
    )


def summarise_run(setting: Setting, finished: Mapping[str, Finished]) -> dict[str, Any]:
    """`summary.json`: the figures of the final models, and of the models after each stage."""
    job = setting.job
    privacy = privacy_facts(job.privacy, setting.journal.lines())
    return {
        "job": job.name,
        "recipe": job.about.system if job.about else job.name,
        "seed": job.seed,
        "digest": job.digest,
        "data": setting.fingerprint,
        "stages": [
            {
                "name": job.stage(key).stage,
                "rounds": done.outcome.rounds,
                "seconds": done.seconds,
                "bytes_up": done.outcome.traffic.up,
                "bytes_down": done.outcome.traffic.down,
                "facts": done.outcome.facts,
                "test": figures(setting, done.outcome),
            }
            for key, done in finished.items()
        ],
        "test": figures(setting, [done.outcome for done in finished.values()][-1]),
        "versions": [
            version for done in finished.values() for version in done.outcome.facts.get("versions", ())
        ],
        **({"privacy": privacy} if privacy else {}),
        **({"dismissed": dict(setting.dismissed)} if setting.dismissed else {}),
    }


def figures(setting: Setting, outcome: Outcome) -> dict[str, Any] | None:
    """The test figures after a stage; None where no test picture was counted."""
    if not outcome.test:
        return None
    details: Mapping[str, Any] = outcome.facts.get("by_subgroup", {})
    traits = setting.job.evaluation.traits
    return summarise(outcome.test, setting.labels, setting.subgroups, details, traits)


def release(folder: Path, outcome: Outcome) -> None:
    """Write the bundles, each in a folder named after whom it is for."""
    for name, bundle in outcome.bundles.items():
        write_bundle(folder / quote(name, safe=" ()+,"), bundle.manifest, bundle.graph)
