"""Runs of a recipe with a few settings changed, kept between calls, and paired differences between them.

Two runs of one seed have the same test pictures. Replicates are drawn from the sums that each run leaves: if
every picture of a bin counts w times, w ~ Poisson(1), the bin of c pictures becomes Poisson(c) (Chamandy et
al. 2012). Where lesions have several pictures, c pictures are worth c / deff independent ones. The two runs
are drawn separately, so that noise which they share does not cancel and intervals are wider than needed.
Differences are means over seeds, whose test splits share a fifth of their lesions.
"""

import hashlib
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from quick import is_quick

from registry.bundle.counting import Block
from registry.bundle.counts import Counts
from registry.bundle.metrics.intervals import Figure, interval, sample_of
from training.errors import JobError
from training.jobs.job import read_job
from training.jobs.recipes import recipe_path
from training.jobs.run_folder import load_finished
from training.rounds.requests import Blocks

# Of a shortened recipe: what each setting is at most; None for parts whose settings are.
SHORT = {
    **{"rounds": 2, "epochs": 1, "warm_up": 1},
    **dict.fromkeys(("batch_size", "queue", "samples"), 16),
    **dict.fromkeys(("objective", "exchange", "strategy")),
}


@dataclass(frozen=True)
class RecipeRun:
    """One run.

    Attributes:
        name: what its folder is called.
        job: the job, its seed included.
    """

    name: str
    job: Mapping[str, Any]

    def folder(self, runs: Path) -> Path:
        """Where it is kept."""
        return runs / self.name


def read_recipe(name: str) -> dict[str, Any]:
    """A recipe as plain data, every default and whatever it extends filled in; short where asked for.

    Raises:
        SystemExit: when there is none of this name.
    """
    try:
        job = read_job(recipe_path(name)).resolved()
    except JobError as error:
        raise SystemExit(str(error)) from error
    return shortened(job) if is_quick() else job


def shortened(job: dict[str, Any]) -> dict[str, Any]:
    """The same parts on few pictures, in a round or an epoch of every stage."""
    stages = [
        {**stage, "evaluations": 5}
        if stage.get("fit") == "converged"
        else {**stage, **{name: short(name, stage[name]) for name in SHORT if name in stage}}
        for stage in job["stages"]
    ]
    changes = {
        "data": {"label_fraction": max(job["data"]["label_fraction"], 0.5)},
        "engine": {"workers": 1},
        "privacy": {"min_count": 1},
    }
    return {**job, **{name: {**job[name], **change} for name, change in changes.items()}, "stages": stages}


def short(name: str, value: Any) -> Any:
    """A setting, or a part with its settings, at its least."""
    if isinstance(value, dict):
        return {key: short(key, inner) for key, inner in value.items()}
    least = SHORT.get(name)
    return value if least is None or not isinstance(value, int) else min(value, least)


def run_all(wanted: Iterable[RecipeRun], runs: Path) -> None:
    """Do all runs that are not there yet.

    Raises:
        CalledProcessError: when a run fails; what is done stays.
    """
    runs.mkdir(parents=True, exist_ok=True)
    for run in wanted:
        out = run.folder(runs)
        if (out / "summary.json").exists():
            continue
        job_file = runs / f"{run.name}.yaml"
        job_file.write_text(yaml.safe_dump(dict(run.job), sort_keys=False))
        command = [sys.executable, "training/run.py", str(job_file), "--out", str(out)]
        command += ["--resume"] if out.exists() else []
        subprocess.run(command, check=True, stdout=sys.stderr)


def cell(runs: Sequence[Mapping[str, Any]], key: str) -> str:
    """The mean of a figure over runs, and in brackets the envelope of the runs' own 95 % intervals."""
    values = [run[key] for run in runs if run[key] is not None]
    ends = [run["intervals"][key] for run in runs if run.get("intervals", {}).get(key)]
    if not values:
        return "unknown"
    digits = 5 if key == "variance" else 3
    mean = f"{sum(values) / len(values):.{digits}f}"
    if not ends:
        return mean
    low, high = min(end[0] for end in ends), max(end[1] for end in ends)
    return f"{mean} [{low:.{digits}f}, {high:.{digits}f}]"


REPLICATES = 200


def resample(block: Block, replicates: int = REPLICATES) -> Counts:
    """Replicates of a block, `(replicates, ...)`; the same counts always give the same."""
    arrays = [getattr(block.point, each.name) for each in fields(Counts)]
    content = hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays))
    generator = np.random.Generator(np.random.PCG64(int.from_bytes(content.digest()[:8], "big")))
    by_class = block.point.confusion.sum(axis=-1).astype(np.float64)
    effect = sample_of(block).effect.of_pictures(by_class)
    drawn = (generator.poisson(array / effect, size=(replicates, *array.shape)) for array in arrays)
    return Counts(*(each.astype(np.int64) for each in drawn))


Subgroups = Mapping[str, Counts]
FigureOf = Callable[[Subgroups], Figure]


@dataclass(frozen=True)
class Judged:
    """One system in one seed: its counts on the test split by subgroup, point and replicates."""

    point: Subgroups
    replicates: Subgroups

    @classmethod
    def of(cls, blocks: Blocks) -> "Judged":
        """From the counts that a stage left."""
        return cls(
            {name: block.point for name, block in blocks.items()},
            {name: resample(block) for name, block in blocks.items()},
        )


def judged(run: RecipeRun, runs: Path, place: int) -> Judged:
    """What the stage at `place` of a finished run left."""
    folder = run.folder(runs)
    job = read_job(folder / "job.resolved.yaml")
    finished = load_finished(folder / "checkpoints" / job.key(place), job.digest)
    assert finished is not None, f"{folder} has no stage {place}"
    return Judged.of(finished.outcome.test)


def difference(
    figure: FigureOf, of: Sequence[Judged], beside: Sequence[Judged]
) -> tuple[float, tuple[float, float] | None]:
    """The mean over seeds of `figure` of the first minus of the second, and its 95 % interval."""
    pairs = list(zip(of, beside, strict=True))
    point = float(np.mean([figure(a.point) - figure(b.point) for a, b in pairs]))
    replicates = np.mean([figure(a.replicates) - figure(b.replicates) for a, b in pairs], axis=0)
    return point, interval(replicates)


def shown_pair(found: tuple[float, tuple[float, float] | None]) -> str:
    """A difference and its interval, with signs."""
    point, ends = found
    return f"{point:+.3f}" if ends is None else f"{point:+.3f} [{ends[0]:+.3f}, {ends[1]:+.3f}]"


def in_subgroup(figure: Callable[[Counts], Figure], name: str) -> FigureOf:
    """A figure of one subgroup's pictures."""
    return lambda subgroups: figure(subgroups[name])


def over_all(figure: Callable[[Counts], Figure]) -> FigureOf:
    """A figure of all pictures together."""

    def pooled(subgroups: Subgroups) -> Figure:
        first, *others = subgroups.values()
        return figure(sum(others, first))

    return pooled
