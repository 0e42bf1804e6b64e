"""The built-in jobs, what their block `about` says, and what `--recipes` prints of them; without torch."""

import json
from dataclasses import dataclass
from pathlib import Path
from shutil import get_terminal_size
from textwrap import fill
from typing import Literal

from pydantic import Field

from registry.bundle.text import nearest
from training.config import FrozenConfig
from training.errors import JobError
from training.jobs.job_file import BUILT_IN, read_plain, read_variants, split_variants, with_variants


class About(FrozenConfig):
    """What a recipe is: shown by `--recipes`, of no effect on a run.

    Attributes:
        system: what is trained.
        paper: where it comes from.
        note: which table it is of, and where it departs.
        group: whether it is for use, a paper's system in its form, or a job for a data set; for the list.
    """

    system: str
    paper: str
    note: str = ""
    group: Literal["use", "system", "data set"] = Field("system", exclude=True)


FOLDER = BUILT_IN
BASES = FOLDER / "bases"
GROUPS = {
    "use": "models for use",
    "system": "systems of the papers",
    "data set": "jobs for data sets that can be had",
}


@dataclass(frozen=True)
class Recipe:
    """One built-in job.

    Attributes:
        name: of its file, with its variants, e.g. `fedperl@t3`.
        path: of its file, with its variants.
        about: what it says of itself.
    """

    name: str
    path: Path
    about: About

    @property
    def system(self) -> str:
        """The name of its file, without variants."""
        return self.name.partition("@")[0]

    @property
    def also(self) -> list[str]:
        """The variants that it has from files that it extends."""
        return [] if "@" in self.name else read_variants(self.path)[1]


def read_recipes() -> list[Recipe]:
    """Every built-in job by name, each before the variants of its file."""
    return [
        Recipe(each.name.replace(".yaml", ""), each, About.model_validate(read_plain(each)["about"]))
        for path in recipe_paths()
        for each in [path, *(with_variants(path, [key]) for key in read_variants(path)[0])]
    ]


def recipe_path(name: str) -> Path:
    """Where the built-in job of this name is, e.g. `fedperl@t3`.

    Raises:
        JobError: when there is no such file, or no such variant of it.
    """
    system, *variants = name.split("@")
    known = {path.stem: path for path in recipe_paths()}
    if system not in known:
        raise JobError(f"no built-in job is called {name!r}; {nearest(system, list(known))}")
    path = with_variants(known[system], variants)
    read_plain(path)
    return path


def recipe_paths() -> list[Path]:
    """The files of all built-in jobs, by name; no two have one name."""
    paths = (path for path in FOLDER.rglob("*.yaml") if BASES not in path.parents)
    return sorted(paths, key=lambda path: path.stem)


def print_recipes(*, as_json: bool) -> None:
    """The built-in jobs, each before its variants: as JSON, or by group."""
    recipes = read_recipes()
    if as_json:
        rows = [
            {
                "name": recipe.name,
                "path": str(split_variants(recipe.path)[0]),
                **recipe.about.model_dump(),
                "group": recipe.about.group,
                "also": recipe.also,
            }
            for recipe in recipes
        ]
        print(json.dumps(rows, indent=2))
        return
    for group, title in GROUPS.items():
        print(f"{title}\n")
        system = recipes[0]
        for recipe in recipes:
            system = recipe if recipe.name == recipe.system else system
            if recipe.about.group == group:
                print_recipe(recipe, system)
        print()


def print_recipe(recipe: Recipe, system: Recipe) -> None:
    """A name on a line of its own, and below it what it is, of a variant what sets it apart."""
    print(recipe.name)
    texts = [recipe.about.system, recipe.about.paper, recipe.about.note]
    if recipe is not system:
        shared = [system.about.system, system.about.paper]
        texts = [text for text in texts if text not in shared]
    if recipe.also:
        texts.append(f"also {', '.join(f'@{key}' for key in recipe.also)}")
    for text in filter(None, texts):
        width = max(get_terminal_size().columns, 20)
        print(fill(text, width, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False))
