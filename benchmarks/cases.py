"""What each part of a case is worth: figures under every pattern, beside models trained for one alone.

A recipe of cases with several seeds, each with a split of its own, judged under every pattern of pictures and
facts. Beside it, with `--alone`, the same stage of training on what a pattern shows and nothing
else: what answering any part of a case costs whoever always has the same part.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from quick import start
from recipe_runs import RecipeRun, cell, read_recipe, run_all
from tables import print_conditions, print_table

TONES = ("dark", "medium", "light")
FIGURES = {
    "AUROC of malignancy": "malignancy_auroc",
    "sensitivity": "malignant_sensitivity",
    "specificity": "malignant_specificity",
}
GROUP_FIGURES = {"accuracy": "accuracy", "sensitivity": "malignant_sensitivity"}
WHERE = {"close-up": ["clinical: close-up"], "dermoscopic": ["dermoscopic"]}
ALONE = ("close-up", "dermoscopic", "close-up+dermoscopic", "close-up+dermoscopic+context")


def whole(recipe: str, seed: int) -> RecipeRun:
    """The recipe."""
    name = f"{recipe}-{seed}"
    return RecipeRun(name, {**read_recipe(recipe), "seed": seed, "name": name})


def alone(recipe: str, pattern: str, seed: int) -> RecipeRun:
    """The recipe's training on what one pattern shows, with nothing left out at random."""
    job = read_recipe(recipe)
    *kinds, last = pattern.split("+")
    context = last == "context"
    kinds = kinds if context else [*kinds, last]
    cases = {**job["data"]["cases"], "slots": len(kinds), "kinds": kinds}
    if not context:
        cases["facts"] = []
    shown = [value for kind in kinds for value in WHERE[kind]]
    name = f"{recipe}-alone-{pattern}-{seed}"
    return RecipeRun(
        name,
        {
            **job,
            "seed": seed,
            "name": name.replace("+", "-"),
            "data": {**job["data"], "cases": cases, "where": {"image_type": shown}},
            "model": {**job["model"], "fusion": {"drop_pictures": 0, "drop_facts": 0, "drop_kinds": 0}},
            "stages": job["stages"][:1],
        },
    )


def summary_of(run: RecipeRun, runs: Path) -> Mapping[str, Any]:
    """What a run left."""
    found: Mapping[str, Any] = json.loads((run.folder(runs) / "summary.json").read_text())
    return found


def row_of(name: str, tests: Sequence[Mapping[str, Any]]) -> list[str]:
    """The figures of all, and the AUROC of each tone."""
    tones = [[test["by_subgroup"][tone] for test in tests] for tone in TONES]
    return [
        name,
        *(cell(tests, key) for key in FIGURES.values()),
        *(cell(of, "malignancy_auroc") for of in tones),
        cell(tests, "macro_f1"),
        *([cell(tests, "coverage")] if "coverage" in tests[0] else ["–"]),
    ]


def main(
    runs: Annotated[Path, typer.Option(help="Where runs are kept.")] = Path("runs/cases"),
    recipe: Annotated[str, typer.Option(help="A recipe of cases on MILK10k.")] = "frozen",
    seeds: Annotated[int, typer.Option(help="How many.")] = 3,
    with_alone: Annotated[bool, typer.Option("--alone", help="Also train for one pattern alone.")] = False,
) -> None:
    """Train, and print what each part of a case is worth."""
    wholes = [whole(recipe, seed) for seed in range(seeds)]
    apart = {
        pattern: [alone(recipe, pattern, seed) for seed in range(seeds)] for pattern in ALONE if with_alone
    }
    run_all([*wholes, *(run for of in apart.values() for run in of)], runs)
    by_pattern = [summary_of(run, runs)["stages"][-1]["facts"]["patterns"] for run in wholes]
    print_conditions("What each part of a case is worth", {"recipe": recipe, "seeds": seeds})
    header = ["given", *FIGURES, *(f"{tone}: AUROC" for tone in TONES), "macro F1", "coverage"]
    rows = [row_of(name, [found[name] for found in by_pattern]) for name in by_pattern[0]]
    for pattern, of in apart.items():
        rows.append(row_of(f"{pattern}, trained for it alone", [summary_of(run, runs)["test"] for run in of]))
    print_table(header, rows)

    left_out = [summary_of(run, runs)["stages"][-1]["facts"]["left_out"] for run in wholes]
    rows = [row_of("all that is known", [summary_of(run, runs)["test"] for run in wholes])]
    rows += [row_of(f"without {part}", [found[part] for found in left_out]) for part in left_out[0]]
    print_table(["shown", *header[1:]], rows)

    groups = [summary_of(run, runs)["test"]["intersections"] for run in wholes]
    for column, values in groups[0].items():
        rows = [
            [value, place, *(cell(told, key) for key in GROUP_FIGURES.values())]
            for value, places in values.items()
            for place in places
            if (told := [one for of in groups if (one := of[column].get(value, {}).get(place))])
        ]
        print_table([column, "tone", *GROUP_FIGURES], rows)


if __name__ == "__main__":
    start(main, "--runs {scratch}/runs --seeds 1 --alone", pictures=True)
