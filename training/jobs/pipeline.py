"""Runs the stages of a job one after another, and writes what the run leaves behind.

Before that it names the gaps in what clients hold: they stop nothing, and are in the run's log, report and
summary, since metrics of few pictures look like any others.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import reduce
from operator import add
from pathlib import Path
from time import perf_counter
from typing import Any
from urllib.parse import quote

import numpy as np

from registry.bundle.folder import write_bundle
from registry.bundle.labels import Label, malignant_classes
from registry.bundle.metrics.intervals import clopper_pearson
from registry.bundle.metrics.patient import ALL, Judged, findings
from registry.bundle.metrics.selective import decided
from registry.bundle.metrics.summary import summarise
from training.data.dataset import SPLITS, Dataset
from training.data.unused import Unused, unused_of
from training.errors import QuorumError
from training.files import write_text
from training.jobs.contexts import NOBODY, contexts_of, model_notes
from training.jobs.job import Job
from training.jobs.noise_plan import NoisePlan
from training.jobs.run_folder import FinishedStage, load_finished, save_finished
from training.jobs.stages.base import Attest, Registrar, StageContext, StageResult, no_registry, unsigned
from training.messages import GLOBAL, Broadcast, Engine
from training.models import initial_model
from training.models.classifier import float_state
from training.privacy.noisy_updates import privacy_facts
from training.privacy.settings import PrivacyConfig
from training.rounds.census import CENSUS, Census
from training.rounds.server.ask import Traffic, ask_all
from training.rounds.server.metrics import MetricsLog

WANTED = 0.8
"""If no sensitivity below this could be excluded though every malignant picture were found, it is told."""


def gaps(census: Census, labels: Sequence[Label]) -> list[str]:
    """A sentence for each gap.

    Args:
        census: who holds what.
        labels: the classes.
    """
    return [*untested(census, labels), *not_reached(census), *at_one_hospital(census, labels)]


def untested(census: Census, labels: Sequence[Label]) -> Iterator[str]:
    """Subgroups, and all pictures together, without test pictures or with few malignant ones."""
    test, malignant = SPLITS.index("test"), malignant_classes(labels)
    hospitals = [census.counts[name][test, :, :-1] for name in census.all_hospitals]
    counts = sum(hospitals, np.zeros((len(census.all_subgroups), len(labels)), dtype=np.int64))
    if not counts.sum():
        yield "no hospital has a labelled test picture: no model will be judged; raise data.split.test"
        return
    advice = "bring more, merge it with another subgroup, or raise data.split.test"
    for name, by_class in zip(census.subgroups, counts, strict=False):
        if not by_class.sum():
            yield f"{name}: no labelled test pictures, so nothing will be known of how it is served; {advice}"
        elif malignant.any() and not malignant.all():
            found = int(by_class[malignant].sum())
            if lowest(found) < WANTED:
                yield f"{name}: {shown_by(found)}; {advice}"


def shown_by(malignant: int) -> str:
    """What so few malignant test pictures can show."""
    if not malignant:
        return "no malignant test pictures, so it will be unknown whether malignant lesions are found"
    pictures = "picture" if malignant == 1 else "pictures"
    return (
        f"{malignant} malignant test {pictures}: were every one found, a sensitivity of "
        f"{lowest(malignant):.2f} could still not be excluded (95 %)"
    )


def lowest(n: int) -> float:
    """The lower end of the 95 % interval of n found of n (Clopper & Pearson 1934)."""
    return clopper_pearson(n, n)[0]


def not_reached(census: Census) -> Iterator[str]:
    """Hospitals without training pictures, and those none of whose are of a subgroup, where there are any."""
    train = SPLITS.index("train")
    for name in census.all_hospitals:
        pictures = census.counts[name][train].sum(axis=1)
        if not pictures.sum():
            yield f"{name}: no training pictures: it trains nothing, and only judges models"
        elif census.subgroups and not pictures[:-1].sum():
            yield (
                f"{name}: none of its {int(pictures.sum())} training pictures is of a declared subgroup: it "
                "trains the global model, and no subgroup's; declare skin tones, or name their scale in "
                "data.subgroups"
            )


def at_one_hospital(census: Census, labels: Sequence[Label]) -> Iterator[str]:
    """Classes of which one hospital alone, of several that train, has labelled training pictures."""
    train = SPLITS.index("train")
    by_class = {name: census.counts[name][train, :, :-1].sum(axis=0) > 0 for name in census.all_hospitals}
    holders = sum(by_class.values(), np.zeros(len(labels), dtype=np.int64))
    if sum(held.any() for held in by_class.values()) < 2:
        return
    for name, held in by_class.items():
        alone = [label.code for label, here in zip(labels, held & (holders == 1), strict=True) if here]
        if alone:
            yield (
                f"{name}: no other hospital has labelled training pictures of {', '.join(alone)}; merge "
                "classes by data.label_map if the others have them under another name"
            )


@dataclass(frozen=True)
class RunResult:
    """The result of a finished run: its stages' results and its summary.

    Attributes:
        job: the job.
        context: of its last stage.
        stages: what each stage left, by key in order.
        summary: `summary.json`.
    """

    job: Job
    context: StageContext
    stages: Mapping[str, FinishedStage]
    summary: Mapping[str, Any]


def ask_census(job: Job, dataset: Dataset, engine: Engine, dismissed: Collection[str] = ()) -> Census:
    """Take the census of all clients, and refuse what cannot be trained on.

    A subgroup may have no client left where hospitals were evicted from a run that has begun.

    Raises:
        DataError: for a client or a subgroup without training pictures.
    """
    broadcasts = [Broadcast(client, CENSUS, 0, CENSUS) for client in dataset.clients]
    updates = ask_all(engine, broadcasts, Traffic())
    codes = [label.code for label in dataset.labels]
    census = Census.from_updates(updates, dataset.subgroups, codes, dataset.unseen)
    census.check(whole=not dismissed)
    return census


def more_hospitals(privacy: PrivacyConfig) -> str:
    """What to do where masks need more hospitals than there are."""
    if privacy.secure_aggregation is not None:
        return "Bring more, or lower privacy.secure_aggregation.fewest"
    return "Bring more, or set privacy.counts.masks: false: the coordinator then sees each hospital's counts"


def require_hospitals(privacy: PrivacyConfig, census: Census) -> None:
    """Refuse to begin with fewer hospitals than a masked sum is ever over.

    Raises:
        QuorumError: naming those that there are, and what to do.
    """
    trainers = census.holders("train", census.all_subgroups, labelled=False)
    of_weights = [name for name in census.all_hospitals if name in trainers]
    for what, masks, hospitals in (
        ("weights", privacy.secure_aggregation, of_weights),
        ("counts", privacy.masked_counts, census.all_hospitals),
    ):
        if masks is not None and len(hospitals) < masks.fewest:
            raise QuorumError(
                f"{what} leave hospitals as sums over {masks.fewest} or more, and this run has "
                f"{len(hospitals)}: {', '.join(hospitals)}. {more_hospitals(privacy)}"
            )


def run_stages(
    job: Job,
    dataset: Dataset,
    engine: Engine,
    metrics_log: MetricsLog,
    out: Path,
    registrar: Registrar = no_registry,
    dismissed: Mapping[str, str] = NOBODY,
    attest: Attest = unsigned,
    left_out: Mapping[str, str] = NOBODY,
    notes: Sequence[str] = (),
) -> RunResult:
    """All stages of a job; those that have finished before are taken from `out`.

    `dismissed` are clients that took part and are asked no more, and since when. `attest` signs the figures
    of bundles. `left_out` are sites that never took part, and why. `notes` go to the log and to the report.

    Raises:
        TrainingError: whatever stops the run; all that was finished stays in `out`.
    """
    census = ask_census(job, dataset, engine, dismissed)
    require_hospitals(job.privacy, census)
    model = initial_model(job.model, job.seed, job.data.image_size, len(dataset.labels), job.data.case)
    for line in (*model_notes(job, model), *notes_on_data(job, dataset, census), *notes):
        metrics_log.log(line)
    initial = {name: tensor.clone() for name, tensor in float_state(model).items()}
    outcome, log_bytes = StageResult({GLOBAL: initial}), 0
    finished: dict[str, FinishedStage] = {}
    contexts = contexts_of(
        job,
        dataset,
        census,
        model,
        out / "checkpoints",
        engine,
        metrics_log,
        registrar,
        dismissed,
        attest,
    )
    before = [load_finished(context.folder, job.digest) for context in contexts]
    for stage, context, done in zip(job.stages, contexts, before, strict=True):
        if done is None:
            stage.look_ahead(context)
    for stage, context, done in zip(job.stages, contexts, before, strict=True):
        metrics_log.stage_start = log_bytes
        announce(metrics_log, job, context.key, len(census.counts), before=done is not None)
        if done is None:
            started = perf_counter()
            left = with_missing(stage.run(context, outcome), context)
            done = FinishedStage(left, round(perf_counter() - started, 3), metrics_log.size)
            save_finished(context.folder, job.digest, done, context.shown)
        stage.tidy(context.folder)
        finished[context.key] = done = in_order(done, context.all_subgroups)
        outcome, log_bytes = done.outcome, done.log_bytes
    metrics_log.cut(log_bytes)
    summary = {
        **summarise_run(job, context, finished),
        "unused": {name: unused.record() for name, unused in unused_by(dataset, census).items()},
        **({"left_out": dict(left_out)} if left_out else {}),
        "notes": [*notes_on_data(job, dataset, census, to_owner=False), *notes],
    }
    release(out / "bundles", outcome)
    write_text(out / "summary.json", json.dumps(summary, indent=2) + "\n")
    return RunResult(job, context, finished, summary)


def with_missing(left: StageResult, context: StageContext) -> StageResult:
    """What a stage left, with who is missing from its figures, where anybody is."""
    if not context.quorum.missing:
        return left
    told = {**context.missing, "reasons": dict(context.quorum.missing)}
    return replace(left, facts={**left.facts, "missing": told})


def unused_by(dataset: Dataset, census: Census) -> Mapping[str, Unused]:
    """The pictures that are not used: of all together where they are in one place, else of each hospital."""
    unused = unused_of(dataset)
    return census.unused if unused is None else {ALL: unused}


def notes_on_data(job: Job, dataset: Dataset, census: Census, *, to_owner: bool = True) -> list[str]:
    """Notes on a job's data before it begins: what is not used, and what cannot be evaluated.

    Args:
        job: the job.
        dataset: its pictures.
        census: who holds what.
        to_owner: whether the notes are for the owner of the pictures; else nothing of their tables is quoted.
    """
    own = unused_of(dataset)
    if own is not None:
        told = own.lines(to_owner=to_owner)
    else:
        told = [f"{name}: {line}" for name, unused in census.unused.items() for line in unused.lines()]
    least = job.privacy.min_count
    if job.engine.name == "nvflare" and least > 1:
        told.append(
            f"each hospital withholds what is of fewer than {least} patients of one split, subgroup or class "
            "(privacy.min_count): patients of a rare skin tone or diagnosis may be missing from figures and "
            "from their subgroup's training, and only the hospital's log says how many"
        )
    if job.engine.name == "nvflare":
        told.append(
            "pictures and patients of two hospitals are not compared: a patient at both may be in one's "
            "training and in the other's test"
        )
    return [*told, *gaps(census, dataset.labels)]


def announce(log: MetricsLog, job: Job, key: str, clients: int, *, before: bool) -> None:
    """Say which stage of how many begins, how many rounds it has, and at how many clients."""
    stage, place = job.stage(key), int(key.partition("-")[0])
    rounds = [] if stage.num_rounds is None else [several(stage.num_rounds, "round")]
    details = ["done before"] if before else [*rounds, several(clients, "client")]
    log.progress.stage(key, place + 1, len(job.stages), [stage.stage, *details])


def several(count: int, what: str) -> str:
    """`1 round`, `2 rounds`."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def in_order(done: FinishedStage, all_subgroups: Sequence[str]) -> FinishedStage:
    """The stage with its test counts in the order of the job's subgroups, as they are not on disk."""
    test = done.outcome.test
    return replace(
        done, outcome=replace(done.outcome, test={name: test[name] for name in all_subgroups if name in test})
    )


