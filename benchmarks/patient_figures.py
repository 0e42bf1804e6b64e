"""What a patient of each skin tone may expect, of models trained in several ways. MILK10k, several seeds.

- `FedAvg`: the recipe `frozen`, where every group of skin tones is a hospital;
- `FedEqual`, `FedLoss`, `FedExp`, `FedAuto`, `q-FFL`, `AFL`: the same, groups weighed otherwise (Table II of
  Xu et al. 2023);
- `group-DRO`: the same, malignant and other lesions of every group weighed by their losses;
- `personal-heads`, `FedAuto personal-heads`: FedAvg or FedAuto, and what is behind the encoder fine-tuned for
  each group, where selection lets it.

All of them see the same splits, one for each seed, and are exported and calibrated, unless asked not to.
Figures are of the answer (malignant where the most probable class is), and of the working point: the
threshold on malignancy that calibration sets for a sensitivity of 0.95. With `--by iid` four hospitals hold
all tones alike; `--sampling` draws training lesions otherwise than the recipe does (`uniform` leaves classes
as unbalanced as they are).

    DERMFED_DATA=... python benchmarks/patient_figures.py --runs runs/patient-figures --seeds 3
"""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from quick import is_quick, print_conditions, print_table, start, write_table
from recipe_runs import (
    FigureOf,
    RecipeRun,
    cell,
    difference,
    in_subgroup,
    judged,
    over_all,
    read_recipe,
    run_all,
    shown_pair,
)

from clients.data.taxonomy import describe
from registry.bundle.labels import malignant_classes
from registry.bundle.metrics.classification import malignancy_auroc, malignant_sensitivity

RECIPE = "frozen"
TONES = ("dark", "medium", "light")
BASE = "FedAvg"
PERSONALIZE = 1  # the place of the stage whose counts systems are compared by
SENSITIVITY = 0.95  # that the working point is to reach
EPOCHS, RATE = 6, 3e-4  # of personal heads
FIGURES = {
    "malignant sensitivity": "malignant_sensitivity",
    "malignant specificity": "malignant_specificity",
    "AUROC of malignancy": "malignancy_auroc",
    "balanced accuracy, all classes": "balanced_accuracy",
    "sensitivity at the working point": "sensitivity_at_threshold",
    "specificity at the working point": "specificity_at_threshold",
    "share answered": "answered",
    "wrong among conclusions": "reported_risk",
}
FAIRNESS = {"variance of accuracy": "variance", "gap": "gap", "standardised spread": "spread_standardised"}
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


AGGREGATORS: Mapping[str, Mapping[str, Any]] = {
    "FedAvg": {"name": "fedavg"},
    "FedEqual": {"name": "fedequal"},
    "FedLoss": {"name": "fedloss"},
    "FedExp": {"name": "fedexp", "m": 1},
    "FedAuto": {"name": "fedauto", "loss_ratio": 1.5, "max_scale": 3},
    "q-FFL q=1": {"name": "q-ffl", "q": 1, "lipschitz": 0.01},
    "q-FFL q=5": {"name": "q-ffl", "q": 5, "lipschitz": 0.01},
    "AFL": {"name": "afl", "step_size": 0.1},
    "group-DRO": {"name": "group-dro", "step_size": 0.1, "adjustment": 1},
}
HEADS = {"personal-heads": "FedAvg", "FedAuto personal-heads": "FedAuto"}
SYSTEMS = (*AGGREGATORS, *HEADS)


def job_of(name: str) -> Job:
    """The recipe as one of the systems."""
    job = aggregated(read_recipe(RECIPE), AGGREGATORS[HEADS.get(name, name)])
    return with_heads(job) if name in HEADS else job


def sampled(stage: Job, sampling: str | None) -> Job:
    """The stage that draws training lesions so; as it is without."""
    if sampling is None:
        return stage
    return {**stage, "objective": {**stage["objective"], "sampling": sampling}}


def run_of(
    name: str, by: str, seed: int, sampling: str | None = None, *, calibrated: bool = True
) -> RecipeRun:
    """One run."""
    job = job_of(name)
    clients = {"by": by, **({"count": 4} if by == "iid" else {})}
    first, personalize, export, calibrate = job["stages"]
    after = [export, {**calibrate, "sensitivity": SENSITIVITY}] if calibrated else []
    said = (name, by, *((sampling,) if sampling else ()), *(() if calibrated else ("trained",)), str(seed))
    called = "-".join(said).lower().replace(" ", "-").replace("=", "")
    data = {**job["data"], "clients": clients}
    stages = [sampled(first, sampling), personalize, *after]
    return RecipeRun(called, {**job, "name": called, "seed": seed, "data": data, "stages": stages})


