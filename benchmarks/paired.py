"""The difference between two systems on the same test pictures, with an interval.

Replicates are drawn from the sums that a run leaves (`resample`), apart for each run. Two runs of one seed
have the same test pictures, and the noise that both share does not cancel: intervals are wider than they need
be. Each seed has a split of its own; differences are means over seeds, and their interval is of the means of
replicates.

What that leaves out: the seeds' test splits are drawn from the same lesions, and two of them share a fifth. A
difference of two distances (spreads) has plain percentiles: what noise adds to both cancels only as far as it
is alike.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from recipe_runs import RecipeRun
from resample import resample

from registry.bundle.counts.counts import Counts
from registry.bundle.metrics.intervals import Figure, interval
from training.jobs.job import read_job
from training.jobs.run_folder import load_finished
from training.rounds.requests import Blocks

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


def shown(found: tuple[float, tuple[float, float] | None]) -> str:
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
