"""The preflight of a job: all that can be known of a run before it begins.

Among it are the pictures by client, split, subgroup and class: which cells are thin, and which are not
disclosed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from logging import LogRecord
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from training.algorithms.client import StateStore
from training.data.cells import count_people
from training.data.dataset import SPLITS, Dataset
from training.errors import TrainingError
from training.jobs.client_app import ClientApp
from training.jobs.contexts import contexts_of
from training.jobs.disclosure_report import Seen, disclosures
from training.jobs.job import Job
from training.jobs.pipeline import notes_on_data, require_hospitals, unused_by
from training.jobs.stages.base import PlannedStage
from training.messages import Answer, Broadcast, Failure
from training.models import Classifier, initial_model
from training.rounds.census import Census
from training.rounds.requests import CANARY, STEPS
from training.rounds.requests import LOGGER as CANARY_LOG
from training.rounds.server.loop import first_requests
from training.rounds.server.metrics import MetricsLog
from training.rounds.server.plan import TrackState

THIN: Final = 10
"""A cell of fewer labelled pictures is marked: were nine of nine found, 0.66 could not be excluded (95 %)."""


@dataclass(frozen=True)
class MatrixRow:
    """One client's pictures of one subgroup in one split.

    Attributes:
        client: None for all hospitals together.
        split: of the pictures.
        subgroup: of the pictures.
        pictures: how many of each class, `unlabelled` last where there are any.
        patients: of how many patients the labelled ones are; None for all hospitals together, who may share
            some.
        disclosed: whether counts of answers about them may leave the client; None where they are not
            requested.
    """

    client: str | None
    split: str
    subgroup: str
    pictures: Mapping[str, int]
    patients: int | None
    disclosed: bool | None

    @property
    def thin(self) -> tuple[str, ...]:
        """The classes of which there are few pictures, or none."""
        return tuple(name for name, n in self.pictures.items() if name != UNLABELLED and n < THIN)

    def record(self) -> dict[str, Any]:
        """The row as JSON has it."""
        return {**asdict(self), "thin": list(self.thin)}


UNLABELLED: Final = "unlabelled"


def matrix(census: Census, patients: Mapping[str, NDArray[np.int64]], min_count: int) -> list[MatrixRow]:
    """The rows of all hospitals together, then of each client.

    Args:
        census: who holds what.
        patients: of how many patients that is, see `rehearsal.patients_of`.
        min_count: statistics of fewer are not reported.
    """
    names = (*census.classes, UNLABELLED)
    nobody = np.zeros((len(SPLITS), len(census.all_subgroups), len(names)), dtype=np.int64)
    everybody = sum((census.counts[name] for name in census.all_hospitals), nobody)
    rows = list(_rows(census, None, everybody, names, None, min_count))
    for client, counts in census.counts.items():
        classes = (*census.codes(client)[:-1], UNLABELLED)
        rows += _rows(census, client, counts, classes, patients[client], min_count)
    return rows


def _rows(
    census: Census,
    client: str | None,
    counts: NDArray[np.int64],
    classes: Sequence[str],
    patients: NDArray[np.int64] | None,
    min_count: int,
) -> list[MatrixRow]:
    rows = []
    for place, split in enumerate(SPLITS):
        for group, subgroup in enumerate(census.all_subgroups):
            held = counts[place, group]
            wanted = client is None and subgroup in census.subgroups
            if not held.sum() and not wanted:
                continue
            pictures = {name: int(n) for name, n in zip(classes, held, strict=True)}
            if not pictures[UNLABELLED]:
                del pictures[UNLABELLED]
            people = None if patients is None else int(patients[place, group])
            judged = split != "train" and people is not None
            disclosed = (people or 0) >= max(min_count, 1) if judged else None
            rows.append(MatrixRow(client, split, subgroup, pictures, people, disclosed))
    return rows


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


def as_disclosed(census: Census, patients: Mapping[str, NDArray[np.int64]], min_count: int) -> Census:
    """The census that knows of which labelled pictures, to judge a model by, a hospital will tell nothing.

    These are of fewer patients of a subgroup than `min_count`. Of training pictures all count.
    """
    judging = np.array([split != "train" for split in SPLITS])
    counts = {}
    for client, held in census.counts.items():
        few = judging[:, None] & (patients[client] < max(min_count, 1))
        counts[client] = held.copy()
        counts[client][few, :-1] = 0
    return replace(census, disclosed=counts)


FEW_NAMED = 5  # hospitals that a sentence names


@dataclass(frozen=True)
class Preflight:
    """What is known of a run before it begins.

    Attributes:
        census: who holds what.
        matrix: the same with patients, and which cells are thin.
        notes: what a person has to know: pictures that are not used, subgroups that cannot be judged.
        handed_on: the same, with nothing of the tables of pictures quoted.
        seconds: of a batch of the first stage that trains; None where none could be timed.
        seen: who will see what.
        unused: pictures that are not used, by whose they are.
        unit: what is counted: `pictures`, or `lesions`.
    """

    census: Census
    matrix: tuple[MatrixRow, ...]
    notes: tuple[str, ...]
    handed_on: tuple[str, ...]
    seconds: float | None
    seen: tuple[Seen, ...]
    unused: dict[str, dict[str, Any]]
    unit: str = "pictures"

    def with_notes(self, more: Sequence[str]) -> "Preflight":
        """The same with what only the owner of the pictures knows of them."""
        return replace(self, notes=(*self.notes, *more), handed_on=(*self.handed_on, *more))

    def record(self) -> dict[str, Any]:
        """All of it as JSON has it."""
        return {
            "unit": self.unit,
            "census": self.census.table(),
            "matrix": [row.record() for row in self.matrix],
            "notes": list(self.handed_on),
            "unused": self.unused,
            "seconds_of_a_batch": self.seconds,
            "seen": [asdict(row) for row in self.seen],
        }


def preflight(job: Job, dataset: Dataset, store: StateStore) -> Preflight:
    """Look ahead at a run; train nothing that is kept.

    Args:
        job: the job.
        dataset: all of its pictures.
        store: where clients keep their local state while a step is tried; not used afterwards.

    Raises:
        TrainingError: what would stop the run, where, and what to change.
    """
    counted = Census.of_dataset(dataset)
    counted.check()
    require_hospitals(job.privacy, counted)
    patients, min_count = patients_of(dataset), job.privacy.min_count
    census = as_disclosed(counted, patients, min_count)
    model = initial_model(job.model, job.seed, job.data.image_size, len(dataset.labels), job.data.case)
    with TemporaryDirectory(prefix="dermfed-preflight-") as folder:
        planned = plan_stages(job, dataset, census, model, Path(folder))
        seconds = time_batch(job, dataset, planned, store)
    rows = matrix(census, patients, min_count)
    of_cells = not_disclosed(rows, census, min_count)
    return Preflight(
        census,
        tuple(rows),
        (*notes_on_data(job, dataset, census), *of_cells),
        (*notes_on_data(job, dataset, census, to_owner=False), *of_cells),
        seconds,
        disclosures(job, census.all_hospitals),
        {name: unused.record() for name, unused in unused_by(dataset, census).items()},
        "pictures" if job.data.case is None else "lesions",
    )


class NoClients:
    """The engine while stages are planned: a stage that asks anybody then is mistaken."""

    def run_round(self, broadcasts: Sequence[Broadcast]) -> Sequence[Answer]:
        """Refuse."""
        raise AssertionError(f"planning asks nobody, and {broadcasts[0].stage} asked {broadcasts[0].ask}")

    def close(self) -> None:
        """Nothing is open."""


def plan_stages(
    job: Job, dataset: Dataset, census: Census, model: Classifier, folder: Path
) -> list[PlannedStage | None]:
    """Plan every stage of a job, and refuse what would stop one of them when its turn comes.

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
    contexts = contexts_of(job, dataset, census, model, folder, NoClients(), log)
    planned = []
    for place, (stage, context) in enumerate(zip(job.stages, contexts, strict=True)):
        try:
            planned.append(stage.look_ahead(context))
        except TrainingError as error:
            reason = str(error).removeprefix(f"{stage.stage}: ")
            raise type(error)(f"stages.{place} ({stage.stage}): {reason}") from error
    return planned


