"""Enforces a hospital's policy at its node: before pictures are opened, and at each question."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import torch

from clients.federation.errors import ClosedHoursError, LimitsError, PolicyError
from clients.node.policy import Policy, hours_in_words, read_policy
from clients.node.policy_verdict import verdicts_on
from training.data.settings import refuse_identifying
from training.jobs.job import Job

GB = 1_000_000_000  # bytes


def now_here() -> datetime:
    """The time by this machine's clock."""
    return datetime.now().astimezone()


@dataclass
class PolicyGuard:
    """Holds jobs and questions against a hospital's policy.

    Attributes:
        path: of `policy.yaml`; read anew each time.
        kept: the folders that jobs fill.
        clock: the time.
    """

    path: Path
    kept: Sequence[Path] = ()
    clock: Callable[[], datetime] = now_here
    _judged: tuple[Policy, str] | None = field(default=None, init=False)

    def policy(self) -> Policy:
        """The policy as it is now.

        Raises:
            PolicyFileError: it cannot be read, and nothing is allowed.
        """
        return read_policy(self.path)

    def admit(self, job: Job) -> Policy:
        """The policy, where it allows a job, now.

        Args:
            job: the job, with masks on counts decided.

        Raises:
            JobError: it selects by a column that names patients, which no policy allows.
            PolicyError: it does not; with every rule that the job breaks.
            ClosedHoursError: not at this hour.
            LimitsError: the disk is fuller than it allows.
            PolicyFileError: it cannot be read.
        """
        policy = self.policy()
        refuse_identifying(job.data, job.evaluation.intersections)
        stamp = job.model_dump_json()
        if self._judged != (policy, stamp):
            broken = [each for each in verdicts_on(policy, job) if not each.allowed]
            if broken:
                told = "; ".join(f"{each.rule}: {each.text}" for each in broken)
                raise PolicyError(f"job {job.name} does not keep to {self.path}: {told}")
            self._judged = (policy, stamp)
        self._look(policy)
        return policy

    def look(self) -> Policy:
        """Whether anything at all may be asked now; the job is not looked at."""
        policy = self.policy()
        self._look(policy)
        return policy

    @property
    def census_apart(self) -> bool:
        """Whether numbers of pictures are held against those of earlier runs."""
        return self.policy().privacy.census_apart

    def limited(self, job: Job) -> Job:
        """The job within what it may take of this machine, whose GPU's memory is divided here."""
        limits = self.policy().limits
        if limits.gpu and limits.gpu_memory is not None and torch.cuda.is_available():
            torch.cuda.set_per_process_memory_fraction(limits.gpu_memory)
        return within_limits(self.policy(), job)

    def _look(self, policy: Policy) -> None:
        now = self.clock()
        if not policy.open_at(now):
            raise ClosedHoursError(
                f"it is {now:%a %H:%M}, and {self.path} allows work {hours_in_words(policy.hours)}"
            )
        limits = policy.limits
        if limits.free_gb is not None:
            free = shutil.disk_usage(self.path.parent).free
            if free < limits.free_gb * GB:
                raise LimitsError(
                    f"{free / GB:.1f} GB are free at {self.path.parent}, limits.free_gb is {limits.free_gb:g}"
                )
        if limits.disk_gb is not None:
            used = sum(bytes_in(folder) for folder in self.kept)
            if used > limits.disk_gb * GB:
                raise LimitsError(
                    f"{used / GB:.2f} GB are in {', '.join(map(str, self.kept))}, limits.disk_gb is "
                    f"{limits.disk_gb:g}; ended runs in private/runs may be removed"
                )


def bytes_in(folder: Path) -> int:
    """The bytes of all files below a folder; files that go meanwhile count nothing."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.lstat().st_size
        except OSError:
            continue
    return total


def within_limits(policy: Policy, job: Job) -> Job:
    """The job with no more threads and no other device than the policy allows."""
    limits, engine = policy.limits, job.engine
    if limits.threads is not None and engine.threads_per_client > limits.threads:
        engine = engine.model_copy(update={"threads_per_client": limits.threads})
    if not limits.gpu and engine.device != "cpu":
        engine = engine.model_copy(update={"device": "cpu"})
    return job if engine is job.engine else job.model_copy(update={"engine": engine})
