"""The preflight of a job: all that can be known of a run before it begins."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
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
from training.jobs.preflight.rehearsal import as_told, patients_of, rehearse
from training.jobs.preflight.timed import time_steps
from training.jobs.who_sees_what import Seen, who_sees_what
from training.models import initial_model

FEW_NAMED = 5  # hospitals that a sentence names


@dataclass(frozen=True)
class Preflight:
    """What is known of a run before it begins.

    Attributes:
        census: who holds what.
        matrix: the same with patients, and which cells are thin.
        notes: what a person has to know: pictures that are not used, subgroups that cannot be judged.
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

    def with_notes(self, more: Sequence[str]) -> "Preflight":
        """The same with what whoever holds the pictures knows of them besides."""
        return replace(self, notes=(*self.notes, *more), handed_on=(*self.handed_on, *more))

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


def preflight(job: Job, dataset: Dataset, store: StateStore) -> Preflight:
    """Look ahead at a run; train nothing that is kept.

    Args:
        job: the job.
        dataset: all of its pictures.
        store: where clients keep what does not travel while a step is tried; nobody's afterwards.

    Raises:
        TrainingError: what would stop the run, where, and what to change.
    """
    counted = Census.of_dataset(dataset)
    counted.check()
    require_hospitals(job.privacy, counted)
    patients, min_count = patients_of(dataset), job.privacy.min_count
    census = as_told(counted, patients, min_count)
    model = initial_model(job.model, job.seed, job.data.image_size, len(dataset.labels), job.data.case)
    with TemporaryDirectory(prefix="dermfed-preflight-") as folder:
        rehearsal = rehearse(job, dataset, census, model, Path(folder))
        timed = time_steps(job, dataset, rehearsal, store)
    rows = matrix(census, patients, min_count)
    of_cells = not_told(rows, census, min_count)
    return Preflight(
        census,
        tuple(rows),
        (*notes_on_data(job, dataset, census), *of_cells),
        (*notes_on_data(job, dataset, census, to_owner=False), *of_cells),
        tuple(estimate(job, census, rehearsal, timed)),
        who_sees_what(job, census.all_hospitals),
        {name: unused.record() for name, unused in unused_by(dataset, census).items()},
        "pictures" if job.data.case is None else "lesions",
    )


def not_told(rows: Sequence[MatrixRow], census: Census, min_count: int) -> list[str]:
    """A sentence on each subgroup whose test pictures hospitals will tell nothing of.

    Args:
        rows: pictures by client, split and subgroup.
        census: who holds what.
        min_count: nothing is told of fewer patients.
    """
    tests = [row for row in rows if row.split == "test" and row.client in census.all_hospitals]
    found = []
    for name in census.all_subgroups:
        held = [row for row in tests if row.subgroup == name and row.patients]
        few = [row for row in held if not row.told]
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
