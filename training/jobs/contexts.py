"""Before the first round: a model that is asked once, and the contexts of the stages of a job."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from training.algorithms.sync import SyncExcept
from training.data.dataset import Dataset
from training.errors import JobError
from training.jobs.job import Job
from training.jobs.noise_plan import NoisePlan
from training.jobs.stages.base import Attest, Registrar, StageContext, no_registry, unsigned
from training.jobs.stages.federate import Federate
from training.jobs.stages.rounds import RoundsStage
from training.messages import Engine
from training.models import Classifier, initial_model
from training.rounds.census import Census
from training.rounds.server.ask import Quorum
from training.rounds.server.metrics import MetricsLog

CLASSES = 2  # how many there will be is only known from the data


def try_model(job: Job) -> tuple[str, ...]:
    """Build the model, and give it one black picture of each size that the job shows it.

    Returns:
        A description of it.

    Raises:
        JobError: it cannot be built, its weights do not fit, or it cannot take such pictures.
    """
    size = job.data.image_size
    model = initial_model(job.model, job.seed, size, CLASSES, job.data.case).eval()
    for small in sizes_of_first_rounds(job):
        logits_of_black(model, job, small, "progressive_resizing.image_size")
    logits = logits_of_black(model, job, size, "data.image_size")
    if not torch.isfinite(logits).all():
        raise JobError(
            f"model.weights: with {', '.join(weights for _, weights in job.model.begins_with)} the model "
            f"answers {logits.flatten().tolist()} to a black picture; the file is damaged, fetch it again"
        )
    return model_notes(job, model)


def model_notes(job: Job, model: Classifier) -> tuple[str, ...]:
    """What a person has to know of a job's model, in a line each.

    Where its weights are from, if they are not drawn; and which stage keeps less of it at clients than it
    seems.
    """
    return (*(line for origin in model.origins for line in origin.lines), *half_kept(job, model))


def half_kept(job: Job, model: Classifier) -> tuple[str, ...]:
    """A line for each stage that keeps a class token whose learned position travels."""
    encoder = model.encoder
    positions, patches = getattr(encoder, "pos_embed", None), getattr(encoder, "patch_embed", None)
    if positions is None or patches is None or positions.shape[1] == patches.num_patches:
        return ()
    return tuple(
        f"stages.{place}.sync keeps class_token at its client, and {job.model.named} adds a learned position "
        "to it, which gets the same gradient and travels: half of what the token learns leaves with it. To "
        "keep all of it, set model.options.no_embed_class: true"
        for place, stage in enumerate(job.stages)
        if isinstance(stage, RoundsStage)
        and isinstance(stage.sync, SyncExcept)
        and "class_token" in stage.sync.groups
    )


def sizes_of_first_rounds(job: Job) -> list[int]:
    """The sizes of pictures that are trained on and not judged by, pixels on both sides."""
    stages = [stage for stage in job.stages if isinstance(stage, Federate)]
    return [each.progressive_resizing.image_size for each in stages if each.progressive_resizing]


def logits_of_black(model: Classifier, job: Job, size: int, setting: str) -> Tensor:
    """What the model says of one black picture.

    Args:
        model: the job's.
        job: for what an error names.
        size: of the picture, pixels on both sides.
        setting: where the job says that size.

    Raises:
        JobError: it cannot take such pictures.
    """
    try:
        with torch.inference_mode():
            logits: Tensor = model(torch.zeros(1, 3, size, size))
    except (RuntimeError, ValueError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise JobError(
            f"model.name: {job.model.named} cannot take pictures of {size} x {size} pixels ({reason}); "
            f"choose another {setting} or model.options"
        ) from error
    return logits


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
