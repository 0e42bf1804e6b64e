"""What noise on counts costs: the widths of intervals and how far figures are off, by ε.

The released models of a finished run answer its test pictures once more, here. Counts are made as hospitals
make them: as ever (all pictures, none under min_count), of one picture for each patient, and of these with
the noise that a job's `privacy.counts` asks for, many times over. Where several hospitals hold a subgroup and
masks are off, each adds all of the noise; --hospitals says how many there are.

Printed for all pictures and each subgroup: patients, each figure without noise, and by ε the mean width of
its 95 % interval and the mean distance of the figure from the one without noise.

    DERMFED_DATA=... python benchmarks/noisy_counts.py runs/told/fedauto@milk10k
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from quick import is_quick, start
from recipe_runs import RecipeRun, read_recipe, run_all
from tables import print_conditions, print_table
from told_figures import answered

from clients.data.pictures.cache import cache_folder
from clients.data.prepare import prepare
from registry.bundle.counts.counting import Block, NoisyCounts, count
from registry.bundle.counts.counts import Counts
from registry.bundle.counts.score_bins import smallest_cell
from registry.bundle.labels import Label, malignant_classes
from registry.bundle.metrics.summary import summarise
from training.data.dataset import Dataset
from training.data.folds import OfPatients
from training.jobs.job import Job, read_job
from training.privacy.dp.counts import variance_for
from training.rounds.client.disclosure import Noise, with_noise

FIGURES = ("accuracy", "balanced_accuracy", "malignancy_auroc")
SPREAD = "spread"
ALL = "all"
PARTS = 2  # a test tells a matrix and a histogram
DELTA = 1e-5
Blocks = dict[str, Block]


def blocks_of(run: Path, dataset: Dataset, cell: int) -> Blocks:
    """Counts of the test pictures as hospitals tell them, summed over them, by subgroup."""
    found: Blocks = {}
    for place, part, told in answered(run, dataset):
        block = count(
            told,
            part.labels,
            malignant=malignant_classes(dataset.labels),
            lesions=part.lesions,
            patients=part.people,
            smallest_cell=cell,
        )
        found[place] = found[place] + block if place in found else block
    return found


def noised(blocks: Blocks, epsilon: float, hospitals: int) -> Blocks:
    """The counts with noise, as so many hospitals add it up."""
    noise = Noise(variance_for(PARTS, epsilon, DELTA), together=False)
    found: Blocks = {}
    for name, block in blocks.items():
        exact = NoisyCounts.of(block.point, histogram=True, both_kinds=True)
        nothing = NoisyCounts.of(Counts.zeros(block.point.num_classes), histogram=True, both_kinds=True)
        told = with_noise(exact, noise)
        for _ in range(hospitals - 1):
            told = told + with_noise(nothing, noise)
        found[name] = Block.of_noisy(told)
    return found


def figures_of(blocks: Blocks, labels: tuple[Label, ...]) -> dict[tuple[str, str], tuple[float, float]]:
    """Each figure and the width of its interval, by subgroup and name."""
    summary = summarise(blocks, labels, list(blocks))
    by_place: Mapping[str, Any] = {ALL: summary, **summary["by_subgroup"]}
    found = {
        (place, name): (number(of[name]), width(of["intervals"].get(name)))
        for place, of in by_place.items()
        for name in FIGURES
    }
    fair = summary["fairness"]
    return found | {(ALL, SPREAD): (number(fair[SPREAD]), width(fair["intervals"].get(SPREAD)))}


def number(value: float | None) -> float:
    """A figure; nan where it is undefined."""
    return np.nan if value is None else value


def width(ends: list[float] | None) -> float:
    """That of an interval; nan where there is none."""
    return np.nan if ends is None else ends[1] - ends[0]


def row(
    key: tuple[str, str], ever: Any, exact: Any, by_epsilon: Mapping[float, list[Any]], patients: int
) -> list[object]:
    """The row of a figure."""
    value, wide = exact[key]
    cells: list[object] = [key[0], patients, key[1], f"{ever[key][1]:.3f}", f"{value:.3f}", f"{wide:.3f}"]
    for several in by_epsilon.values():
        told = np.array([one.get(key, (np.nan, np.nan)) for one in several])
        off = np.nanmean(np.abs(told[:, 0] - value)) if np.isfinite(told[:, 0]).any() else np.nan
        wider = np.nanmean(told[:, 1]) if np.isfinite(told[:, 1]).any() else np.nan
        cells.append(f"{wider:.3f} ({off:.3f})")
    return cells


def measure(run: Path, job: Job, epsilons: list[float], draws: int, hospitals: int) -> None:
    """Print the table of one run."""
    dataset = prepare(job.data, seed=job.seed, folder=Path(), cache=cache_folder())
    labels = tuple(dataset.labels)
    ever = figures_of(blocks_of(run, dataset, smallest_cell(job.privacy.min_count)), labels)
    blocks = blocks_of(run, OfPatients(dataset, ("test",)), 1)
    exact = figures_of(blocks, labels)
    by_epsilon = {
        epsilon: [figures_of(noised(blocks, epsilon, hospitals), labels) for _ in range(draws)]
        for epsilon in epsilons
    }
    patients = {name: int(block.point.n) for name, block in blocks.items()}
    patients[ALL] = sum(patients.values())
    deviations = ", ".join(
        f"{float(variance_for(PARTS, each, DELTA)) ** 0.5:.2f} (ε = {each:g})" for each in epsilons
    )
    conditions = {
        "job": job.name,
        "δ": DELTA,
        "noise of a hospital, standard deviation in a cell": deviations,
        "hospitals that add it": hospitals,
        "draws": draws,
        "quick": is_quick(),
    }
    print_conditions("Noise on counts", conditions)
    header = ["pictures", "patients", "figure", "width as ever", "one a patient", "width"]
    rows = [row(key, ever, exact, by_epsilon, patients[key[0]]) for key in exact]
    print_table([*header, *(f"ε = {each:g}: width (off)" for each in epsilons)], rows)


def main(
    run: Annotated[Path | None, typer.Argument(help="Folder of a finished run.")] = None,
    recipe: Annotated[str, typer.Option(help="Run this recipe where none is named.")] = "fedauto@milk10k",
    out: Annotated[Path, typer.Option(help="Where such a run is kept.")] = Path("runs/told"),
    epsilons: Annotated[str, typer.Option(help="Each ε, comma-separated.")] = "1,4,8",
    draws: Annotated[int, typer.Option(help="How often noise is drawn.")] = 50,
    hospitals: Annotated[str, typer.Option(help="How many add all of the noise, comma-separated.")] = "1,3",
) -> None:
    """Print a table for each number of hospitals."""
    if run is None:
        wanted = RecipeRun(recipe, read_recipe(recipe))
        run_all([wanted], out, 1)
        run = wanted.folder(out)
    job = read_job(run / "job.resolved.yaml")
    for each in hospitals.split(","):
        measure(run, job, [float(epsilon) for epsilon in epsilons.split(",")], draws, int(each))


if __name__ == "__main__":
    start(main, "--out {scratch}/runs --draws 2 --epsilons 4 --hospitals 2", pictures=True)
