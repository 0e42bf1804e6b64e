"""What `dermfed-train --recipes` prints: the built-in jobs, read without torch."""

import json
from collections.abc import Sequence
from itertools import groupby
from textwrap import fill

from rich.console import Console
from rich.table import Table

from training.jobs.recipes import GROUPS, Recipe, grouped, read_recipes
from training.terminal_table import print_table

ROOM = 60  # columns of a table beside the names


def print_recipes(*, as_json: bool) -> None:
    """The built-in jobs: as JSON by name, in tables the systems first and ablations last."""
    recipes = read_recipes()
    if as_json:
        rows = [
            {
                "name": recipe.name,
                "path": str(recipe.path),
                **recipe.about.model_dump(),
                "group": recipe.group,
                "ablation_of": recipe.about.ablation_of,
            }
            for recipe in recipes
        ]
        print(json.dumps(rows, indent=2))
        return
    if Console().width < max(len(recipe.name) for recipe in recipes) + ROOM:
        print_below_each_other(recipes)
        return
    for group, members in grouped(recipes).items():
        table = Table(title=GROUPS[group], title_justify="left")
        table.add_column("recipe", no_wrap=True)  # a name is there to be copied
        for header in ("system", "paper", "note"):
            table.add_column(header)
        for of, recipes_of in groupby(members, key=lambda recipe: recipe.about.ablation_of):
            if of:
                table.add_section()
                table.add_row(f"of {of}:")
            for recipe in recipes_of:
                table.add_row(recipe.name, recipe.about.system, recipe.about.paper, recipe.about.note)
        print_table(table)


def print_below_each_other(recipes: Sequence[Recipe]) -> None:
    """The built-in jobs on a narrow terminal: a name on a line of its own, and below it what it is."""
    for group, members in grouped(recipes).items():
        print(f"{GROUPS[group]}\n")
        for recipe in members:
            about = recipe.about
            of = f"of {about.ablation_of}" if about.ablation_of else ""
            print(recipe.name)
            for text in filter(None, (of, about.system, about.paper, about.note)):
                print(fill(text, max(Console().width, 20), initial_indent="  ", subsequent_indent="  "))
        print()
