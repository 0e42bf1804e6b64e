"""What `dermfed-train --recipes` prints: the built-in jobs, read without torch."""

import json
from itertools import groupby

from rich.console import Console
from rich.table import Table

from training.jobs.recipes import GROUPS, grouped, read_recipes


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
        Console().print(table)
