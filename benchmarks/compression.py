"""What fewer bytes cost: HAM10000 among its clinics, with updates in half precision and in 8 bits.

The recipe `ham10000-clinics` without what follows its training, the same seeds for every form. A run that is
there already is not done again. Prints means over seeds; what is said beside `exact` is paired, bootstrap
replicate by replicate (`paired`). The goal: 8 bits lose at most half a point of balanced accuracy.

    DERMFED_DATA=... python benchmarks/compression.py --runs runs/compression --seeds 3
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import typer
from paired import difference, judged, over_all
from quick import start
from recipe_runs import RecipeRun, read_recipe, run_all
from tables import print_conditions, print_table

from registry.bundle.metrics.classification import accuracy, auroc, balanced_accuracy

BASE = "exact"
FORMS: Mapping[str, Mapping[str, Any]] = {
    BASE: {},
    "half": {"up": "half", "down": "half"},
    "8-bit": {"up": "8-bit", "down": "half"},
}
FIGURES = {"balanced accuracy": balanced_accuracy, "accuracy": accuracy, "AUROC": auroc}


def run_of(form: str, seed: int, aggregator: str | None, rounds: int | None) -> RecipeRun:
    """One run in one form."""
    job = read_recipe("ham10000-clinics")
    stage = dict(job["stages"][0])
    if aggregator is not None:
        stage["aggregator"] = {"name": aggregator}
    if rounds is not None:
        stage["rounds"] = rounds
    name = (
        f"{form.replace(', ', '-').replace(' ', '-')}-{stage['aggregator']['name']}-{stage['rounds']}-{seed}"
    )
    return RecipeRun(name, {**job, "seed": seed, "stages": [stage], "compression": dict(FORMS[form])})


def row(form: str, runs: Sequence[RecipeRun], base: Sequence[RecipeRun], folder: Path) -> list[str]:
    """A form's figures, and what they are beside those of exact numbers."""
    summaries = [json.loads((run.folder(folder) / "summary.json").read_text()) for run in runs]
    stages = [summary["stages"][0] for summary in summaries]
    of, beside = ([judged(run, folder, 0) for run in some] for some in (runs, base))
    cells = [form]
    for name, figure in FIGURES.items():
        point = fmean(summary["test"][name.lower().replace(" ", "_")] for summary in summaries)
        cells.append(f"{point:.4f}")
        if form != BASE:
            change, ends = difference(over_all(figure), of, beside)
            cells[-1] += f" ({change:+.4f}" + (f" [{ends[0]:+.4f}, {ends[1]:+.4f}])" if ends else ")")
    for way in ("bytes_up", "bytes_down"):
        rounds = stages[0]["rounds"]
        lines = [
            json.loads(line) for line in (runs[0].folder(folder) / "metrics.jsonl").read_text().splitlines()
        ]
        cells.append(f"{sum(line[way] for line in lines) / rounds / 1e6:.2f}")
    return cells


def main(
    runs: Annotated[Path, typer.Option(help="Where the runs are kept.")] = Path("runs/compression"),
    seeds: Annotated[int, typer.Option(help="How many seeds, from 0.", min=1)] = 3,
    forms: Annotated[list[str] | None, typer.Option(help=f"Of {', '.join(FORMS)}; exact and 8-bit.")] = None,
    aggregator: Annotated[str | None, typer.Option(help="In place of the recipe's.")] = None,
    rounds: Annotated[int | None, typer.Option(help="In place of the recipe's.")] = None,
    at_once: Annotated[int, typer.Option(help="Runs at once; with several, each has one worker.")] = 1,
) -> None:
    """Run what is missing and print the table."""
    chosen = list(dict.fromkeys((BASE, *(forms or ["8-bit"]))))
    asked = {form: [run_of(form, seed, aggregator, rounds) for seed in range(seeds)] for form in chosen}
    run_all((run for seed in range(seeds) for run in (asked[form][seed] for form in chosen)), runs, at_once)
    stage = asked[BASE][0].job["stages"][0]
    print_conditions(
        "Fewer bytes: HAM10000 among its clinics",
        {"seeds": seeds, "rounds": stage["rounds"], "aggregator": stage["aggregator"]["name"]},
    )
    header = ["form", *(f"{name} (beside exact)" for name in FIGURES), "MB up a round", "MB down a round"]
    print_table(header, [row(form, asked[form], asked[BASE], runs) for form in chosen])


if __name__ == "__main__":
    start(main, "--runs {scratch}/runs --seeds 1 --rounds 1", pictures=True)
