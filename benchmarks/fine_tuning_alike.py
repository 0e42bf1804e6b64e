"""Is a pre-trained encoder worth more than a random one after fine-tuning, each with settings that suit it?

HAM10000 at 40 pixels, ten clients, a tenth of the labels: the encoders that `frozen_features.py` left, and
random weights of the same networks, are fine-tuned together for 30 rounds of two epochs. Rate and layer decay
are chosen for each start from one and the same grid, by the AUROC on the validation pictures of seed 0, and
then kept for all seeds; batch, rounds and steps are the same for all of one network. A start at random may so
learn with or without layer decay, as may one that knows something.

The criterion, fixed before the first run: pre-training is worth something after fine-tuning if the 95 %
interval of the paired difference in AUROC, over the test pictures of all seeds, lies above 0.

    DERMFED_DATA=... python benchmarks/fine_tuning_alike.py --runs runs/alike
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated

import typer
from cases import summary_of
from frozen_features import run_of as pretraining_of
from paired import difference, judged, over_all, shown
from quick import start
from recipe_runs import RecipeRun, cell, read_recipe, run_all
from tables import print_conditions, print_table, write_table

from registry.bundle.metrics import classification

RATES, DECAYS = (1e-3, 3e-3), (1.0, 0.75)
SETTINGS = tuple(product(RATES, DECAYS))
FIGURES = ("auroc", "balanced_accuracy")


@dataclass(frozen=True)
class Start:
    """What fine-tuning begins with.

    Attributes:
        title: in the tables.
        arm: of `frozen_features`, whose network it has.
        pretrained: whether it has that arm's weights, too; random ones otherwise.
    """

    title: str
    arm: str
    pretrained: bool


CNN = (Start("ResNet-18, random", "fedsimclr", False), Start("ResNet-18, FedSimCLR", "fedsimclr", True))
VIT = (Start("ViT, random", "fedmae", False), Start("ViT, FedMAE", "fedmae", True))
Setting = tuple[float, float]


def run_of(begin: Start, setting: Setting, seed: int, pretraining: RecipeRun, folder: Path) -> RecipeRun:
    """Fine-tuning together from one start."""
    rate, decay = setting
    job = read_recipe(f"{begin.arm}@ham10000")
    (stage,) = [one for one in job["stages"] if one["stage"] == "federate"]
    objective = stage["objective"]
    optimizer = {**objective["optimizer"], "lr": rate, "layer_decay": decay}
    stage = {**stage, "objective": {**objective, "optimizer": optimizer}, "evaluate_on": "validation"}
    model = dict(pretraining.job["model"])
    if begin.pretrained:
        model["weights"] = str((folder / "checkpoints" / "0-pretrain" / "outcome.safetensors").resolve())
    kind = begin.arm if begin.pretrained else f"random-{begin.arm}"
    name = f"{kind}-{rate:g}-{decay:g}-{seed}"
    return RecipeRun(name, {**job, "name": name, "seed": seed, "model": model, "stages": [stage]})


def on_validation(run: RecipeRun, runs: Path) -> float:
    """The AUROC on validation pictures after the last round."""
    last = (run.folder(runs) / "metrics.jsonl").read_text().splitlines()[-1]
    return float(json.loads(last)["metrics"]["auroc"])


@dataclass(frozen=True)
class Compared:
    """Two starts of one network.

    Attributes:
        tried: of each start, the run of seed 0 with each setting.
        chosen: of each start, the setting.
        final: of each start, the run of each seed with that setting.
    """

    tried: Mapping[Start, Mapping[Setting, RecipeRun]]
    chosen: Mapping[Start, Setting]
    final: Mapping[Start, Sequence[RecipeRun]]

    def on_validation(self, runs: Path) -> list[tuple[str, ...]]:
        """Of each start: the AUROC of each setting, and which one was chosen."""
        return [
            (
                begin.title,
                *(f"{on_validation(run, runs):.3f}" for run in of.values()),
                said(self.chosen[begin]),
            )
            for begin, of in self.tried.items()
        ]

    def on_test(self, runs: Path) -> list[tuple[object, ...]]:
        """Of each start: the figures on test pictures."""
        return [
            (
                begin.title,
                len(of),
                *(cell([summary_of(run, runs)["test"] for run in of], key) for key in FIGURES),
            )
            for begin, of in self.final.items()
        ]

    def differences(self, runs: Path) -> tuple[str, ...]:
        """The second start less the first, and what the criterion says."""
        random, knowing = self.final
        counts = [[judged(run, runs, 0) for run in self.final[begin]] for begin in (knowing, random)]
        found = [difference(over_all(getattr(classification, key)), *counts) for key in FIGURES]
        ends = found[0][1]
        worth = "yes" if ends is not None and ends[0] > 0 else "not shown"
        return f"{knowing.title} over random", *map(shown, found), worth


def said(setting: Setting) -> str:
    """Rate and layer decay."""
    return "{:g}, {:g}".format(*setting)


def compare(
    starts: Sequence[Start], pretrainings: Sequence[RecipeRun], pretrained: Path, runs: Path, at_once: int
) -> Compared:
    """Do what is missing: pre-training, each setting on seed 0, the chosen one on all seeds."""
    run_all(pretrainings, pretrained, at_once)

    def run(begin: Start, setting: Setting, seed: int) -> RecipeRun:
        return run_of(begin, setting, seed, pretrainings[seed], pretrainings[seed].folder(pretrained))

    tried = {begin: {one: run(begin, one, 0) for one in SETTINGS} for begin in starts}
    run_all([one for of in tried.values() for one in of.values()], runs, at_once)
    chosen = {begin: max(of, key=lambda one: on_validation(of[one], runs)) for begin, of in tried.items()}
    final = {
        begin: [run(begin, chosen[begin], seed) for seed in range(len(pretrainings))] for begin in starts
    }
    run_all([one for of in final.values() for one in of], runs, at_once)
    return Compared(tried, chosen, final)


def main(
    runs: Annotated[Path, typer.Option(help="Where the runs are kept.")] = Path("runs/alike"),
    pretrained: Annotated[Path, typer.Option(help="Where those of frozen_features are.")] = Path(
        "runs/frozen_features"
    ),
    rounds: Annotated[int, typer.Option(help="Of the CNN's pre-training.", min=1)] = 60,
    vit_rounds: Annotated[int, typer.Option(help="Of the ViT's, two epochs each.", min=1)] = 100,
    seeds: Annotated[int, typer.Option(help="Of the CNN, from 0.", min=1)] = 3,
    vit_seeds: Annotated[int, typer.Option(help="Of the ViT, from 0; 0 leaves it out.", min=0)] = 1,
    at_once: Annotated[int, typer.Option(help="Runs at once; with several, each has one worker.")] = 1,
    table: Annotated[Path | None, typer.Option(help="Also write the figures to this CSV.")] = None,
) -> None:
    """Pre-train what is missing, choose settings, fine-tune, and print the tables."""
    print_conditions(
        "Fine-tuning with settings chosen for each start",
        {"rates": RATES, "layer decays": DECAYS, "chosen by": "AUROC on validation pictures, seed 0"},
    )
    networks = [(CNN, rounds, seeds), *([(VIT, vit_rounds, vit_seeds)] if vit_seeds else [])]
    found = []
    for starts, of_rounds, count in networks:
        pretrainings = [pretraining_of(starts[0].arm, seed, of_rounds) for seed in range(count)]
        found.append(compare(starts, pretrainings, pretrained, runs, at_once))
    grid = [row for one in found for row in one.on_validation(runs)]
    print_table(("AUROC on validation", *map(said, SETTINGS), "chosen"), grid)
    head = ("start", "seeds", *(key.replace("_", " ") for key in FIGURES))
    figures = [row for one in found for row in one.on_test(runs)]
    print_table(head, figures)
    if table is not None:
        write_table(table, head, figures)
    print_table(
        ("paired difference", *(key.replace("_", " ") for key in FIGURES), "worth something"),
        [one.differences(runs) for one in found],
    )


if __name__ == "__main__":
    start(
        main,
        "--runs {scratch}/runs --pretrained {scratch}/pretrained --rounds 1 --seeds 1 --vit-seeds 0",
        pictures=True,
    )
