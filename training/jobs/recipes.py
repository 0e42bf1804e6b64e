"""Recipes: a job file per published system with its hyper-parameters, and jobs for known data sets.

Those in `bases/` are no jobs: they hold the data sets, the networks and their fine-tuning that recipes share.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from training.jobs.about import About
from training.jobs.job_file import BUILT_IN, read_plain

if TYPE_CHECKING:
    from training.jobs.job import Job

FOLDER = BUILT_IN
BASES = FOLDER / "bases"
GROUPS = {
    "use": "models for use",
    "system": "systems of the papers",
    "data set": "jobs for data sets that can be had",
    "ablation": "ablations and other settings, by their system",
}


@dataclass(frozen=True)
class Recipe:
    """One built-in job file."""

    name: str
    path: Path
    about: About

    @cached_property
    def job(self) -> "Job":
        """The job, read and checked when it is asked for: the list of recipes needs no torch."""
        from training.jobs.job import read_job

        return read_job(self.path)

    @property
    def group(self) -> str:
        """The key of `GROUPS` that it is listed under."""
        return "ablation" if self.about.ablation_of else self.about.group


def read_recipes() -> list[Recipe]:
    """Every built-in job file, in whichever folder it is, by name."""
    return [Recipe(path.stem, path, about_of(path)) for path in recipe_paths()]


def about_of(path: Path) -> About:
    """What a built-in job says about itself."""
    return About.model_validate(read_plain(path)["about"])


def recipe_paths() -> list[Path]:
    """The files of all built-in jobs, by name; no two have one name."""
    paths = (path for path in FOLDER.rglob("*.yaml") if BASES not in path.parents)
    return sorted(paths, key=lambda path: path.stem)


def grouped(recipes: Sequence[Recipe]) -> dict[str, list[Recipe]]:
    """The recipes by group, systems first; ablations stand by the system that they are of."""
    ordered = sorted(recipes, key=lambda recipe: (recipe.about.ablation_of or "", recipe.name))
    return {group: [recipe for recipe in ordered if recipe.group == group] for group in GROUPS}
