"""The hospital's own policy: `policy.yaml` in its kit, which only the hospital writes.

Whatever a job says, a node does no more than its policy allows. The file is read at every request, so that a
change holds at once; one that cannot be read allows nothing. Where there is none, and for every key that it
leaves out, the values here hold: a job that asks for more than they allow is refused until the hospital has
written down that it may.
"""

from collections.abc import Sequence
from datetime import datetime, time
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, field_validator

from clients.federation.errors import PolicyFileError
from training.config import FrozenConfig, read_config
from training.data.settings import identifying

POLICY = "policy.yaml"  # in a kit
Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]


class PrivacyPolicy(FrozenConfig):
    """The least that a job's `privacy` block must guarantee.

    Attributes:
        min_count: the least `privacy.min_count`: of how many patients all must be that is counted, trained
            on, or kept or left out by a selector of the job.
        masked_counts: whether counts are sent only as masked sums.
        masked_weights: whether weights do.
        fewest: the least number of hospitals in any masked sum.
        least_noise: the least noise multiplier on updates (`privacy.client_level`) or on every step of every
            training (`dp-sgd`); null where none is required.
        largest_epsilon: the largest `privacy.counts.epsilon`; null where no noise on counts is required.
        census_apart: whether a run is refused whose numbers of pictures differ by fewer than `min_count`
            patients of a split and subgroup, or of a class, from those that were sent to an earlier run.
        columns: of the manifest, by which a job may filter or divide (`where`, `train_only`, subgroups and
            intersections by column, facts with values of its own). Never one that names pictures, lesions or
            patients.
    """

    min_count: int = Field(10, ge=1)
    masked_counts: bool = True
    masked_weights: bool = False
    fewest: int = Field(3, ge=2)
    least_noise: float | None = Field(None, gt=0)
    largest_epsilon: float | None = Field(None, gt=0)
    census_apart: bool = True
    columns: tuple[str, ...] = ()

    @field_validator("columns")
    @classmethod
    def _name_nobody(cls, columns: tuple[str, ...]) -> tuple[str, ...]:
        for column in columns:
            if identifying(column):
                raise ValueError(
                    f"the column {column!r} names single pictures, lesions or patients, and no job selects "
                    "by it; remove it from privacy.columns"
                )
        return columns


class JobsPolicy(FrozenConfig):
    """Which jobs are done; all where neither is named.

    Attributes:
        digests: of jobs, as `dermfed-node check --job` says them.
        recipes: names of built-in jobs; a job counts as one where its model, stages and rules of evaluation
            are those of the file that is installed here.
    """

    digests: tuple[Digest, ...] = ()
    recipes: tuple[str, ...] = ()

    @field_validator("recipes")
    @classmethod
    def _are_built_in(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        from training.errors import JobError
        from training.jobs.recipes import recipe_path

        for name in names:
            try:
                recipe_path(name)
            except JobError as error:
                raise ValueError(str(error)) from error
        return names


class Hours(FrozenConfig):
    """Hours of the day in which requests are answered, by this machine's clock.

    Attributes:
        days: on which they begin.
        begin, end: `HH:MM`; where the end is not after the beginning, it is on the next day.
    """

    days: tuple[Day, ...] = Field(DAYS, min_length=1)
    begin: time
    end: time

    def hold(self, now: datetime) -> bool:
        """Whether it is such an hour."""
        today, yesterday = DAYS[now.weekday()], DAYS[now.weekday() - 1]
        at = now.time()
        if self.begin < self.end:
            return today in self.days and self.begin <= at < self.end
        return (today in self.days and at >= self.begin) or (yesterday in self.days and at < self.end)


class LimitsPolicy(FrozenConfig):
    """How much of the machine jobs may take.

    Attributes:
        threads: processor threads of the arithmetic; a job that asks for more gets so many.
        gpu: whether a GPU may be used; a job that would use one trains on the processor.
        gpu_memory: the share of a GPU's memory that a job may take.
        disk_gb: gigabytes (10^9 bytes) that the kit's `private/` and the decoded pictures may fill together.
        free_gb: gigabytes that have to be free on the kit's disk.
    """

    threads: int | None = Field(None, ge=1)
    gpu: bool = True
    gpu_memory: float | None = Field(None, gt=0, le=1)
    disk_gb: float | None = Field(None, gt=0)
    free_gb: float | None = Field(None, gt=0)


class Policy(FrozenConfig):
    """The content of `policy.yaml`."""

    version: Literal[1] = 1
    privacy: PrivacyPolicy = PrivacyPolicy()
    jobs: JobsPolicy = JobsPolicy()
    hours: tuple[Hours, ...] = ()
    limits: LimitsPolicy = LimitsPolicy()

    def open_at(self, now: datetime) -> bool:
        """Whether requests are answered at this time; always, where no hours are named."""
        return not self.hours or any(each.hold(now) for each in self.hours)


def read_policy(path: Path) -> Policy:
    """Read and check a hospital's policy; where there is no file, the values that hold without one.

    Raises:
        PolicyFileError: with one line for each thing that is wrong.
    """
    if not path.exists() and not path.is_symlink():
        return Policy()
    holds = "privacy, jobs, hours, limits; without it the safe values hold"
    return read_config(path, Policy, PolicyFileError, what="a policy", holds=holds)


def hours_in_words(hours: Sequence[Hours]) -> str:
    """When requests are answered."""
    return " or ".join(f"{','.join(each.days)} {each.begin:%H:%M} to {each.end:%H:%M}" for each in hours)


def limits_in_words(policy: Policy) -> list[str]:
    """What jobs may take of the machine, each limit by itself."""
    limits = policy.limits
    share = limits.gpu_memory if limits.gpu else None
    told = {
        f"{limits.threads} threads at most, whatever the job says": limits.threads,
        "no GPU: what a job would train on one is trained on the processor": not limits.gpu,
        f"{share or 0:.0%} of a GPU's memory at most": share,
        f"{limits.disk_gb or 0:g} GB at most in private/ and the decoded pictures together": limits.disk_gb,
        f"{limits.free_gb or 0:g} GB have to be free on the kit's disk": limits.free_gb,
    }
    return [text for text, limit in told.items() if limit]
