"""How fair is each aggregator, and what does personalization change? Real pictures, several seeds.

Runs a recipe once for every aggregator and seed (federated training alone), and FedAuto with
personalization under each rule of selection, as `python training/run.py` would; a run that is there already
is not done again. Prints one table per data set: the mean over seeds, and in brackets the envelope of the
runs' own 95 % intervals, which come from bootstrap replicates drawn by lesion.

    DERMFED_DATA=... python benchmarks/fairness.py --runs runs/fairness --seeds 3
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from recipe_runs import RecipeRun, cell, read_recipe, run_all

AGGREGATORS: Mapping[str, Mapping[str, Any]] = {
    "fedavg": {"name": "fedavg"},
    "fedequal": {"name": "fedequal"},
    "fedloss": {"name": "fedloss"},
    "fedexp": {"name": "fedexp", "m": 1},
    "fedauto": {"name": "fedauto", "loss_ratio": 1.5, "max_scale": 3},
}
FIGURES = ("balanced_accuracy", "auroc")
FAIRNESS = ("variance", "gap", "worst", "spread", "spread_standardised")


@dataclass(frozen=True)
class Variant:
    """One row of a table: a job, what its runs are called, and the stage whose figures are shown."""

    name: str
    run: str
    job: Mapping[str, Any]
    stage: int


def variants(recipe: str) -> list[Variant]:
    """The rows of one data set: every aggregator, then both rules of selection if the recipe personalizes.

    FedAuto's own row is the first stage of its personalized run: the same job up to there gives the same
    weights.
    """
    job = read_recipe(recipe)
    federate, *others = job["stages"]
    rows = {
        name: Variant(name, name, {**job, "stages": [{**federate, "aggregator": aggregator}]}, 0)
        for name, aggregator in AGGREGATORS.items()
    }
    for stage in others:
        if stage["stage"] == "personalize":
            for rule in ("floor", "paper"):
                chosen = {**stage, "selection": {**stage["selection"], "rule": rule}}
                name = f"fedauto + finetune, {rule}"
                rows[name] = Variant(name, f"fedauto-{rule}", {**job, "stages": [federate, chosen]}, 1)
            rows["fedauto"] = replace(rows[f"fedauto + finetune, {rule}"], name="fedauto", stage=0)
    return list(rows.values())


def run_of(recipe: str, variant: Variant, seed: int) -> RecipeRun:
    """One run of a row."""
    return RecipeRun(f"{recipe}-{variant.run}-{seed}", {**variant.job, "seed": seed})


def figures(recipe: str, variant: Variant, seed: int, runs: Path) -> dict[str, Any]:
    """The test figures of one run after the variant's stage, with the seconds of the stages up to it."""
    folder = run_of(recipe, variant, seed).folder(runs)
    stages = json.loads((folder / "summary.json").read_text())["stages"]
    test: dict[str, Any] = stages[variant.stage]["test"]
    return {**test, "seconds": sum(stage["seconds"] for stage in stages[: variant.stage + 1])}


def table(recipe: str, rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """One data set as Markdown: overall and fairness figures, then accuracy by subgroup."""
    subgroups = list(
        dict.fromkeys(name for runs in rows.values() for run in runs for name in run["by_subgroup"])
    )
    lines = [f"### {recipe}", "", "| | " + " | ".join((*FIGURES, *FAIRNESS)) + " | seconds a run |"]
    lines.append("|---" * (len(FIGURES) + len(FAIRNESS) + 2) + "|")
    for name, runs in rows.items():
        cells = [cell(runs, key) for key in FIGURES]
        cells += [cell([run["fairness"] for run in runs], key) for key in FAIRNESS]
        seconds = [run["seconds"] for run in runs]
        cells.append(f"{min(seconds):.0f}–{max(seconds):.0f}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    for figure in ("accuracy", "balanced_accuracy", "auroc"):
        lines += ["", f"{figure} by subgroup (n)", ""]
        counts = [f"{name} ({'/'.join(sizes(rows, name))})" for name in subgroups]
        lines += ["| | " + " | ".join(counts) + " |", "|---" * (len(subgroups) + 1) + "|"]
        for name, runs in rows.items():
            cells = [cell([run["by_subgroup"][place] for run in runs], figure) for place in subgroups]
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def sizes(rows: Mapping[str, Sequence[Mapping[str, Any]]], subgroup: str) -> list[str]:
    """The test pictures of a subgroup in each seed's split."""
    first = next(iter(rows.values()))
    return list(dict.fromkeys(str(run["by_subgroup"][subgroup]["n"]) for run in first))


def main(
    runs: Annotated[Path, typer.Option(help="Where the runs are kept.")] = Path("runs/fairness"),
    seeds: Annotated[int, typer.Option(help="How many seeds, from 0.")] = 3,
    recipes: Annotated[list[str] | None, typer.Option(help="Which recipes.")] = None,
    at_once: Annotated[int, typer.Option(help="Runs at once; with several, each has one worker.")] = 1,
) -> None:
    """Run what is missing and print the tables."""
    for recipe in recipes or ["milk10k-fedauto", "ham10000-clinics"]:
        rows = variants(recipe)
        distinct = {variant.run: variant for variant in rows}.values()
        run_all(
            (run_of(recipe, variant, seed) for seed in range(seeds) for variant in distinct), runs, at_once
        )
        found = {row.name: [figures(recipe, row, seed, runs) for seed in range(seeds)] for row in rows}
        print(table(recipe, found), end="\n\n", flush=True)


if __name__ == "__main__":
    typer.run(main)
