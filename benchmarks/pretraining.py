"""What does pre-training without labels give? HAM10000, ten clients of four clinics, a tenth of the labels.

Runs the small recipes of every method (pre-train, fine-tune at each client, fine-tune together) for several
seeds, as `python training/run.py` would, without export and calibration; a run that is there already is not
done again. Prints Markdown tables: the mean over seeds, and in brackets the envelope of the runs' own 95 %
intervals from bootstrap replicates drawn by lesion. A seed draws the splits, the clients, the labels that
are kept and every initial weight.

    DERMFED_DATA=... python benchmarks/pretraining.py --runs runs/pretraining --seeds 3 --at-once 2
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from quick import start
from recipe_runs import RecipeRun, cell, read_recipe, run_all

METHODS = (
    "random-init",
    "local-cl",
    "fedsimclr",
    "fedclf",
    "random-init@vit",
    "fedmae",
    "fed-mae",
    "fed-beit",
)
ABLATIONS: Mapping[str, Sequence[str]] = {
    "FedCLF: what is a negative": ("fedmoco", "fedclf@fe", "fedclf"),
    "FedMAE: what travels": (
        "fedmae@all",
        "fedmae@no-decoder",
        "fedmae@no-patch-projection",
        "fedmae@no-decoder-projection",
        "fedmae",
    ),
}
TOGETHER = ("balanced_accuracy", "macro_precision", "macro_f1", "specificity", "auroc", "accuracy")
ALONE = ("balanced_accuracy", "macro_precision")


def run_of(method: str, seed: int, *, alone: bool = True) -> RecipeRun:
    """One run: the method's small recipe without export, calibration and learning curves.

    Where fine-tuning at each client is not looked at (`alone`) it is cut to one epoch and not left out, so
    that the draws of the stage after it are the same.
    """
    job = read_recipe(f"{method}@ham10000")
    stages = [stage for stage in job["stages"] if stage["stage"] not in ("export", "calibrate")]
    for stage in stages:
        if stage["stage"] in ("finetune", "federate"):
            stage["evaluate_on"] = None
        if stage["stage"] == "finetune" and not alone:
            stage["epochs"] = 1
    return RecipeRun(f"{method}-{seed}", {**job, "seed": seed, "stages": stages})


def read_run(method: str, seed: int, runs: Path) -> dict[str, Any]:
    """What a table needs to know of one run."""
    run = run_of(method, seed)
    summary = json.loads((run.folder(runs) / "summary.json").read_text())
    stages = {stage["name"]: stage for stage in summary["stages"]}
    own = stages["finetune"]["facts"]["over_clients"]
    return {
        "system": run.job["about"]["system"],
        "together": stages["federate"]["test"],
        "alone": {
            **{key: own[key]["mean"] for key in ALONE},
            "intervals": {key: own[key]["interval"] for key in ALONE},
        },
        "seconds": {name: stage["seconds"] for name, stage in stages.items()},
        "sent": sum(stage["bytes_up"] + stage["bytes_down"] for stage in stages.values()),
    }


def table(title: str, rows: Mapping[str, Sequence[Mapping[str, Any]]], alone: Sequence[str] = ALONE) -> str:
    """Methods as rows: fine-tuned together, the figures `alone` at each client, and what it took."""
    head = [f"{key.replace('_', ' ')}" for key in TOGETHER]
    head += [f"alone: {key.replace('_', ' ')}" for key in alone]
    lines = [f"### {title}", "", "| | " + " | ".join([*head, "pre-training s", "all s", "MB sent"]) + " |"]
    lines.append("|---" * (len(head) + 4) + "|")
    for runs in rows.values():
        cells = [cell([run["together"] for run in runs], key) for key in TOGETHER]
        cells += [cell([run["alone"] for run in runs], key) for key in alone]
        cells.append(seconds([run["seconds"].get("pretrain", 0.0) for run in runs]))
        cells.append(seconds([sum(run["seconds"].values()) for run in runs]))
        cells.append(f"{sum(run['sent'] for run in runs) / len(runs) / 1e6:.0f}")
        lines.append(f"| {runs[0]['system']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def seconds(values: Sequence[float]) -> str:
    """The range of some times."""
    low, high = min(values), max(values)
    return f"{low:.0f}" if round(low) == round(high) else f"{low:.0f}–{high:.0f}"


def main(
    runs: Annotated[Path, typer.Option(help="Where the runs are kept.")] = Path("runs/pretraining"),
    seeds: Annotated[int, typer.Option(help="How many seeds of each method, from 0.")] = 3,
    at_once: Annotated[int, typer.Option(help="Runs at once; with several, each has one worker.")] = 1,
    methods: Annotated[list[str] | None, typer.Option(help="Which methods; by default all.")] = None,
    ablations: Annotated[bool, typer.Option(help="Also the ablations, with seed 0.")] = True,
) -> None:
    """Run what is missing and print the tables."""
    chosen = methods or METHODS
    extra = list(dict.fromkeys(name for names in ABLATIONS.values() for name in names)) if ablations else []
    wanted = [run_of(method, seed) for seed in range(seeds) for method in chosen]
    wanted += [run_of(method, 0, alone=False) for method in extra if method not in chosen]
    run_all(wanted, runs, at_once)
    found = {method: [read_run(method, seed, runs) for seed in range(seeds)] for method in chosen}
    if seeds:
        print(table(f"Methods, {seeds} seeds", found), end="\n\n", flush=True)
    if ablations:
        for title, names in ABLATIONS.items():
            rows = {name: [read_run(name, 0, runs)] for name in names}
            print(table(f"{title}, seed 0", rows, alone=()), end="\n\n")


if __name__ == "__main__":
    start(
        main,
        "--runs {scratch}/runs --seeds 1 --methods fedclf --methods fedmae --no-ablations",
        pictures=True,
    )
