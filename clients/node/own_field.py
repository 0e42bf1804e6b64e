"""Reads what a node's service knows of the field, for a job that asks for it."""

from collections.abc import Callable
from pathlib import Path

from clients.data.errors import ClientDataError
from registry.bundle.counts.field_counts import FieldFile, read_field_file
from registry.bundle.errors import CountsError
from training.jobs.job import Job


def read_own_field(job: Job, path: Path | None, say: Callable[[str], None]) -> FieldFile | None:
    """The outcomes that `--field` names; None where the job does not ask for them, or there are none.

    Raises:
        ClientDataError: the file cannot be read.
    """
    if not any(stage.stage == "field" for stage in job.stages):
        return None
    if path is None:
        say(f"job {job.name}: no outcomes were given (--field); zeros are sent")
        return None
    try:
        found = read_field_file(path)
    except CountsError as error:
        raise ClientDataError(f"{error}") from error
    outcomes = sum(cell.confirmed for cell in found.cells)
    say(f"job {job.name}: {outcomes:,} outcomes of {found.model} until {found.until}")
    return found
