"""Checks of a training whose batches several processes divide: what cannot be divided is refused."""

from collections.abc import Sequence

import torch
from torch import nn

from training.algorithms.local_model import Device
from training.algorithms.objectives import OBJECTIVES, Objective
from training.algorithms.trains.part import OverPart
from training.errors import JobError
from training.jobs.settings import JobSettings
from training.jobs.stages.base import Stage
from training.models import initial_model

CLASSES = 2  # how many there will be is only known from the data


def refuse_undivided(stages: Sequence[Stage], processes: int) -> None:
    """Refuse objectives whose loss of a batch is not that of its parts, and batches that are too small.

    Args:
        stages: of the job.
        processes: how many divide a batch.

    Raises:
        ValueError: naming the stage, and which objectives may be.
    """
    for each in stages if processes > 1 else ():
        objective = each.divided
        if objective is None:
            continue
        if not objective.divides:
            allowed = [name for name, kind in OBJECTIVES.own.items() if kind.mean_of_pictures]
            raise ValueError(
                f"stage {each.stage}: {processes} processes cannot divide the batches of objective "
                f"{objective.name}, whose loss is of a whole batch, or draws for one; train in one process, "
                f"or use one of {', '.join(allowed)}"
            )
        if objective.batch_size < processes:
            raise ValueError(
                f"stage {each.stage}: objective.batch_size is {objective.batch_size}, and {processes} "
                "processes are to divide a batch; raise it, or train in fewer processes"
            )


def require_divided(job: JobSettings, stages: Sequence[Stage], processes: int, device: Device) -> None:
    """Refuse a job that so many processes of a machine cannot train together.

    Args:
        job: its settings.
        stages: its stages.
        processes: how many divide a batch.
        device: on what they compute.

    Raises:
        JobError: saying why, and what can be.
    """
    try:
        refuse_undivided(stages, processes)
    except ValueError as error:
        raise JobError(f"{job.name}: {error}") from error
    require_gpus(device, processes)
    if processes > 1:
        model = initial_model(job.model, job.seed, job.data.image_size, CLASSES, job.data.case)
        refuse_statistics_on_processor(stages, model, device, processes)


def require_gpus(device: Device, processes: int) -> None:
    """Refuse more processes than there are GPUs, where there are any.

    Raises:
        JobError: saying how many there are.
    """
    gpus = 0 if device == "cpu" else torch.cuda.device_count()
    if processes > 1 and 0 < gpus < processes:
        raise JobError(
            f"{processes} processes are to train together, and torch finds {gpus} "
            f"GPU{'s' if gpus > 1 else ''} here; each needs one of its own. Name as many as "
            "there are GPUs, or one"
        )


def refuse_statistics_on_processor(
    stages: Sequence[Stage], model: nn.Module, device: Device, processes: int
) -> None:
    """Refuse batch normalisation where no GPU is, whose statistics are of a whole batch.

    Raises:
        JobError: naming the stage, a layer, and what to do.
    """
    if processes == 1 or (device != "cpu" and torch.cuda.is_available()):
        return
    gathering = [
        name for name, layer in model.named_modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)
    ]
    moving = [each for each in stages if each.divided is not None and gathers(each.divided)]
    if gathering and moving:
        raise JobError(
            f"stage {moving[0].stage}: {gathering[0]} gathers statistics of a batch, which torch does over "
            f"several processes on GPUs alone, and {processes} are to train together; train in one process "
            "on this machine, or use a model without batch normalisation, e.g. model.options: {norm_layer: "
            "groupnorm} of a ResNet (groupnorm1 for a narrow one), or a ViT"
        )


def gathers(objective: Objective) -> bool:
    """Whether batch normalisations gather statistics where an objective is minimised."""
    return objective.part.gathers if isinstance(objective, OverPart) else True
