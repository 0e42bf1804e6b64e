"""The preflight of a job: all that can be known of a run before it begins."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from training.algorithms.client_state import StateStore
from training.data.dataset import Dataset
from training.federation.census import Census
from training.jobs.job import Job
from training.jobs.pipeline import notes_on_data, require_hospitals, unused_by
from training.jobs.preflight.estimate import StageEstimate, estimate
from training.jobs.preflight.matrix import MatrixRow, matrix
from training.jobs.preflight.rehearsal import patients_of, rehearse
from training.jobs.preflight.timed import time_steps
from training.jobs.try_model import told_of
from training.jobs.who_sees_what import Seen, who_sees_what
from training.models import initial_model
from training.updates.settings import PrivacyConfig

FEW_NAMED = 5  # hospitals that a sentence names


@dataclass(frozen=True)
class Preflight:
    """What is known of a run before it begins.

    Attributes:
        census: who holds what.
        matrix: the same with patients, and which cells are thin.
        notes: what a person has to know: pictures that are not used, subgroups that cannot be judged, parts
            of the model.
        handed_on: the same, with nothing of the tables of pictures quoted.
        estimates: what each stage will take.
        seen: who will see what.
        unused: pictures that are not used, by whose they are.
        unit: what is counted: `pictures`, or `lesions`.
    """

    census: Census
    matrix: tuple[MatrixRow, ...]
    notes: tuple[str, ...]
    handed_on: tuple[str, ...]
    estimates: tuple[StageEstimate, ...]
    seen: tuple[Seen, ...]
    unused: dict[str, dict[str, Any]]
    unit: str = "pictures"

    @property
    def seconds(self) -> float | None:
        """Of all stages that could be timed; None where none could."""
        known = [each.seconds for each in self.estimates if each.seconds is not None]
        return sum(known) if known else None

    def record(self) -> dict[str, Any]:
        """All of it as JSON has it."""
        return {
            "unit": self.unit,
            "census": self.census.table(),
            "matrix": [row.record() for row in self.matrix],
            "notes": list(self.handed_on),
            "unused": self.unused,
            "estimates": [each.record() for each in self.estimates],
            "seconds": self.seconds,
            "seen": [asdict(row) for row in self.seen],
        }


def preflight(job: Job, dataset: Dataset, store: StateStore, known: Sequence[str] = ()) -> Preflight:
    """Look ahead at a run; train nothing that is kept.

    Args:
        job: the job.
        dataset: all of its pictures.
        store: where clients keep what does not travel while a step is tried; nobody's afterwards.
        known: what whoever holds the pictures knows of them besides.

    Raises:
        TrainingError: what would stop the run, where, and what to change.
    """
    census = Census.of_dataset(dataset)
    census.check()
    require_hospitals(job.privacy, census)
    model = initial_model(job.model, job.seed, job.data.image_size, len(dataset.labels), job.data.case)
    with TemporaryDirectory(prefix="dermfed-preflight-") as folder:
        rehearsal = rehearse(job, dataset, census, model, Path(folder))
        timed = time_steps(job, dataset, rehearsal, store)
        estimates = estimate(job, dataset, rehearsal, timed)
    of_model, of_cells = told_of(job, model), (*not_told(job.privacy, census, dataset), *known)
    return Preflight(
        census,
        tuple(matrix(census, patients_of(dataset), job.privacy.min_count)),
        (*of_model, *notes_on_data(dataset, census), *of_cells),
        (*of_model, *notes_on_data(dataset, census, to_owner=False), *of_cells),
        tuple(estimates),
        who_sees_what(job, census.all_hospitals),
        {name: unused.record() for name, unused in unused_by(dataset, census).items()},
        "pictures" if job.data.case is None else "lesions",
    )


def not_told(privacy: PrivacyConfig, census: Census, dataset: Dataset) -> list[str]:
    """A sentence on each subgroup whose test pictures no hospital will tell anything of."""
    rows = [row for row in matrix(census, patients_of(dataset), privacy.min_count) if row.split == "test"]
    found = []
    for name in census.all_subgroups:
        mine = [row for row in rows if row.subgroup == name and row.client in census.all_hospitals]
        held = [row for row in mine if row.patients]
        few = [row for row in held if not row.told]
        if few and len(few) == len(held):
            found.append(
                f"{name}: every hospital has test pictures of fewer than {privacy.min_count} of its patients "
                "(privacy.min_count), so nothing will be told of them; bring more, or merge it with another "
                "subgroup"
            )
        elif few:
            who = ", ".join(str(row.client) for row in few[:FEW_NAMED])
            more = f" and {len(few) - FEW_NAMED} more" if len(few) > FEW_NAMED else ""
            found.append(
                f"{name}: nothing will be told of the test pictures of {who}{more}, which are of fewer than "
                f"{privacy.min_count} patients (privacy.min_count)"
            )
    return found
