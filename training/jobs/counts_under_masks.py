"""Whether counts travel under masks where a job leaves it open: decided alike at all sites.

A hospital goes by the job, by the federation file in its own kit and by the roster, and never by what a
question says. A roster can only add hospitals to those that its kit knows of, so that a coordinator talks no
hospital out of masks.
"""

from collections.abc import Iterable

from training.data.dataset import SERVER
from training.data.settings import DataConfig
from training.jobs.job import Job

FEWEST = 3  # hospitals, without which a sum tells each of two what the other's part is


def over_network(job: Job) -> Job:
    """The job as it is at a site of a network, wherever it says that clients run."""
    return job.model_copy(update={"engine": job.engine.model_copy(update={"name": "nvflare"})})


def hospitals_of(data: DataConfig, known: Iterable[str]) -> frozenset[str]:
    """Those of the known hospitals that such a job is for: of its sources, if any; none that is unseen."""
    named = {client for source in data.sources for client in source.clients}
    unseen = {client for source in data.sources if source.unseen for client in source.clients}
    return frozenset(name for name in known if not named or name in named) - unseen - {SERVER}


def decide_masks(job: Job, hospitals: Iterable[str]) -> Job:
    """The job with `privacy.counts.masks` decided.

    Args:
        job: the job as it was written.
        hospitals: all that are known of.
    """
    if job.privacy.counts.masks is not None:
        return job
    counts = job.privacy.counts.model_copy(update={"masks": why_open(job, hospitals) is None})
    return job.model_copy(update={"privacy": job.privacy.model_copy(update={"counts": counts})})


def why_open(job: Job, hospitals: Iterable[str] | None) -> str | None:
    """Why counts leave in the clear; None where they leave under masks.

    Args:
        job: the job.
        hospitals: all that are known of; None where nobody knows yet, and there may be enough.
    """
    masks, secure = job.privacy.counts.masks, job.privacy.secure_aggregation
    if masks is not None:
        return None if masks else "the job says privacy.counts.masks: false"
    if secure is not None:
        return None if secure.counts else "the job says privacy.secure_aggregation.counts: false"
    if job.engine.name != "nvflare":
        return "all clients are on one machine (engine.name: in-process)"
    alone = [stage.stage for stage in job.stages if stage.needs_client_figures]
    if alone:
        return f"stage {alone[0]} judges models of single hospitals, each on its own counts"
    if any(source.unseen for source in job.data.sources):
        return "hospitals that take no part (unseen: true) are judged each by itself"
    taking_part = None if hospitals is None else hospitals_of(job.data, hospitals)
    if taking_part is not None and len(taking_part) < FEWEST:
        return (
            f"{len(taking_part)} hospitals take part ({', '.join(sorted(taking_part))}), and a sum of fewer "
            f"than {FEWEST} hides too little"
        )
    return None
