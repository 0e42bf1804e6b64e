"""Is the dark group served worse disease by disease, or are its diseases harder? Pairs of diagnoses by tone.

For the models of `fairness.py` (FedAvg) and `closing_the_gap.py` (+ clinics), malignant against benign on
close-ups: how well the malignancy score tells one malignant diagnosis from one benign one, within each group
of skin tones (AUROC, test pictures of all seeds together, ranked within their own seed). Prints the share of
each malignant diagnosis among the malignant test pictures as well.

    DERMFED_DATA=... python benchmarks/what_limits.py --runs runs/fairness --seeds 3
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from closing_the_gap import fair_run, start_run
from fairness import run_of
from numpy.typing import NDArray
from quick import start
from recipe_runs import RecipeRun, run_all
from sklearn.metrics import roc_auc_score
from tables import print_table

from clients.data.prepare import prepare
from training.data.dataset import SPLITS
from training.jobs.job import Job, read_job
from training.jobs.run_folder import load_finished
from training.messages.message import GLOBAL
from training.models import Classifier, build_model

PAIRS = (("MEL", "NV"), ("MEL", "BKL"), ("BCC", "NV"), ("BCC", "BKL"))
CLOSE_UPS = {"image_type": "clinical: close-up"}


@dataclass(frozen=True)
class Scored:
    """Test pictures of one group in one seed: their diagnoses and malignancy scores."""

    diagnoses: NDArray[np.str_]
    scores: NDArray[np.float64]

    def auroc(self, malignant: str, benign: str) -> tuple[float, int]:
        """How often a picture of the one scores above one of the other, and from how many pairs."""
        first, second = self.diagnoses == malignant, self.diagnoses == benign
        pairs = int(first.sum() * second.sum())
        if not pairs:
            return 0.0, 0
        either = first | second
        return float(roc_auc_score(first[either], self.scores[either])), pairs


def cache() -> Path:
    """Where decoded pictures are kept."""
    return Path(os.environ.get("DERMFED_CACHE", "runs/cache"))


def scored(run: RecipeRun, runs: Path) -> dict[str, Scored]:
    """By subgroup, from the model that the run's first stage left."""
    folder = run.folder(runs)
    job = read_job(folder / "job.resolved.yaml")
    data = prepare(job.data, seed=job.seed, folder=folder, cache=cache())
    known = diagnoses(job, folder)
    model = build_model(job.model, len(data.labels), job.seed)
    finished = load_finished(folder / "checkpoints" / job.key(0), job.digest)
    assert finished is not None, f"{folder} is not finished"
    model.load_state_dict(finished.outcome.models[GLOBAL], strict=False)
    malignant = [place for place, label in enumerate(data.labels) if label.malignancy == "malignant"]
    found = {}
    for client in data.clients:
        pictures = data.examples(client, "test")
        batch = pictures.batch(np.arange(len(pictures)))
        names = np.array([known[picture.tobytes()] for picture in batch])
        found[client] = Scored(names, malignancy(model, batch)[:, malignant].sum(axis=1))
    return found


def diagnoses(job: Job, folder: Path) -> dict[bytes, str]:
    """What each close-up shows, by its pixels: the job itself knows malignant and benign alone."""
    changes = {"label_map": None, "train_only": {}, "where": CLOSE_UPS}
    data = prepare(job.data.model_copy(update=changes), seed=job.seed, folder=folder, cache=cache())
    return {
        picture.tobytes(): data.labels[label].code
        for client in data.clients
        for split in SPLITS
        for examples in [data.examples(client, split)]
        for picture, label in zip(
            examples.batch(np.arange(len(examples))), examples.labels.tolist(), strict=True
        )
    }


def malignancy(model: Classifier, pictures: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Probabilities `(pictures, classes)`."""
    model.eval()
    images = torch.from_numpy(pictures).permute(0, 3, 1, 2).float() / 255
    with torch.inference_mode():
        parts = [model(images[start : start + 256]) for start in range(0, len(images), 256)]
    return torch.softmax(torch.cat(parts), dim=1).double().numpy()


def over_seeds(found: Sequence[Scored], malignant: str, benign: str) -> str:
    """The mean over seeds, weighted by pairs, and the pictures of both."""
    values, pairs = zip(*(one.auroc(malignant, benign) for one in found), strict=True)
    sizes = [sum(int((one.diagnoses == name).sum()) for one in found) for name in (malignant, benign)]
    return f"{np.average(values, weights=pairs):.3f} ({sizes[0]}/{sizes[1]})" if sum(pairs) else "unknown"


def main(
    runs: Annotated[Path, typer.Option(help="Where the runs are kept.")] = Path("runs/fairness"),
    seeds: Annotated[int, typer.Option(help="How many seeds, from 0.", min=1)] = 3,
    do_runs: Annotated[bool, typer.Option("--do-runs", help="First do the runs that are missing.")] = False,
) -> None:
    """Print the table; the runs must be there, or be asked for."""
    systems: Mapping[str, Sequence[RecipeRun]] = {
        "fedavg": [run_of("fedavg", "malignancy", seed) for seed in range(seeds)],
        "+ clinics": [fair_run(seed, runs, clinics=True) for seed in range(seeds)],
    }
    if do_runs:
        starts = [start_run(seed) for seed in range(seeds)]
        run_all([*starts, *(run for of in systems.values() for run in of)], runs)
    rows = []
    for name, of in systems.items():
        by_seed = [scored(run, runs) for run in of]
        for subgroup in by_seed[0]:
            found = [one[subgroup] for one in by_seed]
            rows.append((name, subgroup, *(over_seeds(found, *pair) for pair in PAIRS)))
    print_table(("", "subgroup", *(f"{first} over {second} (n)" for first, second in PAIRS)), rows)


if __name__ == "__main__":
    start(main, "--runs {scratch}/runs --seeds 1 --do-runs", pictures=True)
