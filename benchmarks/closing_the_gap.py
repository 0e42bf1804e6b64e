"""What makes the answer as good on dark skin as on light? Malignant against benign, several seeds.

One step after another, each a row:

- `fedavg`: the small recipe of that name, on close-ups alone;
- `+ dermoscopic`: those of training lesions train as well (the recipe `fedavg@dermoscopic@milk10k`);
- `+ own models`: and every group of skin tones fine-tunes, its epoch chosen with the floor;
- `+ clinics`: as `+ dermoscopic`, but from what `ham10000-malignancy` left, trained among other clinics;
- `+ clinics, own models`: all of it.

Prints the tables of `fairness.py`, pair by pair beside the first row, and then the four aims: no group worse
off than under FedAvg, the dark group's AUROC and balanced accuracy up by 5 points, the standardised spread at
most half, balanced accuracy overall no lower.

    DERMFED_DATA=... python benchmarks/closing_the_gap.py --runs runs/fairness --seeds 3 --at-once 2
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from fairness import run_of
from fairness_tables import System, overall_table, subgroup_tables, table_beside
from paired import FigureOf, difference, in_subgroup, over_all, shown
from quick import start
from recipe_runs import RecipeRun, read_recipe, run_all

from registry.bundle.metrics import classification, fairness

BASE, BEST = "fedavg", "+ clinics, own models"
WORST_SERVED = "dark"


def start_run(seed: int) -> RecipeRun:
    """Federated training among clinics whose pictures are not judged by."""
    return RecipeRun(f"clinics-start-{seed}", {**read_recipe("ham10000-malignancy"), "seed": seed})


def outcome(run: RecipeRun, runs: Path) -> str:
    """The model that the first stage of a run left."""
    return str(run.folder(runs).absolute() / "checkpoints" / "0-federate" / "outcome.safetensors")


def fair_run(seed: int, runs: Path, *, clinics: bool) -> RecipeRun:
    """`fedavg@dermoscopic@milk10k` without release, from nothing or from the clinics."""
    job = read_recipe("fedavg@dermoscopic@milk10k")
    stages = [stage for stage in job["stages"] if stage["stage"] in ("federate", "personalize")]
    model = {**job["model"], "weights": outcome(start_run(seed), runs) if clinics else "none"}
    name = f"fair-{'clinics' if clinics else 'alone'}-{seed}"
    return RecipeRun(name, {**job, "seed": seed, "model": model, "stages": stages})


def aims(systems: Mapping[str, System]) -> str:
    """What was wanted, and what the best row gives."""
    best, base = systems[BEST].judged, systems[BASE].judged
    wanted: dict[str, tuple[FigureOf, str]] = {}
    for name in systems[BASE].subgroups:
        least = "≥ +0.05" if name == WORST_SERVED else "≥ 0"
        for figure in (classification.balanced_accuracy, classification.auroc):
            wanted[f"{name}, {figure.__name__}"] = (in_subgroup(figure, name), least)
    halves = [
        [run["fairness"]["spread_standardised"] for run in systems[name].figures] for name in (BEST, BASE)
    ]
    now, before = (sum(spreads) for spreads in halves)
    ratio = f"{now / before:.2f}" if before else "no share"
    wanted["all, balanced accuracy"] = (over_all(classification.balanced_accuracy), "≥ 0")
    wanted["standardised spread"] = (fairness.spread_standardised, f"at most half; {ratio} of it")
    lines = ["| | aim | found |", "|---|---|---|"]
    lines += [
        f"| {name} | {aim} | {shown(difference(figure, best, base))} |"
        for name, (figure, aim) in wanted.items()
    ]
    return "\n".join(lines)


def main(
    runs: Annotated[Path, typer.Option(help="Where the runs are kept.")] = Path("runs/fairness"),
    seeds: Annotated[int, typer.Option(help="How many seeds, from 0.", min=1)] = 3,
    at_once: Annotated[int, typer.Option(help="Runs at once; with several, each has one worker.")] = 1,
) -> None:
    """Run what is missing and print the tables."""
    of = range(seeds)
    base = [run_of("fedavg", "malignancy", seed) for seed in of]
    starts = [start_run(seed) for seed in of]
    run_all([*starts, *base], runs, at_once)
    alone, from_clinics = (
        [fair_run(seed, runs, clinics=clinics) for seed in of] for clinics in (False, True)
    )
    run_all((run for pair in zip(alone, from_clinics, strict=True) for run in pair), runs, at_once)
    systems = {
        BASE: System.read(base, runs, 0),
        "+ dermoscopic": System.read(alone, runs, 0),
        "+ own models": System.read(alone, runs, 1),
        "+ clinics": System.read(from_clinics, runs, 0),
        BEST: System.read(from_clinics, runs, 1),
    }
    tables = [overall_table(systems), table_beside(systems, BASE), subgroup_tables(systems), aims(systems)]
    print("\n\n".join(tables))


if __name__ == "__main__":
    start(main, "--runs {scratch}/runs --seeds 1", pictures=True)
