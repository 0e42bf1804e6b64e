"""The contexts in which the stages of a job run, or are planned: the same in a run and before it."""

from collections.abc import Mapping
from pathlib import Path

from training.data.dataset import Dataset
from training.jobs.attest import Attest, unsigned
from training.jobs.job import Job
from training.jobs.noise_plan import NoisePlan
from training.jobs.registrar import Registrar, no_registry
from training.jobs.stages.base import StageContext
from training.messages.engine import Engine
from training.models import Classifier
from training.rounds.census import Census
from training.rounds.server.ask import Quorum
from training.rounds.server.metrics import MetricsLog

NOBODY: Mapping[str, str] = {}


def contexts_of(
    job: Job,
    dataset: Dataset,
    census: Census,
    model: Classifier,
    folder: Path,
    engine: Engine,
    metrics_log: MetricsLog,
    registrar: Registrar = no_registry,
    dismissed: Mapping[str, str] = NOBODY,
    attest: Attest = unsigned,
) -> list[StageContext]:
    """The context of each stage, in order.

    Args:
        job: whose stages.
        dataset: its pictures, or what the coordinator knows of them.
        census: who holds what.
        model: with its initial weights.
        folder: each stage has one of its own there.
        engine: asks the clients.
        metrics_log: the run's log.
        registrar: where released models go.
        dismissed: clients that are asked no more, and since when.
        attest: signs the figures of bundles.
    """
    noise = NoisePlan(job.privacy, job.stages)
    keys = [job.key(place) for place in range(len(job.stages))]
    return [
        StageContext(
            job=job,
            digest=job.digest,
            key=key,
            folder=folder / key,
            engine=engine,
            metrics_log=metrics_log,
            labels=dataset.labels,
            subgroups=tuple(dataset.subgroups),
            census=census,
            fingerprint=dataset.fingerprint,
            communities=dataset.communities,
            model=model,
            registrar=registrar,
            dismissed=dismissed,
            tests=noise.tests(place),
            attest=attest,
            quorum=Quorum(job.evaluation.quorum, log=metrics_log.log),
        )
        for place, key in enumerate(keys)
    ]
