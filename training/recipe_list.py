"""What `dermfed-train --recipes` prints: the built-in jobs, read without torch."""

import json
from shutil import get_terminal_size
from textwrap import fill

from training.jobs.job_file import split_variants
from training.jobs.recipes import GROUPS, Recipe, read_recipes


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
