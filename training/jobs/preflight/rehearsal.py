"""Every stage of a job is planned before anything is trained, on what hospitals will tell of pictures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from training.data.dataset import SPLITS, Dataset
from training.data.small_cells import count_people
from training.errors import TrainingError
from training.federation.census import Census
from training.federation.server.metrics_log import MetricsLog
from training.jobs.contexts import contexts_of
from training.jobs.job import Job
from training.jobs.stages.base import Rehearsed, StageContext
from training.messages.message import Answer, Broadcast
from training.models import Classifier


class NobodyToAsk:
    """The engine of a rehearsal: a stage that asks anybody while it is planned is mistaken."""

    def run_round(self, broadcasts: Sequence[Broadcast]) -> Sequence[Answer]:
        """Refuse."""
        raise AssertionError(f"a rehearsal asks nobody, and {broadcasts[0].stage} asked {broadcasts[0].ask}")

    def close(self) -> None:
        """Nothing is open."""


@dataclass(frozen=True)
class Rehearsal:
    """A job's stages as they will be.

    Attributes:
        contexts: of each stage.
        planned: what each stage plans; None of one that trains nothing, or does not say.
    """

    contexts: tuple[StageContext, ...]
    planned: tuple[Rehearsed | None, ...]


def rehearse(job: Job, dataset: Dataset, census: Census, model: Classifier, folder: Path) -> Rehearsal:
    """Plan every stage of a job; refuse what would stop one of them when its turn comes.

    Args:
        job: the job.
        dataset: all of its pictures.
        census: who holds what, and of what they may tell.
        model: the job's, with its initial weights.
        folder: for whatever a plan puts on disk.

    Raises:
        TrainingError: naming the stage, why, and what to change.
    """
    log = MetricsLog(folder / "metrics.jsonl")
    contexts = contexts_of(job, dataset, census, model, folder, NobodyToAsk(), log)
    planned = []
    for place, (stage, context) in enumerate(zip(job.stages, contexts, strict=True)):
        try:
            planned.append(stage.look_ahead(context))
        except TrainingError as error:
            reason = str(error).removeprefix(f"{stage.stage}: ")
            raise type(error)(f"stages.{place} ({stage.stage}): {reason}") from error
    return Rehearsal(tuple(contexts), tuple(planned))


def patients_of(dataset: Dataset) -> dict[str, NDArray[np.int64]]:
    """Of how many patients each client's labelled pictures are, `(splits, subgroups + 1)`."""
    places = len(dataset.subgroups) + 1
    found = {}
    for client in dataset.clients:
        counts = []
        for split in SPLITS:
            examples = dataset.examples(client, split)
            labelled = examples.where(examples.labels >= 0)
            counts.append(count_people(labelled.subgroups % places, labelled.people, places))
        found[client] = np.stack(counts)
    return found


def as_told(census: Census, patients: Mapping[str, NDArray[np.int64]], min_count: int) -> Census:
    """The census that knows of which labelled pictures, to judge a model by, a hospital will tell nothing.

    These are of fewer patients of a subgroup than `min_count`. Of training pictures all count.
    """
    judging = np.array([split != "train" for split in SPLITS])
    counts = {}
    for client, held in census.counts.items():
        few = judging[:, None] & (patients[client] < max(min_count, 1))
        counts[client] = held.copy()
        counts[client][few, :-1] = 0
    return replace(census, told=counts)