def time_batch(
    job: Job, dataset: Dataset, planned: Sequence[PlannedStage | None], store: StateStore
) -> float | None:
    """Seconds of a batch of the first stage that trains, at one client; None where it cannot be tried alone.

    The client answers a canary twice, of which the first answer warms up; nothing of it is kept.
    """
    first = next((each for each in planned if each is not None and each.epochs), None)
    if first is None:
        return None
    begun = first.plan.aggregator.initial_state()
    requests = first_requests(
        first.plan, {track.name: TrackState(first.weights, begun) for track in first.plan.tracks}
    )
    request = replace(max(requests, key=lambda each: len(dataset.examples(each.client, "train"))), ask=CANARY)
    before = torch.get_num_threads()
    torch.set_num_threads(job.engine.threads_per_client)
    CANARY_LOG.addFilter(_nothing)  # one that needs answers of others fails without a traceback
    try:
        app = ClientApp(job, dataset, store)
        warm = app.answer(request)
        started = perf_counter()
        again = app.answer(request)
        seconds = perf_counter() - started
    finally:
        CANARY_LOG.removeFilter(_nothing)
        torch.set_num_threads(before)
    return None if isinstance(warm, Failure) or isinstance(again, Failure) else seconds / STEPS


def _nothing(record: LogRecord) -> bool:
    return False


def not_disclosed(rows: Sequence[MatrixRow], census: Census, min_count: int) -> list[str]:
    """A sentence on each subgroup whose test results hospitals will not report.

    Args:
        rows: pictures by client, split and subgroup.
        census: who holds what.
        min_count: statistics of fewer patients are not reported.
    """
    tests = [row for row in rows if row.split == "test" and row.client in census.all_hospitals]
    found = []
    for name in census.all_subgroups:
        held = [row for row in tests if row.subgroup == name and row.patients]
        few = [row for row in held if not row.disclosed]
        if few and len(few) == len(held):
            found.append(
                f"{name}: every hospital has test pictures of fewer than {min_count} of its patients "
                "(privacy.min_count), so nothing will be told of them; bring more, or merge it with another "
                "subgroup"
            )
        elif few:
            who = ", ".join(str(row.client) for row in few[:FEW_NAMED])
            more = f" and {len(few) - FEW_NAMED} more" if len(few) > FEW_NAMED else ""
            found.append(
                f"{name}: nothing will be told of the test pictures of {who}{more}, which are of fewer than "
                f"{min_count} patients (privacy.min_count)"
            )
    return found