def summarise_run(job: Job, context: StageContext, finished: Mapping[str, FinishedStage]) -> dict[str, Any]:
    """`summary.json`: the figures of the final models, and of the models after each stage."""
    privacy = privacy_facts(
        job.privacy, context.metrics_log.lines(), NoisePlan(job.privacy, job.stages).facts()
    )
    last = [done.outcome for done in finished.values()][-1]
    counted = {name: int(block.point.n) for name, block in last.test.items()}
    not_counted = context.census.not_counted("test", counted) if counted else {}
    tests = {key: figures(context, done.outcome) for key, done in finished.items()}
    judged = [
        Judged(job.stage(key).stage, test, finished[key].outcome.facts.get("models", {}))
        for key, test in tests.items()
        if test is not None and not finished[key].outcome.tests_local_models
    ]
    return {
        "job": job.name,
        "recipe": job.about.system if job.about else job.name,
        "seed": job.seed,
        "digest": job.digest,
        "data": context.fingerprint,
        "stages": [
            {
                "name": job.stage(key).stage,
                "rounds": done.outcome.rounds,
                "seconds": done.seconds,
                "bytes_up": done.outcome.traffic.up,
                "bytes_down": done.outcome.traffic.down,
                "facts": done.outcome.facts,
                "test": tests[key],
            }
            for key, done in finished.items()
        ],
        "test": list(tests.values())[-1],
        "findings": [asdict(found) for found in findings(judged)],
        **({"not_counted": not_counted} if not_counted else {}),
        "versions": [
            version for done in finished.values() for version in done.outcome.facts.get("versions", ())
        ],
        **({"privacy": privacy} if privacy else {}),
        **({"dismissed": dict(context.dismissed)} if context.dismissed else {}),
    }


def figures(context: StageContext, outcome: StageResult) -> dict[str, Any] | None:
    """The test figures after a stage; None where no test picture was counted."""
    if not outcome.test:
        return None
    details: Mapping[str, Any] = outcome.facts.get("by_subgroup", {})
    traits = context.job.evaluation.traits
    found = summarise(outcome.test, context.labels, context.subgroups, details, traits)
    total = reduce(add, outcome.test.values())
    if total.decisions is None:
        return found
    of_all = decided(total.decisions, total.kinds)
    return {**found, **of_all, "intervals": {**found["intervals"], **of_all["intervals"]}}


def release(folder: Path, outcome: StageResult) -> None:
    """Write the bundles, each in a folder named after whom it is for."""
    for name, bundle in outcome.bundles.items():
        write_bundle(folder / quote(name, safe=" ()+,"), bundle.manifest, bundle.graph)
