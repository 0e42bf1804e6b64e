"""Runs of a recipe with a few settings changed, as `python training/run.py` would, kept between calls."""

import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from quick import is_quick

from training.errors import JobError
from training.jobs.job import read_job
from training.jobs.recipes import recipe_path

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


def run_all(wanted: Iterable[RecipeRun], runs: Path, at_once: int = 1) -> None:
    """Do all runs that are not there yet; with several at once, each has one worker.

    Raises:
        CalledProcessError: when a run fails; what is done stays.
    """
    workers = 1 if at_once > 1 else None
    with ThreadPoolExecutor(at_once) as pool:
        for asked in [pool.submit(run_one, run, runs, workers) for run in wanted]:
            asked.result()


def run_one(run: RecipeRun, runs: Path, workers: int | None) -> None:
    """Do one run, unless it is there already."""
    out = run.folder(runs)
    if (out / "summary.json").exists():
        return
    runs.mkdir(parents=True, exist_ok=True)
    job_file = runs / f"{run.name}.yaml"
    job_file.write_text(yaml.safe_dump(dict(run.job), sort_keys=False))
    command = [sys.executable, "training/run.py", str(job_file), "--out", str(out)]
    command += ["--resume"] if out.exists() else []
    command += ["--set", f"engine.workers={workers}"] if workers else []
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
