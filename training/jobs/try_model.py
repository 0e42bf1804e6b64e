"""A job's model, built and asked once before any picture is decoded: what is wrong shows in seconds."""

import torch
from torch import Tensor

from training.errors import JobError
from training.jobs.job import Job
from training.jobs.stages.federate import Federate
from training.models import Classifier, initial_model

CLASSES = 2  # how many there will be is only known from the data


def try_model(job: Job) -> tuple[str, ...]:
    """Build the model, and give it one black picture of each size that the job shows it.

    Returns:
        What is told of its weights, in a line each; nothing of weights that are drawn.

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
            f"model.weights: with {job.model.weights} the model answers {logits.flatten().tolist()} to a "
            "black picture; the file is damaged, fetch it again"
        )
    return model.origin.lines if model.origin else ()


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
            f"model.name: {job.model.name} cannot take pictures of {size} x {size} pixels ({reason}); choose "
            f"another {setting} or model.options"
        ) from error
    return logits
