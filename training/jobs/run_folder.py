"""The folder of one run: its files, and whether a job may use it."""

import shutil
from pathlib import Path

import yaml

from training.errors import CheckpointError
from training.files import write_text
from training.jobs.job import Job, read_job

CHECK = "check.json"  # what `--check` found; it stands beside a run


class RunFolder:
    """`--out` of one run.

    Args:
        path: the folder; made if it is not there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.job_file = path / "job.resolved.yaml"
        self.metrics = path / "metrics.jsonl"
        self.report = path / "report.html"
        self.checkpoints = path / "checkpoints"
        self.store = path / "clients"
        self.releases = self.store / "releases"
        self.spool = path / "spool"

    def claim(self, job: Job, *, resume: bool) -> None:
        """Take the folder for a job: a new one, or one that the same job began.

        A run that stopped before its first checkpoint, as it does when its data cannot be used, has nothing
        to lose: its folder is taken like a new one.

        Raises:
            CheckpointError: when something else is there, or another job.
        """
        if self.path.exists() and not self.path.is_dir():
            raise CheckpointError(f"{self.path} is a file; --out names a folder: choose another")
        others = [path for path in self.path.iterdir() if path.name != CHECK] if self.path.is_dir() else []
        if not self.job_file.exists() and others:
            raise CheckpointError(f"{self.path} is not empty and holds no run of ours; choose another --out")
        if not any(self.checkpoints.glob("*/round-*")) and not any(self.checkpoints.glob("*/outcome.*")):
            shutil.rmtree(self.checkpoints, ignore_errors=True)
            shutil.rmtree(self.store, ignore_errors=True)
            write_text(self.job_file, yaml.safe_dump(job.resolved(), sort_keys=False, allow_unicode=True))
            return
        if not resume:
            raise CheckpointError(
                f"{self.path} holds a run already; continue it with --resume, or choose another --out"
            )
        changed = differences(read_job(self.job_file), job)
        if changed:
            raise CheckpointError(
                f"{self.path} holds a run of another job: {', '.join(changed[:5])} differ; "
                "resume with the job file it was started with, or choose another --out"
            )


def differences(old: Job, new: Job) -> list[str]:
    """The paths of settings that differ between two jobs and would change the weights."""
    if old.digest == new.digest:
        return []
    before, after = flatten(old.resolved()), flatten(new.resolved())
    return sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))


def flatten(value: object, path: str = "") -> dict[str, object]:
    """Nested settings as dotted paths."""
    items: list[tuple[object, object]]
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    else:
        return {path: value}
    return {
        key: leaf
        for step, inner in items
        for key, leaf in flatten(inner, f"{path}.{step}" if path else f"{step}").items()
    }
