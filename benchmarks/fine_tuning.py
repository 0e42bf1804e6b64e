"""A fine-tuned encoder beside everything that it might owe its figures to. MILK10k, lesions, several seeds.

- `today's small network`: the recipe `fedauto@milk10k` without personalization, close-ups at 48 pixels;
- `frozen`: `frozen`, whose head alone learns;
- `fine-tuned`: `finetuned`;
- `from scratch`: the same network, pictures, rounds and settings, with weights that have seen nothing;
- `pooled`: the same with all pictures in one place;
- `frozen, pooled`: as `frozen`, with all pictures in one place;
- `frozen, by tone, FedAvg` and `frozen, by tone, FedAuto`: as `frozen`, where every group of skin tones is a
  hospital;
- `frozen, group-balanced`: as `frozen`, where each class of each group of skin tones is drawn equally often.

Beside them, with `--sizes`, pictures of several sizes from 300 by 225 pixels, four rounds each, the larger
ones in half precision. Every seed has a split of its own, the same in every row but those by tone, which have
another. The two recipes' runs are those of `cases.py`, found again where they are in the same folder; of
other systems only the first stage is run.

    DERMFED_DATA=... python benchmarks/fine_tuning.py --runs runs/fine-tuning --seeds 3
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from cases import FIGURES, TONES, summary_of, whole
from quick import is_quick, start
from recipe_runs import RecipeRun, cell, read_recipe, run_all
from tables import print_conditions, print_table

RECIPE, FROZEN = "finetuned", "frozen"
SIZES = ((96, "float32"), (128, "float32"), (128, "bf16"), (192, "bf16"), (256, "bf16"))
LARGE = "milk10k_300x225"  # the folder of DERMFED_DATA with larger pictures
Job = dict[str, Any]


def changed(job: Job, **parts: Mapping[str, Any]) -> Job:
    """The job's first stage alone, with some settings of its blocks changed; `federate` is that stage."""
    stage = {**job["stages"][0], **parts.pop("federate", {})}
    return {**job, **{name: {**job[name], **part} for name, part in parts.items()}, "stages": [stage]}


def fine_tuned(**parts: Mapping[str, Any]) -> Job:
    """The recipe, with some settings changed."""
    return changed(read_recipe(RECIPE), **parts)


def frozen(sampling: str | None = None, **parts: Mapping[str, Any]) -> Job:
    """The recipe whose head alone learns, with some settings changed."""
    job = read_recipe(FROZEN)
    if sampling:
        parts["federate"] = {"objective": {**job["stages"][0]["objective"], "sampling": sampling}}
    return changed(job, **parts)


BY_TONE = {"clients": {"by": "subgroup"}}
POOLED = {"clients": {"by": "iid", "count": 1}}
SYSTEMS: Mapping[str, Callable[[], Job]] = {
    "today's small network": lambda: changed(read_recipe("fedauto@milk10k")),
    "frozen": lambda: read_recipe(FROZEN),
    "fine-tuned": lambda: read_recipe(RECIPE),
    "from scratch": lambda: fine_tuned(model={"weights": "none"}),
    "pooled": lambda: fine_tuned(data=POOLED, engine={"workers": 1, "min_clients": 1}),
    "frozen, pooled": lambda: frozen(data=POOLED, engine={"min_clients": 1}),
    "frozen, by tone, FedAvg": lambda: frozen(data=BY_TONE),
    "frozen, by tone, FedAuto": lambda: frozen(
        data=BY_TONE, federate={"aggregator": {"name": "fedauto", "loss_ratio": 1.5, "max_scale": 3}}
    ),
    "frozen, group-balanced": lambda: frozen("subgroup-balanced"),
}


def at_size(size: int, precision: str) -> Job:
    """Four rounds of the recipe at another size of pictures, and in another precision."""
    job = read_recipe(RECIPE)
    folder = job["data"]["folder"]
    if not is_quick():  # drawn folders have one size
        folder = str(Path(folder).parent / LARGE)
    rounds = min(4, job["stages"][0]["rounds"])
    return changed(
        job,
        data={"folder": folder, "image_size": size},
        engine={"precision": precision},
        federate={"rounds": rounds},
    )


def run_of(name: str, job: Job, seed: int) -> RecipeRun:
    """One run."""
    if len(job["stages"]) > 1:
        return whole(job["name"], seed)
    called = f"{name} {seed}".replace(",", "").replace("'", "").replace(" ", "-")
    return RecipeRun(called, {**job, "seed": seed, "name": called})


def print_systems(systems: Mapping[str, Callable[[], Job]], runs: Path, seeds: int) -> None:
    """Train and judge systems, and print them side by side: a table for each figure by skin tone."""
    wanted = {name: [run_of(name, job(), seed) for seed in range(seeds)] for name, job in systems.items()}
    run_all([of[seed] for seed in range(seeds) for of in wanted.values()], runs)
    stages = {name: [summary_of(run, runs)["stages"][0] for run in of] for name, of in wanted.items()}
    tests = {name: [stage["test"] for stage in of] for name, of in stages.items()}
    for title, key in FIGURES.items():
        rows = [
            [name, cell(of, key), *(cell([test["by_subgroup"][tone] for test in of], key) for tone in TONES)]
            for name, of in tests.items()
        ]
        print_table([title, "all", *TONES], rows)
    rows = []
    for name, of in stages.items():
        spreads = [stage["test"]["fairness"]["spread_standardised"] for stage in of]
        rows.append(
            [
                name,
                cell(tests[name], "macro_f1"),
                cell(tests[name], "balanced_accuracy"),
                "–" if None in spreads else f"{sum(spreads) / len(spreads):.3f}",
                f"{sum(stage['seconds'] for stage in of) / len(of) / 60:.1f}",
            ]
        )
    print_table(["system", "macro F1", "balanced accuracy", "standardised spread", "minutes"], rows)


def main(
    runs: Annotated[Path, typer.Option(help="Where runs are kept.")] = Path("runs/fine-tuning"),
    seeds: Annotated[int, typer.Option(help="How many.")] = 3,
    only: Annotated[list[str] | None, typer.Option(help="A system; may be repeated.")] = None,
    sizes: Annotated[bool, typer.Option("--sizes", help="Also pictures of several sizes, one seed.")] = False,
) -> None:
    """Train, and print the table."""
    systems = {name: job for name, job in SYSTEMS.items() if not only or name in only}
    print_conditions("What a fine-tuned encoder owes its figures to", {"recipe": RECIPE, "seeds": seeds})
    print_systems(systems, runs, seeds)
    if sizes:
        jobs = {f"{size} pixels, {precision}": partial(at_size, size, precision) for size, precision in SIZES}
        print_systems(jobs, runs, 1)


if __name__ == "__main__":
    start(main, "--runs {scratch}/runs --seeds 1 --sizes", pictures=True)
