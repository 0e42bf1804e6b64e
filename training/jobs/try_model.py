"""A job's model, built and asked once before any picture is decoded: what is wrong shows in seconds."""

import torch

from training.errors import JobError
from training.jobs.job import Job
from training.models import initial_model

CLASSES = 2  # how many there will be is only known from the data


def try_model(job: Job) -> tuple[str, ...]:
    """Build the model, and give it one black picture of the job's size.

    Returns:
        What is told of its weights, in a line each; nothing of weights that are drawn.

    Raises:
        JobError: it cannot be built, its weights do not fit, or it cannot take such pictures.
    """
    size = job.data.image_size
    model = initial_model(job.model, job.seed, size, CLASSES, job.data.case).eval()
    try:
        with torch.inference_mode():
            logits = model(torch.zeros(1, 3, size, size))
    except (RuntimeError, ValueError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise JobError(
            f"model.name: {job.model.name} cannot take pictures of {size} x {size} pixels ({reason}); choose "
            "another data.image_size or model.options"
        ) from error
    if not torch.isfinite(logits).all():
        raise JobError(
            f"model.weights: with {job.model.weights} the model answers {logits.flatten().tolist()} to a "
            "black picture; the file is damaged, fetch it again"
        )
    return model.origin.lines if model.origin else ()
