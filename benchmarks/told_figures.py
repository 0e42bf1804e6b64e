"""Figures that a run told, made of sums that left the hospitals, beside those of the predictions themselves.

The released models of a finished run look at its test pictures once more, here, where all of them lie: each
subgroup's pictures with the model that the service would route them to. scikit-learn makes figures of the
predictions; beside them stand those of the run's `summary.json`, and the widths of their 95 % intervals.
With two runs of one job, as two versions make them, they stand side by side.

Printed for all pictures and each subgroup: the exact figure, what each run told and by how much it is off,
and the widths.

    DERMFED_DATA=... python benchmarks/told_figures.py runs/before runs/after
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from quick import is_quick, start
from recipe_runs import RecipeRun, read_recipe, run_all
from sklearn.metrics import average_precision_score, balanced_accuracy_score, roc_auc_score
from tables import print_conditions, print_table
from whole_graph import answers

from clients.data.pictures.cache import cache_folder
from clients.data.prepare import prepare
from registry.bundle.folder import read_bundle
from registry.bundle.labels import GLOBAL
from registry.bundle.model import Graph
from training.data.dataset import Dataset, Examples
from training.jobs.job import Job, read_job

FIGURES = ("accuracy", "balanced_accuracy", "auroc", "auprc", "malignancy_auroc", "ece")
ALL = "all"
Predictions = tuple[NDArray[np.float64], NDArray[np.int64]]


def predictions(run: Path, job: Job) -> dict[str, Predictions]:
    """Probabilities `(n, classes)` and labels `(n,)` of the test pictures, by subgroup."""
    dataset = prepare(job.data, seed=job.seed, folder=Path(), cache=cache_folder())
    found: dict[str, list[Predictions]] = {}
    for place, part, told in answered(run, dataset):
        found.setdefault(place, []).append((told, part.labels))
    return {place: together(parts) for place, parts in found.items()}


def answered(run: Path, dataset: Dataset) -> Iterator[tuple[str, Examples, NDArray[np.float64]]]:
    """Each client's labelled test pictures of each subgroup, and what the model that serves it answers.

    The answers are probabilities `(n, classes)`.
    """
    bundles = {bundle.manifest.subgroup.name: bundle for bundle in map(read_bundle, folders(run))}
    for client in dataset.clients:
        examples = dataset.examples(client, "test")
        for number, place in enumerate(dataset.subgroups):
            part = examples.where((examples.subgroups == number) & (examples.labels >= 0))
            if len(part):
                graph = Graph(bundles.get(place, bundles[GLOBAL]).model, threads=1)
                yield place, part, answers(graph, part).probabilities.astype(np.float64)


def folders(run: Path) -> list[Path]:
    """Those of a run's bundles."""
    return sorted((run / "bundles").iterdir())


def together(parts: Sequence[Predictions]) -> Predictions:
    """Predictions one after the other."""
    return np.concatenate([told for told, _ in parts]), np.concatenate([labels for _, labels in parts])


def exact(
    told: NDArray[np.float64], labels: NDArray[np.int64], malignant: NDArray[np.bool_]
) -> dict[str, float]:
    """The figures of the predictions themselves; AUROC and AUPRC are means over classes with both kinds."""
    sides = [(labels == k, told[:, k]) for k in range(told.shape[1]) if 0 < (labels == k).sum() < len(labels)]
    confidence, right = told.max(axis=1), told.argmax(axis=1) == labels
    order = np.argsort(confidence, kind="stable")
    gaps = [
        len(part) * abs(right[part].mean() - confidence[part].mean())
        for part in np.array_split(order, 15)
        if len(part)
    ]
    return {
        "accuracy": float(right.mean()),
        "balanced_accuracy": float(balanced_accuracy_score(labels, told.argmax(axis=1))),
        "auroc": float(np.mean([roc_auc_score(of, score) for of, score in sides])),
        "auprc": float(np.mean([average_precision_score(of, score) for of, score in sides])),
        "malignancy_auroc": float(roc_auc_score(malignant[labels], told[:, malignant].sum(axis=1))),
        "ece": float(sum(gaps) / len(labels)),
    }


def rows_of(name: str, figures: Mapping[str, float], told: Sequence[Mapping[str, Any]]) -> list[list[object]]:
    """A row for each figure that the runs told of some pictures."""
    rows: list[list[object]] = []
    for figure in FIGURES:
        if not any(figure in one for one in told):
            continue
        cells = [cell(one, figure, figures[figure]) for one in told]
        rows.append([name, figure, f"{figures[figure]:.4f}", *(text for pair in cells for text in pair)])
    return rows


def cell(told: Mapping[str, Any], figure: str, truth: float) -> tuple[str, str]:
    """A told figure with how far it is off, and the width of its interval."""
    value = told.get(figure)
    ends = told.get("intervals", {}).get(figure)
    text = "–" if value is None else f"{value:.4f} ({value - truth:+.4f})"
    return text, "–" if ends is None else f"{ends[1] - ends[0]:.3f}"


def main(
    runs: Annotated[list[Path] | None, typer.Argument(help="Folders of finished runs of one job.")] = None,
    recipe: Annotated[
        str, typer.Option(help="Run this recipe where no folder is named.")
    ] = "fedauto@milk10k",
    out: Annotated[Path, typer.Option(help="Where such a run is kept.")] = Path("runs/told"),
) -> None:
    """Print the table."""
    given = list(runs or [])
    if not given:
        wanted = RecipeRun(recipe, read_recipe(recipe))
        run_all([wanted], out, 1)
        given = [wanted.folder(out)]
    job = read_job(given[-1] / "job.resolved.yaml")
    found = predictions(given[-1], job)
    first = read_bundle(folders(given[-1])[0]).manifest
    malignant = np.array([label.malignancy == "malignant" for label in first.labels])
    tests = [json.loads((run / "summary.json").read_text())["test"] for run in given]
    rows = rows_of(ALL, exact(*together(list(found.values())), malignant), tests)
    for place, (told, labels) in found.items():
        rows += rows_of(place, exact(told, labels, malignant), [one["by_subgroup"][place] for one in tests])
    print_conditions("Told figures beside exact ones", {"job": job.name, "quick": is_quick()})
    header = [text for run in given for text in (f"{run.name} (off by)", "width")]
    print_table(["pictures", "figure", "exact", *header], rows)


if __name__ == "__main__":
    start(main, "--out {scratch}/runs", pictures=True)
