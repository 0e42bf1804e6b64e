"""What settings of training are worth by themselves: smoothed labels, mixup, small first rounds, flips.

The recipe `milk10k-finetuned` with each setting beside none of them, on test lesions: several seeds, each
with a split of its own, which all settings share. Flips change nothing in training: the model that was
trained with none is judged once more with them. Differences are paired by seed (`paired`). Seconds are the
mean over rounds, validation included; runs are one after the other, and whatever else the machine does is in
them.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import typer
from paired import difference, in_subgroup, judged, over_all, shown
from quick import start
from recipe_runs import RecipeRun, cell, read_recipe, run_all
from tables import print_conditions, print_table

from registry.bundle.metrics.classification import malignancy_auroc
from training.jobs.stage_result import OUTCOME

RECIPE = "milk10k-finetuned"
NONE, FLIPS = "none", "flips"
DARK = "dark"


def settings(federate: Mapping[str, Any], image_size: int) -> dict[str, dict[str, Any]]:
    """What each setting changes in the stage of rounds, by what it is called."""
    objective, small = federate["objective"], 3 * image_size // 4
    first = federate["rounds"] // 2
    return {
        NONE: {},
        "label smoothing 0.1": {"objective": {**objective, "label_smoothing": 0.1}},
        "mixup 0.2": {"objective": {**objective, "mixup": 0.2}},
        f"first {first} rounds at {small} px": {
            "progressive_resizing": {"rounds": first, "image_size": small}
        },
    }


def trained(seed: int, rounds: int | None) -> dict[str, RecipeRun]:
    """The stage of rounds with each setting."""
    job = read_recipe(RECIPE)
    federate = job["stages"][0]
    federate = {**federate, "rounds": min(rounds or federate["rounds"], federate["rounds"])}
    runs = {}
    for setting, change in settings(federate, job["data"]["image_size"]).items():
        name = f"{setting.replace(' ', '-')}-{seed}"
        runs[setting] = RecipeRun(
            name, {**job, "name": name, "seed": seed, "stages": [{**federate, **change}]}
        )
    return runs


def with_flips(plain: RecipeRun, runs: Path) -> RecipeRun:
    """The model that a run left, judged with flips."""
    job = dict(plain.job)
    name = f"{FLIPS}-{job['seed']}"
    weights = (plain.folder(runs) / "checkpoints" / "0-federate" / OUTCOME).resolve()
    model = {**job["model"], "weights": str(weights), "flips": True}
    stages = [{"stage": "personalize", "strategy": {"name": "none"}}]
    return RecipeRun(name, {**job, "name": name, "model": model, "stages": stages})


def seconds_of(run: RecipeRun, runs: Path) -> list[float]:
    """The seconds of each round."""
    lines = (run.folder(runs) / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["seconds"] for line in lines]


def row_of(setting: str, of: list[RecipeRun], beside: list[RecipeRun], runs: Path) -> list[str]:
    """The figures of one setting, and how far its AUROC is from that of none."""
    tests = [json.loads((run.folder(runs) / "summary.json").read_text())["test"] for run in of]
    own, others = ([judged(run, runs, 0) for run in some] for some in (of, beside))
    figures = (over_all(malignancy_auroc), in_subgroup(malignancy_auroc, DARK))
    seconds = [second for run in of for second in seconds_of(run, runs)]
    return [
        setting,
        cell(tests, "malignancy_auroc"),
        cell([test["by_subgroup"][DARK] for test in tests], "malignancy_auroc"),
        cell(tests, "macro_f1"),
        *("–" if setting == NONE else shown(difference(figure, own, others)) for figure in figures),
        f"{fmean(seconds):.1f}" if setting != FLIPS else "–",
    ]


def main(
    runs: Annotated[Path, typer.Option(help="Where runs are kept.")] = Path("runs/training-that-fits"),
    seeds: Annotated[int, typer.Option(help="How many.")] = 3,
    rounds: Annotated[int | None, typer.Option(help="At most so many; as in the recipe by default.")] = None,
) -> None:
    """Train with each setting, and print what it gives and costs."""
    by_seed = [trained(seed, rounds) for seed in range(seeds)]
    plain = [found[NONE] for found in by_seed]
    flips = [with_flips(run, runs) for run in plain]
    run_all([*(run for found in by_seed for run in found.values()), *flips], runs)
    by_setting = {setting: [found[setting] for found in by_seed] for setting in by_seed[0]}
    print_conditions(
        "What settings of training are worth by themselves",
        {"recipe": RECIPE, "seeds": seeds, "rounds": rounds or "all"},
    )
    header = ["setting", "AUROC of malignancy", f"{DARK}: AUROC", "macro F1"]
    header += ["AUROC beside none", f"{DARK}: beside none", "seconds a round"]
    rows = [row_of(setting, of, plain, runs) for setting, of in {**by_setting, FLIPS: flips}.items()]
    print_table(header, rows)


if __name__ == "__main__":
    start(main, "--runs {scratch}/runs --seeds 1", pictures=True)
