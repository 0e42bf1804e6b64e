"""How fair is each way to combine the clients' models? Real pictures, several seeds.

The small recipes of Table II of Xu et al. 2023, and AFL, on MILK10k's close-ups: malignant against benign
(with those of Table III) and the eleven classes, one client per group of skin tones, federated training
alone; and on HAM10000, whose clinics are the subgroups. A run that is there already is not done again.
Prints means over seeds, and in brackets the envelope of the runs' own 95 % intervals, which come from
bootstrap replicates drawn by lesion; what is said beside FedAvg is paired, replicate by replicate (`paired`).

    DERMFED_DATA=... python benchmarks/fairness.py --runs runs/fairness --seeds 3 --at-once 2
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from fairness_tables import System, overall_table, subgroup_tables, table_beside
from quick import start
from recipe_runs import RecipeRun, read_recipe, run_all

BASE = "fedavg"
TABLE_2 = ("fedavg", "fedequal", "q-ffl@q0", "q-ffl", "q-ffl@q5", "afl", "fedloss", "fedexp", "fedauto")
TABLE_3 = ("fedexp@m2", "fedexp@m3", "fedexp@m4", "fedauto@m2", "fedauto@m4")
LABEL_MAPS: Mapping[str, str | None] = {"malignancy": "malignancy", "classes": None}


def run_of(method: str, task: str, seed: int) -> RecipeRun:
    """A method's federated training on the close-ups."""
    job = read_recipe(f"{method}@milk10k")
    stages = [stage for stage in job["stages"] if stage["stage"] == "federate"]
    data = {**job["data"], "label_map": LABEL_MAPS[task]}
    return RecipeRun(f"{task}-{method}-{seed}", {**job, "seed": seed, "data": data, "stages": stages})


def clinics_run(method: str, seed: int) -> RecipeRun:
    """A method's federated training among HAM10000's clinics."""
    job = read_recipe("ham10000-clinics")
    aggregator = read_recipe(f"{method}@milk10k")["stages"][0]["aggregator"]
    stages: list[dict[str, Any]] = [{**job["stages"][0], "aggregator": aggregator}]
    return RecipeRun(f"clinics-{method}-{seed}", {**job, "seed": seed, "stages": stages})


def show(title: str, asked: Mapping[str, Sequence[RecipeRun]], runs: Path) -> None:
    """Print the tables of some systems."""
    systems = {name: System.read(of, runs, 0) for name, of in asked.items()}
    tables = [overall_table(systems), table_beside(systems, BASE), subgroup_tables(systems)]
    print(f"### {title}\n\n" + "\n\n".join(tables), end="\n\n", flush=True)


def main(
    runs: Annotated[Path, typer.Option(help="Where the runs are kept.")] = Path("runs/fairness"),
    seeds: Annotated[int, typer.Option(help="How many seeds, from 0.", min=1)] = 3,
    tasks: Annotated[list[str] | None, typer.Option(help="malignancy, classes or clinics; all.")] = None,
    methods: Annotated[list[str] | None, typer.Option(help="Which methods; by default all.")] = None,
    at_once: Annotated[int, typer.Option(help="Runs at once; with several, each has one worker.")] = 1,
) -> None:
    """Run what is missing and print the tables."""
    for task in tasks or [*LABEL_MAPS, "clinics"]:
        chosen = methods or (TABLE_2 + TABLE_3 if task == "malignancy" else TABLE_2)
        chosen = tuple(dict.fromkeys((BASE, *chosen)))
        asked = {
            method: [
                clinics_run(method, seed) if task == "clinics" else run_of(method, task, seed)
                for seed in range(seeds)
            ]
            for method in chosen
        }
        run_all((run for of in zip(*asked.values(), strict=True) for run in of), runs, at_once)
        show(task, asked, runs)


if __name__ == "__main__":
    start(
        main,
        "--runs {scratch}/runs --seeds 1 --tasks malignancy --tasks clinics --methods fedauto",
        pictures=True,
    )
