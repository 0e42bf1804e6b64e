"""What does each way to personalize give, and how far can its confidence be trusted? Several seeds.

From the model that a method of `fairness.py` left, every strategy of the stage `personalize`, then export and
calibration, for malignant against benign and for the eleven classes. Prints the tables of `fairness.py` for
the personal models, beside the model that they started from, and then what calibration gave: ECE before and
after, coverage and size of the prediction sets, risk at several coverages and the area under the curve, by
subgroup. Figures in brackets as there.

    DERMFED_DATA=... python benchmarks/personal_models.py --runs runs/fairness --seeds 3 --at-once 2
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from fairness import LABEL_MAPS, run_of
from fairness_tables import System, overall_table, subgroup_tables, table_beside
from paired import Judged
from quick import start
from recipe_runs import RecipeRun, cell, read_recipe, run_all

from registry.bundle.counts.counts import Counts
from registry.bundle.metrics.calibration import mce
from registry.bundle.metrics.intervals import Figure, interval
from registry.bundle.metrics.selective import aurc, risk_coverage

STRATEGIES = ("none", "finetune", "head", "norm", "adapters", "ditto")
COVERAGES = (1.0, 0.8, 0.6, 0.4)
PERSONALIZE, EXPORT, CALIBRATE = range(3)


def personal_run(start: str, strategy: str, task: str, seed: int, runs: Path) -> RecipeRun:
    """One strategy from what a method left."""
    federated = run_of(start, task, seed)
    weights = federated.folder(runs).absolute() / "checkpoints" / "0-federate" / "outcome.safetensors"
    recipe = "fedauto@milk10k" if strategy == "finetune" else f"fedauto@{strategy}@milk10k"
    job = read_recipe(recipe)
    stages = [stage for stage in job["stages"] if stage["stage"] in ("personalize", "export", "calibrate")]
    return RecipeRun(
        f"{task}-{start}-{strategy}-{seed}",
        {
            **federated.job,
            "model": {**job["model"], "weights": str(weights)},
            "stages": stages,
        },
    )


def calibration_table(systems: Mapping[str, tuple[System, System]]) -> str:
    """What calibration gave, by strategy and subgroup; each system before and after it."""
    header = (
        "ECE before",
        "ECE after",
        "MCE before",
        "MCE after",
        "coverage",
        "set size",
        "answered",
        "wrong",
    )
    lines = ["| | subgroup | " + " | ".join(header) + " |", "|---" * (len(header) + 2) + "|"]
    for name, (before, after) in systems.items():
        for subgroup in after.subgroups:
            was, became = ([run["by_subgroup"][subgroup] for run in one.figures] for one in (before, after))
            cells = [cell(was, "ece"), cell(became, "ece")]
            cells += [over_seeds(mce, one.judged, subgroup) for one in (before, after)]
            cells += [cell(became, key) for key in ("coverage", "set_size", "answered", "reported_risk")]
            lines.append(f"| {name} | {subgroup} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def risk_table(systems: Mapping[str, System]) -> str:
    """The share of wrong answers among the most confident, and the area under the risk-coverage curve."""
    header = (*(f"risk at {coverage:.0%}" for coverage in COVERAGES), "AURC")
    lines = ["| | subgroup | " + " | ".join(header) + " |", "|---" * (len(header) + 2) + "|"]
    for name, system in systems.items():
        for subgroup in system.subgroups:
            cells = [over_seeds(figure, system.judged, subgroup) for figure in risks()]
            lines.append(f"| {name} | {subgroup} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def risks() -> Iterator[Callable[[Counts], Figure]]:
    """Risk at each coverage, and the area."""
    for coverage in COVERAGES:
        yield lambda counts, coverage=coverage: risk_at(counts, coverage)  # type: ignore[misc]
    yield aurc


def risk_at(counts: Counts, coverage: float) -> Figure:
    """The risk at the highest threshold that answers at least this share of the pictures."""
    curve = risk_coverage(counts)
    enough = curve.coverage >= coverage - 1e-12
    place = enough.shape[-1] - 1 - enough[..., ::-1].argmax(axis=-1)
    return np.take_along_axis(curve.risk, np.asarray(place)[..., np.newaxis], axis=-1)[..., 0]


def over_seeds(figure: Callable[[Counts], Figure], judged: Sequence[Judged], subgroup: str) -> str:
    """The mean over seeds, and the envelope of the seeds' intervals."""
    runs: list[dict[str, Any]] = [
        {
            "figure": float(figure(one.point[subgroup])),
            "intervals": {"figure": interval(figure(one.replicates[subgroup]))},
        }
        for one in judged
    ]
    return cell(runs, "figure")


def main(
    runs: Annotated[Path, typer.Option(help="Where the runs are kept.")] = Path("runs/fairness"),
    seeds: Annotated[int, typer.Option(help="How many seeds, from 0.", min=1)] = 3,
    start: Annotated[str, typer.Option(help="The method whose model is personalized.")] = "fedauto",
    tasks: Annotated[list[str] | None, typer.Option(help="malignancy or classes; both.")] = None,
    strategies: Annotated[list[str] | None, typer.Option(help="Which strategies; by default all.")] = None,
    at_once: Annotated[int, typer.Option(help="Runs at once; with several, each has one worker.")] = 1,
) -> None:
    """Run what is missing and print the tables."""
    for task in tasks or LABEL_MAPS:
        federated = [run_of(start, task, seed) for seed in range(seeds)]
        run_all(federated, runs, at_once)
        asked = {
            strategy: [personal_run(start, strategy, task, seed, runs) for seed in range(seeds)]
            for strategy in strategies or STRATEGIES
        }
        run_all((run for of in zip(*asked.values(), strict=True) for run in of), runs, at_once)
        before = {name: System.read(of, runs, PERSONALIZE) for name, of in asked.items()}
        after = {name: System.read(of, runs, CALIBRATE) for name, of in asked.items()}
        base = {start: System.read(federated, runs, 0)}
        personal = {**base, **before}
        tables = [
            overall_table(personal),
            table_beside(personal, start),
            subgroup_tables(personal),
            "calibration by subgroup, on the test split",
            calibration_table({name: (before[name], after[name]) for name in asked}),
            "risk among the most confident",
            risk_table(after),
        ]
        print(f"### {task}\n\n" + "\n\n".join(tables), end="\n\n", flush=True)


if __name__ == "__main__":
    start(
        main,
        "--runs {scratch}/runs --seeds 1 --tasks malignancy --strategies none --strategies ditto",
        pictures=True,
    )
