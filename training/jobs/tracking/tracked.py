"""Starts the trackers of a job, and follows its run while it lasts."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from secrets import token_hex

from training.errors import JobError
from training.files import write_text
from training.jobs.job import Job
from training.jobs.run_folder import RunFolder
from training.jobs.settings import TrackingConfig
from training.jobs.tracking.follower import Follower, Tracker
from training.jobs.tracking.mlflow import MLflow
from training.jobs.tracking.tensorboard import TensorBoard

RECORD, EVENTS, STORE = "tracking.json", "tensorboard", "mlflow.db"


def refuse_missing(tracking: TrackingConfig) -> None:
    """Refuse trackers that are not installed, before hours of training and not after them.

    Raises:
        JobError: saying what to install.
    """
    wanted = {"tensorboard": tracking.tensorboard, "mlflow": tracking.mlflow is not None}
    for name, asked in wanted.items():
        if asked and find_spec(name) is None:
            raise JobError(
                f"tracking.{name} needs {name}, which is not installed; install it with `pip install "
                f"'dermfed[{name}]'`, or leave it out"
            )


@contextmanager
def tracked(job: Job, out: Path, log: Callable[[str], None]) -> Iterator[None]:
    """Log the run in `out` to the job's trackers while it lasts; whatever fails there, the run goes on."""
    tracking = job.tracking
    if not tracking.tensorboard and tracking.mlflow is None:
        yield
        return
    follower = Follower(RunFolder(out).metrics, out / "summary.json", trackers_of(job, out), log)
    follower.start()
    try:
        yield
    finally:
        follower.close()


def trackers_of(job: Job, out: Path) -> list[Tracker]:
    """The trackers that a job names; they touch nothing until they are opened, when the run has begun."""
    run = partial(run_name, job, out)
    trackers: list[Tracker] = []
    if job.tracking.tensorboard:
        trackers.append(TensorBoard(out / EVENTS, run))
    if job.tracking.mlflow is not None:
        uri = job.tracking.mlflow.uri or f"sqlite:///{out.absolute().parent / STORE}"
        trackers.append(MLflow(job.tracking.mlflow, uri, job, run))
    return trackers


def run_name(job: Job, out: Path) -> str:
    """What the run in `out` is called elsewhere; one of another job that was there before is forgotten."""
    path = out / RECORD
    if path.exists():
        record = json.loads(path.read_text())
        if record["digest"] == job.digest:
            return str(record["run"])
    shutil.rmtree(out / EVENTS, ignore_errors=True)
    name = token_hex(8)
    write_text(path, json.dumps({"run": name, "digest": job.digest}) + "\n")
    return name
