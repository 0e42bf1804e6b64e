"""What do peers give to semi-supervised learning? Ten hospitals of four communities, a fifth of the labels.

Runs the small recipes of every method, as `python training/run.py` would; a run that is there already is not
done again. Their pre-training is done once for each seed, and all methods begin with what it left. Some
methods are run with several seeds and the others with seed 0. Prints Markdown tables in the forms of Bdair et
al. 2022 (Tables 2, 4 and 5 to 7, Figure 3). A seed draws the splits, the clients, which labels are kept, the
cohorts and every initial weight.

RI is the relative improvement of the mean F1 over the one of `local`, in percent. AC is what hospitals
downloaded beyond the downloads of `ssfl` with the same seed, in percent of these, from the bytes in the log:
once over all rounds, and once over the rounds in which a client had as many peers as it may have, against
what a client of `ssfl` downloads in a round.

    DERMFED_DATA=... python benchmarks/semi_supervised.py --runs runs/semi-supervised --seeds 3 --at-once 2
"""

from collections.abc import Mapping
from math import ceil
from pathlib import Path
from typing import Annotated

import typer
from federated_runs import Found, read_run
from peer_tables import (
    table_at_clients,
    table_by_class,
    table_of_communities,
    table_over_clients,
    table_together,
    table_unseen,
)
from quick import start
from recipe_runs import RecipeRun, read_recipe, run_all

SEVERAL_SEEDS = ("ssfl", "fedmatch@plus", "fedperl", "fedperl@no-pa", "fedperl@gated-similarity-85")
# Not among the recipes: FedPerl with every client in every round, in as many clients' rounds as the others,
# and with normalisation statistics among the features by which clients are compared, as in the authors' code.
EVERYONE, STATISTICS = "-everyone", "-statistics"
METHODS = (
    "local",
    "fedavg-labelled",
    "local@fixmatch",
    "ssfl",
    "fedmatch",
    "fedmatch@plus",
    *(f"fedperl@no-pa{peers}" for peers in ("@t1", "", "@t3", "@t4", "@t5")),
    "fedperl@t1",
    "fedperl",
    *(f"fedperl@t{peers}" for peers in (3, 4, 5)),
    "fedperl@random-peers",
    "fedperl@validation",
    *(f"fedperl@gated-validation-{threshold}" for threshold in (75, 85, 95)),
    *(f"fedperl@gated-similarity-{threshold}" for threshold in (75, 85, 95)),
    "local@upper",
    "fedavg-labelled@upper",
    "ssfl@labels-at-server",
    "fedperl@labels-at-server",
    "fedperl@unseen",
    "fedavg-labelled@few-labelled",
    "ssfl@few-labelled",
    "fedperl@few-labelled",
    "fedirm",
    "semi-fl",
    f"fedperl{STATISTICS}",
    f"fedperl{EVERYONE}",
    f"fedperl{STATISTICS}{EVERYONE}",
)
LOWER, FREE = "local", "ssfl"  # what RI and AC are relative to
BY_CLASS = ("f1", "auroc", "auprc")


def pretraining_of(seed: int) -> RecipeRun:
    """The pre-training that all methods share."""
    job = read_recipe(f"{FREE}@ten-hospitals")
    stages = [stage for stage in job["stages"] if stage["stage"] == "pretrain"]
    return RecipeRun(f"pretraining-{seed}", {**job, "seed": seed, "stages": stages})


def encoder_of(seed: int, runs: Path) -> Path:
    """What it left."""
    folder = pretraining_of(seed).folder(runs).absolute()
    return folder / "checkpoints" / "0-pretrain" / "outcome.safetensors"


def run_of(method: str, seed: int, runs: Path, rounds: int | None = None) -> RecipeRun:
    """One run: the method's small recipe from its pre-training on, without export and calibration.

    With `rounds` every stage is cut to so many rounds or epochs, and warm-up to half of them.
    """
    job = read_recipe(f"{method.removesuffix(EVERYONE).removesuffix(STATISTICS)}@ten-hospitals")
    left_out = ("pretrain", "export", "calibrate", "register")
    stages = [stage for stage in job["stages"] if stage["stage"] not in left_out]
    job["model"]["weights"] = str(encoder_of(seed, runs))
    if STATISTICS in method:
        stages[-1]["exchange"]["choice"] = {"name": "weights", "statistics": True}
    if method.endswith(EVERYONE):
        (stage,) = stages
        stage["rounds"] = ceil(stage["rounds"] * stage["participation"])
        stage["exchange"]["warm_up"] = ceil(stage["exchange"]["warm_up"] * stage["participation"])
        stage["participation"] = 1.0
    if rounds is not None:
        for stage in stages:
            stage["epochs" if stage["stage"] == "finetune" else "rounds"] = rounds
            if "warm_up" in stage.get("exchange", {}):
                stage["exchange"]["warm_up"] = min(stage["exchange"]["warm_up"], rounds // 2)
    return RecipeRun(f"{method}-{seed}", {**job, "seed": seed, "stages": stages})


def main(
    runs: Annotated[Path, typer.Option(help="Where the runs are kept.")] = Path("runs/semi-supervised"),
    seeds: Annotated[
        int, typer.Option(help="How many seeds of the methods that get several, from 0.", min=1)
    ] = 3,
    at_once: Annotated[int, typer.Option(help="Runs at once; with several, each has one worker.")] = 1,
    methods: Annotated[list[str] | None, typer.Option(help="Which methods; by default all.")] = None,
    rounds: Annotated[int | None, typer.Option(help="Cut every stage to so many rounds.", min=1)] = None,
) -> None:
    """Run what is missing and print the tables."""
    chosen = methods or METHODS
    asked = {
        method: {
            seed: run_of(method, seed, runs, rounds)
            for seed in range(seeds if method in SEVERAL_SEEDS else 1)
        }
        for method in chosen
    }
    run_all([pretraining_of(seed) for seed in range(seeds)], runs, at_once)
    by_seed = [of[seed] for seed in range(seeds) for of in asked.values() if seed in of]
    run_all(by_seed, runs, at_once)

    def read(method: str, of: Mapping[int, RecipeRun]) -> dict[int, Found]:
        found = {seed: read_run(run, runs) for seed, run in of.items()}
        return {seed: run for seed, run in found.items() if run is not None}

    rows = {method: read(method, of) for method, of in asked.items()}
    base = {
        method: read(method, {seed: run_of(method, seed, runs, rounds) for seed in range(seeds)})
        for method in (LOWER, FREE)
    }
    told = [
        table_over_clients(rows, base[LOWER], base[FREE]),
        table_together(rows),
        table_at_clients(rows),
        *(table_by_class(rows, key) for key in BY_CLASS),
        table_of_communities(rows),
        table_unseen(rows),
    ]
    print("\n\n".join(filter(None, told)))


if __name__ == "__main__":
    start(
        main,
        "--runs {scratch}/runs --seeds 1 --methods local --methods ssfl --methods fedperl",
        pictures=True,
    )
