"""What a patient of each skin tone may expect, of models trained in four ways. MILK10k, several seeds.

- `FedAvg`: the recipe `milk10k-frozen`, where every group of skin tones is a hospital;
- `FedAuto`: the same, groups weighed by their losses;
- `group-DRO`: the same, malignant and other lesions of every group weighed by theirs;
- `personal-heads`: FedAvg, and what is behind the encoder fine-tuned for each group, where selection lets it.

All of them see the same splits, one for each seed, and are exported and calibrated. Figures are of the answer
(malignant where the most probable class is), and of the working point: the threshold on malignancy that
calibration sets for a sensitivity of 0.95. With `--by iid` four hospitals hold all tones alike.

    DERMFED_DATA=... python benchmarks/patient_figures.py --runs runs/patient-figures --seeds 3
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from cases import TONES, summary_of
from quick import is_quick, start
from recipe_runs import RecipeRun, cell, read_recipe, run_all
from tables import print_conditions, print_table

RECIPE = "milk10k-frozen"
SENSITIVITY = 0.95  # that the working point is to reach
EPOCHS, RATE = 6, 3e-4  # of personal heads
FIGURES = {
    "malignant sensitivity": "malignant_sensitivity",
    "malignant specificity": "malignant_specificity",
    "AUROC of malignancy": "malignancy_auroc",
    "balanced accuracy, all classes": "balanced_accuracy",
    "sensitivity at the working point": "sensitivity_at_threshold",
    "specificity at the working point": "specificity_at_threshold",
    "share answered": "reported",
    "wrong among those answered": "reported_risk",
}
Job = dict[str, Any]


def aggregated(job: Job, aggregator: Mapping[str, Any]) -> Job:
    """The job with another aggregator."""
    first, *others = job["stages"]
    return {**job, "stages": [{**first, "aggregator": aggregator}, *others]}


def with_heads(job: Job) -> Job:
    """The job with what is behind the encoder fine-tuned for each tone."""
    first, personalize, *others = job["stages"]
    objective = first["objective"]
    strategy = {
        "name": "head",
        "epochs": 1 if is_quick() else EPOCHS,
        "objective": {**objective, "optimizer": {**objective["optimizer"], "lr": RATE}},
    }
    return {**job, "stages": [first, {**personalize, "strategy": strategy}, *others]}


SYSTEMS: Mapping[str, Callable[[Job], Job]] = {
    "FedAvg": lambda job: aggregated(job, {"name": "fedavg"}),
    "FedAuto": lambda job: aggregated(job, {"name": "fedauto", "loss_ratio": 1.5, "max_scale": 3}),
    "group-DRO": lambda job: aggregated(job, {"name": "group-dro", "step_size": 0.1, "adjustment": 1}),
    "personal-heads": lambda job: with_heads(aggregated(job, {"name": "fedavg"})),
}


def run_of(name: str, by: str, seed: int) -> RecipeRun:
    """One run."""
    job = SYSTEMS[name](read_recipe(RECIPE))
    clients = {"by": by, **({"count": 4} if by == "iid" else {})}
    *others, calibrate = job["stages"]
    calibrate = {**calibrate, "sensitivity": SENSITIVITY}
    called = f"{name} {by} {seed}".lower().replace(" ", "-")
    data = {**job["data"], "clients": clients}
    return RecipeRun(
        called, {**job, "name": called, "seed": seed, "data": data, "stages": [*others, calibrate]}
    )


def shown(tests: Sequence[Mapping[str, Any]], key: str) -> str:
    """A figure over seeds, where it is told."""
    return cell(tests, key) if all(key in test for test in tests) else "–"


def mean(values: Sequence[float | None]) -> str:
    """The mean of what is known."""
    known = [value for value in values if value is not None]
    return f"{sum(known) / len(known):.2f}" if known else "–"


def print_figures(tests: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """A table of each figure by skin tone, the systems below one another."""
    for title, key in FIGURES.items():
        rows = [
            [
                name,
                shown(of, key),
                *(shown([test["by_subgroup"][tone] for test in of], key) for tone in TONES),
            ]
            for name, of in tests.items()
        ]
        print_table([title, "all", *TONES], rows)


def main(
    runs: Annotated[Path, typer.Option(help="Where runs are kept.")] = Path("runs/patient-figures"),
    seeds: Annotated[int, typer.Option(help="How many.")] = 3,
    by: Annotated[str, typer.Option(help="How hospitals come about: subgroup or iid.")] = "subgroup",
    only: Annotated[list[str] | None, typer.Option(help="A system; may be repeated.")] = None,
) -> None:
    """Train, and print what each tone may expect."""
    wanted = {
        name: [run_of(name, by, seed) for seed in range(seeds)]
        for name in SYSTEMS
        if not only or name in only
    }
    run_all([run for of in wanted.values() for run in of], runs)
    conditions = {"recipe": RECIPE, "hospitals by": by, "seeds": seeds, "working point": SENSITIVITY}
    print_conditions("What a patient of each skin tone may expect", conditions)
    summaries = {name: [summary_of(run, runs) for run in of] for name, of in wanted.items()}
    print_figures({name: [summary["test"] for summary in of] for name, of in summaries.items()})

    sizes = [summary["test"]["by_subgroup"] for summary in next(iter(summaries.values()))]
    counted = {"malignant": "n_malignant", "other": "n_other", "all": "n"}
    print_table(
        ["test lesions, mean over seeds", *TONES],
        [
            [title, *(mean([of[tone].get(key) for of in sizes]) for tone in TONES)]
            for title, key in counted.items()
        ],
    )
    cells = [summary["stages"][0]["facts"]["cells"] for summary in summaries.get("group-DRO", ())]
    if cells:
        rows = [
            [name, mean([of[name]["n"] for of in cells]), mean([of[name]["q"] for of in cells])]
            for name in cells[0]
        ]
        print_table(["cell of group DRO", "training lesions", "q in the end"], rows)
    chosen = [summary["stages"][1]["facts"]["by_subgroup"] for summary in summaries.get("personal-heads", ())]
    if chosen:
        rows = [[seed, *(of[tone]["epoch"] for tone in TONES)] for seed, of in enumerate(chosen)]
        print_table(["epoch of the personal head, 0 for the global model; seed", *TONES], rows)


if __name__ == "__main__":
    start(main, "--runs {scratch}/runs --seeds 1 --only group-DRO --only personal-heads", pictures=True)
