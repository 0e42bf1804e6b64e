"""Recipes: a job file per published system with its hyper-parameters, and jobs for known data sets."""

from dataclasses import dataclass
from pathlib import Path

from training.job import About, Job, read_job

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Recipe:
    """One built-in job file."""

    name: str
    path: Path
    job: Job

    @property
    def about(self) -> About:
        """What it is."""
        assert self.job.about is not None, f"{self.path} says nothing about itself"
        return self.job.about


def read_recipes() -> list[Recipe]:
    """Every built-in job file, in whichever folder it is, by name."""
    return [Recipe(path.stem, path, read_job(path)) for path in recipe_paths()]


def recipe_paths() -> list[Path]:
    """The files of all built-in jobs, by name; no two have one name."""
    return sorted(FOLDER.rglob("*.yaml"), key=lambda path: path.stem)