def summary_of(run: RecipeRun, runs: Path) -> Mapping[str, Any]:
    """What a run left."""
    found: Mapping[str, Any] = json.loads((run.folder(runs) / "summary.json").read_text())
    return found


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
        if not any(key in test for of in tests.values() for test in of):
            continue
        rows = [
            [
                name,
                shown(of, key),
                *(shown([test["by_subgroup"][tone] for test in of], key) for tone in TONES),
            ]
            for name, of in tests.items()
        ]
        print_table([title, "all", *TONES], rows)


def write_figures(path: Path, tests: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """All figures as CSV: a line for each system, a column for each figure and skin tone."""
    told = {
        title: key
        for title, key in FIGURES.items()
        if any(key in test for of in tests.values() for test in of)
    }
    head = [f"{title}, {group}" for title in told for group in ("all", *TONES)] + list(FAIRNESS)
    rows = []
    for name, of in tests.items():
        by_figure = [
            [shown(of, key), *(shown([test["by_subgroup"][tone] for test in of], key) for tone in TONES)]
            for key in told.values()
        ]
        apart = [shown([test["fairness"] for test in of], key) for key in FAIRNESS.values()]
        rows.append([name, *(one for cells in by_figure for one in cells), *apart])
    write_table(path, ["system", *head], rows)


def print_beside(wanted: Mapping[str, Sequence[RecipeRun]], tests: Mapping[str, Any], runs: Path) -> None:
    """What each system has more than FedAvg, on the same lesions."""
    if BASE not in wanted or len(wanted) < 2:
        return
    malignant = malignant_classes([describe(code) for code in tests[BASE][0]["by_class"]])
    figures = {
        "malignant sensitivity": partial(malignant_sensitivity, malignant=malignant),
        "AUROC of malignancy": malignancy_auroc,
    }
    columns: dict[str, FigureOf] = {}
    for title, figure in figures.items():
        columns[title] = over_all(figure)
        columns |= {f"{tone}: {title}": in_subgroup(figure, tone) for tone in TONES}
    counts = {name: [judged(run, runs, PERSONALIZE) for run in of] for name, of in wanted.items()}
    rows = [
        [name, *(shown_pair(difference(figure, of, counts[BASE])) for figure in columns.values())]
        for name, of in counts.items()
        if name != BASE
    ]
    print_table([f"more than {BASE}, pair by pair", *columns], rows)


def print_fairness(tests: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """How far the groups lie apart."""
    print_table(
        ["how far groups lie apart", *(title for title in FAIRNESS)],
        [
            [name, *(shown([test["fairness"] for test in of], key) for key in FAIRNESS.values())]
            for name, of in tests.items()
        ],
    )


def main(
    runs: Annotated[Path, typer.Option(help="Where runs are kept.")] = Path("runs/patient-figures"),
    seeds: Annotated[int, typer.Option(help="How many.")] = 3,
    by: Annotated[str, typer.Option(help="How hospitals come about: subgroup or iid.")] = "subgroup",
    only: Annotated[list[str] | None, typer.Option(help="A system; may be repeated.")] = None,
    sampling: Annotated[str | None, typer.Option(help="uniform or class-balanced; the recipe's.")] = None,
    calibrated: Annotated[bool, typer.Option(help="Whether to export and calibrate.")] = True,
    table: Annotated[Path | None, typer.Option(help="Also write the figures to this CSV.")] = None,
) -> None:
    """Train, and print what each tone may expect."""
    wanted = {
        name: [run_of(name, by, seed, sampling, calibrated=calibrated) for seed in range(seeds)]
        for name in SYSTEMS
        if not only or name in only
    }
    run_all([run for of in zip(*wanted.values(), strict=True) for run in of], runs)
    conditions = {"recipe": RECIPE, "hospitals by": by, "seeds": seeds, "working point": SENSITIVITY}
    conditions["sampling"] = sampling or "the recipe's, square-root"
    print_conditions("What a patient of each skin tone may expect", conditions)
    summaries = {name: [summary_of(run, runs) for run in of] for name, of in wanted.items()}
    tests = {name: [summary["test"] for summary in of] for name, of in summaries.items()}
    print_figures(tests)
    print_beside(wanted, tests, runs)
    print_fairness(tests)
    if table is not None:
        write_figures(table, tests)
    sizes = [summary["test"]["by_subgroup"] for summary in next(iter(summaries.values()))]
    counted = {"malignant": "n_malignant", "other": "n_other", "all": "n"}
    print_table(
        ["test lesions, mean over seeds", *TONES],
        [
            [title, *(mean([of[tone].get(key) for of in sizes]) for tone in TONES)]
            for title, key in counted.items()
        ],
    )
    for name in HEADS:
        chosen = [summary["stages"][1]["facts"]["by_subgroup"] for summary in summaries.get(name, ())]
        if chosen:
            rows = [[seed, *(of[tone]["epoch"] for tone in TONES)] for seed, of in enumerate(chosen)]
            print_table([f"epoch of {name}, 0 for the global model; seed", *TONES], rows)


if __name__ == "__main__":
    start(main, "--runs {scratch}/runs --seeds 1 --only group-DRO --only personal-heads", pictures=True)
